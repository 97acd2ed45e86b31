//! Store URLs of every scheme: what is taken means the same when it is written anew, and nothing that
//! is said of one has its password in it.

use std::fmt::Write;
use std::time::Duration;

use taketurns_core::limits;
use taketurns_servers::fuzz;

use crate::engine::by_url;
use crate::engine::nodes::NodeList;
use crate::engine::redis::foreign::protocol::ForeignProtocol;
use crate::engine::redis::url::secret::{Credentials, Source};
use crate::engine::redis::url::{Address, Failover, ModuleUse, RedisConfig, Servers};

/// In every URL that has a password. Damage that goes through it leaves another one.
const PASSWORD: &str = "hunter2";

const URLS: [&str; 13] = [
    "redis://us%20er:hunter2@[::1]:6379/2?prefix=a:&max_lease=90&failover=strict",
    "redis://h?connect_timeout=0.5&response_timeout=10",
    "redis://:pa%2Fhunter2@h?module=required&strict=true",
    "rediss://h:6380?password_file=/run/secret&ca=/x&cert=/y&key=/z",
    "redis+sentinel://u:hunter2@h1,h2:26380/turns/1?sentinel_user=x&sentinel_password_env=P",
    "rediss+cluster://u:hunter2@h1:7000,[fe80::1]?module=off&failover=immediate",
    "redis://h?protocol=plain&unfenced=ok",
    "redis+cluster://h?protocol=redturn&prefix=x:",
    "redis://h?protocol=fairqueue",
    "redis://u:hunter2@h?protocol=zmutex&timeout=30.5&release=remove",
    "quorum:redis://u:hunter2@a,redis://b:7000/2?prefix=x:,rediss://c",
    "quorum:redis://a?protocol=plain,redis://:hunter2@b?protocol=plain,memory:c",
    "file:/var/lib/app/locks.db",
];

/// Is the password still where one is? Without a `:` before it and an `@` behind it, it is something else.
fn has_password(url: &str) -> bool {
    url.split_once(PASSWORD).is_some_and(|(before, behind)| {
        let user = before.rsplit_once("//").map_or(before, |(_, user)| user);
        user.contains(':') && behind.contains('@')
    })
}

/// As it may be written, with everything escaped that can be.
fn write(config: &RedisConfig) -> String {
    let escaped =
        |text: &str| text.bytes().fold(String::new(), |text, byte| text + &format!("%{byte:02x}"));
    let hosts = |addresses: &[Address]| {
        addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(",")
    };
    let mut options = String::new();
    let mut option = |name: &str, value: &str| {
        let _ = write!(options, "&{name}={}", escaped(value));
    };
    let mut credentials = |prefix: &str, given: &Credentials| match &given.password {
        Source::File(path) => option(&format!("{prefix}password_file"), &path.to_string_lossy()),
        Source::Variable(name) => option(&format!("{prefix}password_env"), name),
        Source::Nothing | Source::Url(_) | Source::Surroundings(_) => {}
    };
    credentials("", &config.credentials);
    let user = escaped(config.credentials.user.as_deref().unwrap_or_default());
    let login = match &config.credentials.password {
        Source::Url(secret) => format!("{user}:{}@", escaped(secret.reveal())),
        _ => format!("{user}@"),
    };
    let (kind, place) = match &config.servers {
        Servers::One(address) => ("", format!("{address}/{}", config.db)),
        Servers::Cluster(addresses) => ("+cluster", hosts(addresses)),
        Servers::Sentinel { sentinels, master, credentials: theirs } => {
            credentials("sentinel_", theirs);
            if let Some(user) = &theirs.user {
                option("sentinel_user", user);
            }
            ("+sentinel", format!("{}/{}/{}", hosts(sentinels), escaped(master), config.db))
        }
    };
    if let Some(tls) = &config.tls {
        let identity = tls.identity.iter().flat_map(|(cert, key)| [("cert", cert), ("key", key)]);
        for (name, path) in tls.ca.iter().map(|ca| ("ca", ca)).chain(identity) {
            option(name, &path.to_string_lossy());
        }
    }
    option("prefix", &config.prefix);
    option(
        "failover",
        match config.failover {
            Failover::Quarantine => "quarantine",
            Failover::Strict => "strict",
            Failover::Immediate => "immediate",
        },
    );
    option("strict", if config.strict { "true" } else { "false" });
    option(
        "module",
        match config.native {
            ModuleUse::Auto => "auto",
            ModuleUse::Off => "off",
            ModuleUse::Required => "required",
        },
    );
    let seconds = |span: Duration| span.as_secs_f64().to_string();
    option("connect_timeout", &seconds(config.timeouts.connect));
    option("response_timeout", &seconds(config.timeouts.response));
    let wire = config.protocol.as_ref().map(|protocol| protocol.wire);
    match wire {
        Some(ForeignProtocol::Zmutex { timeout, removes }) => {
            option("timeout", &seconds(timeout));
            option("release", if removes { "remove" } else { "zero" });
        }
        _ => option("max_lease", &seconds(config.max_lease)),
    }
    if let Some(protocol) = &config.protocol {
        option("protocol", protocol.wire.form().name);
        if protocol.unfenced {
            option("unfenced", "ok");
        }
    }
    let scheme = if config.tls.is_some() { "rediss" } else { "redis" };
    format!("{scheme}{kind}://{login}{place}?{options}")
}

#[test]
fn a_redis_url_that_is_taken_means_the_same_when_it_is_written_anew() {
    fuzz::rounds("URLs of Redis", 20_000, |dice| {
        let url = dice.damaged_text(&URLS[..9]);
        let config = match RedisConfig::parse(&url) {
            Ok(config) => config,
            Err(why) => {
                assert!(!(has_password(&url) && why.contains(PASSWORD)), "{url}: {why}");
                assert!(!why.is_empty());
                return false;
            }
        };
        let shown = format!("{config:?}");
        assert!(!(has_password(&url) && shown.contains(PASSWORD)), "{url}: {shown}");
        let again = write(&config);
        assert_eq!(RedisConfig::parse(&again), Ok(config), "{url} as {again}");
        true
    });
}

#[test]
fn a_url_of_any_scheme_is_taken_or_refused_without_its_password() {
    fuzz::rounds("URLs of all schemes", 20_000, |dice| {
        let url = dice.damaged_text(&URLS);
        let refused = match by_url(&url) {
            Ok(_) => None,
            Err(error) => Some(format!("{error} {error:?}")),
        };
        if let Some(list) = url.strip_prefix("quorum:")
            && let Ok(members) = NodeList::parse(list)
        {
            let shown = format!("{members:?}");
            assert!(!(has_password(&url) && shown.contains(PASSWORD)), "{url}: {shown}");
            assert_eq!(refused, None, "{url}");
        }
        let said = refused.as_deref().unwrap_or_default();
        assert!(!(has_password(&url) && said.contains(PASSWORD)), "{url}: {said}");
        refused.is_none()
    });
}

#[test]
fn no_url_gives_a_lease_that_no_lock_takes() {
    fuzz::rounds("longest leases", 5_000, |dice| {
        let url = dice.damaged_text(&["redis://h?max_lease=90.25", "redis://h?max_lease=8.64e4"]);
        let Ok(config) = RedisConfig::parse(&url) else { return false };
        assert!(limits::is_lease(crate::clock::millis(config.max_lease)), "{url}");
        true
    });
}
