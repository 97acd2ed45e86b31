//! What URLs are read as, and what is said of bad ones.

use std::path::PathBuf;
use std::time::Duration;

use crate::engine::redis::foreign::protocol::ForeignProtocol;
use crate::engine::redis::url::secret::{Secret, Source};
use crate::engine::redis::url::{
    Address, Failover, ModuleUse, RedisConfig, Servers, Timeouts, TlsConfig, VARIABLES,
};

fn parse(url: &str) -> RedisConfig {
    RedisConfig::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn one(host: &str, port: u16) -> Servers {
    Servers::One(at(host, port))
}

fn at(host: &str, port: u16) -> Address {
    Address { host: host.to_owned(), port }
}

fn given(password: &str) -> Source {
    Source::Url(Secret::new(password.to_owned()))
}

#[test]
fn a_bare_url_means_the_defaults() {
    let config = parse("redis://");
    assert_eq!(config.servers, one("127.0.0.1", 6379));
    assert_eq!((config.db, config.strict, config.tls), (0, false, None));
    assert_eq!((config.prefix.as_str(), config.max_lease), ("tt:", Duration::from_secs(60)));
    assert_eq!((config.failover, config.native), (Failover::Quarantine, ModuleUse::Auto));
    assert_eq!(
        (config.credentials.user, config.credentials.password),
        (None, Source::Surroundings(VARIABLES))
    );
}

#[test]
fn hosts_ports_and_databases() {
    assert_eq!(parse("redis://h").servers, one("h", 6379));
    assert_eq!(parse("redis://h:7000/").servers, one("h", 7000));
    assert_eq!(parse("redis://:7000/3").db, 3);
    assert_eq!(parse("redis://[::1]").servers, one("::1", 6379));
    assert_eq!(parse("redis://[fe80::1]:7/9").servers, one("fe80::1", 7));
    assert_eq!(at("::1", 7).to_string(), "[::1]:7");
    let cluster = Servers::Cluster(vec![at("a", 6379), at("b", 7001)]);
    assert_eq!(parse("redis+cluster://a,b:7001").servers, cluster);
}

#[test]
fn users_and_passwords_are_decoded() {
    let credentials = |url| parse(url).credentials;
    assert_eq!(credentials("redis://bob@h").user.as_deref(), Some("bob"));
    assert_eq!(credentials("redis://bob@h").password, Source::Surroundings(VARIABLES));
    assert_eq!(credentials("redis://:p%40%2F%3a@h").password, given("p@/:"));
    assert_eq!(credentials("redis://b%20b:p:q@h").user.as_deref(), Some("b b"));
    assert_eq!(credentials("redis://b:p:q@h").password, given("p:q"));
    assert_eq!(credentials("redis://b:@h").password, given(""));
    assert_eq!(
        credentials("redis://b@h?password_file=/run/a%26b").password,
        Source::File(PathBuf::from("/run/a&b"))
    );
    assert_eq!(credentials("redis://h?password_env=PW").password, Source::Variable("PW".into()));
}

#[test]
fn sentinel_has_its_own_port_name_and_credentials() {
    let config = parse(
        "redis+sentinel://u:p@h1,h2:9,[::1]/my%20master/4?sentinel_user=s&sentinel_password_env=E",
    );
    let Servers::Sentinel { sentinels, master, credentials } = config.servers else {
        panic!("{:?}", config.servers);
    };
    assert_eq!(sentinels, [at("h1", 26379), at("h2", 9), at("::1", 26379)]);
    assert_eq!((master.as_str(), config.db), ("my master", 4));
    assert_eq!(credentials.user.as_deref(), Some("s"));
    assert_eq!(credentials.password, Source::Variable("E".into()));
    assert_eq!(config.credentials.password, given("p"));
}

#[test]
fn options() {
    let config = parse("redis://h?prefix=a%3Ab&max_lease=1.5&failover=strict&strict=true");
    assert_eq!((config.prefix.as_str(), config.max_lease), ("a:b", Duration::from_millis(1500)));
    assert_eq!((config.failover, config.strict), (Failover::Strict, true));
    assert_eq!(parse("redis://h?prefix=").prefix, "");
    assert_eq!(parse("redis://h?failover=immediate").failover, Failover::Immediate);
    for (word, native) in
        [("auto", ModuleUse::Auto), ("off", ModuleUse::Off), ("required", ModuleUse::Required)]
    {
        assert_eq!(parse(&format!("redis://h?module={word}")).native, native);
    }
    assert_eq!(parse("rediss://h").tls, Some(TlsConfig::default()));
    let tls = parse("rediss+cluster://h?ca=/c&cert=/a&key=/b").tls.unwrap();
    assert_eq!(tls.ca, Some("/c".into()));
    assert_eq!(tls.identity, Some(("/a".into(), "/b".into())));
}

#[test]
fn timeouts_are_two_seconds_unless_the_url_says_otherwise() {
    let seconds = |connect, response| Timeouts {
        connect: Duration::from_secs_f64(connect),
        response: Duration::from_secs_f64(response),
    };
    assert_eq!(parse("redis://h").timeouts, seconds(2.0, 2.0));
    assert_eq!(parse("redis://h?connect_timeout=0.25").timeouts, seconds(0.25, 2.0));
    let sentinel = parse("redis+sentinel://h/m?response_timeout=60&connect_timeout=0.01");
    assert_eq!(sentinel.timeouts, seconds(0.01, 60.0));
    assert_eq!(parse("redis+cluster://h?response_timeout=10").timeouts, seconds(2.0, 10.0));
}

#[test]
fn longer_timeouts_give_multi_step_requests_more_time() {
    let stretched = |url| parse(url).timeouts.stretch(Duration::from_secs(15));
    assert_eq!(stretched("redis://h?response_timeout=0.5"), Duration::from_secs(15));
    assert_eq!(stretched("redis://h?response_timeout=4"), Duration::from_secs(30));
    assert_eq!(stretched("redis://h?connect_timeout=6"), Duration::from_secs(45));
}

#[test]
fn the_timeout_of_a_sorted_set_is_the_longest_lease() {
    let wire = |url| {
        let config = parse(url);
        let wire = config.protocol.expect("a protocol").wire;
        assert_eq!(wire.max_lease(), Some(config.max_lease));
        wire
    };
    let zmutex = |seconds, removes| ForeignProtocol::Zmutex {
        timeout: Duration::from_secs(seconds),
        removes,
    };
    assert_eq!(wire("redis://h?protocol=zmutex"), zmutex(60, false));
    assert_eq!(wire("redis://h?timeout=7&protocol=zmutex&release=remove"), zmutex(7, true));
    assert_eq!(wire("redis+cluster://h?protocol=zmutex&release=zero"), zmutex(60, false));
}

/// The URL, and a piece of what is said about it.
const BAD: &[(&str, &str)] = &[
    ("redis:/h", "redis://"),
    ("http://:SECRET@h", "redis+sentinel://"),
    ("redis://:SECRET", "port"),
    ("redis://h:0", "port"),
    ("redis://h:65536", "port"),
    ("redis://u:SEC/RET@h", "%2F"),
    ("redis://u:SEC?RET@h", "%3F"),
    ("redis://u:SEC#RET@h", "%23"),
    ("redis://u:SEC%RET@h", "the password has a %"),
    ("redis://u:SECRET%ff@h", "the password is not UTF-8"),
    ("redis://%+1SECRET@h", "the user has a %"),
    ("redis://::1", "brackets"),
    ("redis://[::1", "bracket"),
    ("redis://[::1]x", "after a host's ]"),
    ("redis://[SECRET]", "IPv6"),
    ("redis://h h", "character"),
    ("redis://a,b", "one host"),
    ("redis://h/two", "database"),
    ("redis://h/-1", "database"),
    ("redis+cluster://h/1", "no databases"),
    ("redis+sentinel://h", "master's name"),
    ("redis+sentinel://h/m/x", "database"),
    ("redis://h?ttl=1", "\"ttl\"; the options are prefix,"),
    ("redis://h?prefix=a&prefix=b", "\"prefix\" is there twice"),
    ("redis://h?prefix=%0a", "control"),
    ("redis+cluster://h?prefix={a}", "{"),
    ("redis://h?max_lease=0.5", "max_lease"),
    ("redis://h?max_lease=NaN", "max_lease"),
    ("redis://h?max_lease=86401", "max_lease"),
    ("redis://h?connect_timeout=0", "connect_timeout is in seconds, from 0.01 to 60"),
    ("redis://h?connect_timeout=-1", "connect_timeout"),
    ("redis://h?response_timeout=61", "response_timeout is in seconds, from 0.01 to 60"),
    ("redis://h?response_timeout=NaN", "response_timeout"),
    ("redis://h?response_timeout=2s", "response_timeout"),
    ("redis://h?failover=never", "quarantine"),
    ("redis://h?strict=1", "strict"),
    ("redis://h?module=on", "auto, off, required"),
    ("redis://h?protocol=SECRET", "protocol is one of plain"),
    ("redis://h?protocol=plain&unfenced=no", "only be ok"),
    ("redis://h?unfenced=ok", "only for a protocol="),
    ("redis://h?protocol=plain&prefix=", "can't be empty"),
    ("redis://h?protocol=fairqueue&prefix=lock:", "can't be lock:"),
    ("redis://h?protocol=fairqueue&prefix=lock-queue:", "can't be lock-queue:"),
    ("redis+cluster://h?protocol=fairqueue", "fairqueue has no Cluster"),
    ("redis+cluster://h?protocol=python-redis-lock", "python-redis-lock has no Cluster"),
    ("redis://h?protocol=plain&module=required", "exclude each other"),
    ("redis://h?protocol=zmutex&timeout=0", "timeout is in seconds, from 1 to 86400"),
    ("redis://h?protocol=zmutex&timeout=86401", "timeout"),
    ("redis://h?protocol=zmutex&release=delete", "zero, remove"),
    ("redis://h?protocol=zmutex&max_lease=60", "its timeout="),
    ("redis://h?timeout=60", "\"timeout\" is only for protocol=zmutex"),
    ("redis://h?protocol=plain&release=zero", "\"release\" is only for protocol=zmutex"),
    ("redis://h?ca=/x", "rediss"),
    ("rediss://h?cert=/x", "together"),
    ("rediss://h?ca=", "needs a path"),
    ("redis://:SECRET@h?password_env=E", "one place"),
    ("redis://h?password_env=E&password_file=/f", "one place"),
    ("redis://h?password_env=", "variable"),
    ("redis://h?sentinel_user=u", "redis+sentinel"),
];

#[test]
fn what_is_wrong_is_said_without_the_password() {
    for (url, piece) in BAD {
        let error = RedisConfig::parse(url).expect_err(url);
        assert!(error.contains(piece), "{url}: {error}");
        assert!(!error.contains("SEC") && !error.contains("RET"), "{url}: {error}");
        assert!(!error.contains('\n') && !error.is_empty(), "{url}: {error}");
    }
    let long = format!("redis://h?prefix={}", "x".repeat(65));
    assert!(RedisConfig::parse(&long).unwrap_err().contains("64"));
}

#[test]
fn announced_addresses() {
    let announced = |text| Address::announced(text, "asked");
    assert_eq!(announced("10.0.0.1:7"), Some(at("10.0.0.1", 7)));
    assert_eq!(announced(":7"), Some(at("asked", 7)));
    assert_eq!(announced("?:7"), Some(at("asked", 7)));
    assert_eq!(announced("::1:7"), Some(at("::1", 7)));
    assert_eq!(announced("nothing"), None);
    assert_eq!(announced("h:0"), None);
}
