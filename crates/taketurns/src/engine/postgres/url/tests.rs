//! What URLs mean, and that an error shows nothing of a password.

use super::*;

fn parsed(url: &str) -> PostgresConfig {
    PostgresConfig::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn tcp(host: &str, port: u16) -> PostgresHost {
    PostgresHost::Tcp(Address { host: host.to_owned(), port })
}

#[test]
fn a_url_without_options_has_the_defaults() {
    for scheme in ["postgres", "postgresql"] {
        let config = parsed(&format!("{scheme}://db/app"));
        assert_eq!(config.hosts, [tcp("db", 5432)]);
        assert_eq!(config.database.as_deref(), Some("app"));
        assert_eq!(config.max_lease, Duration::from_secs(60));
        assert_eq!(config.failover, PostgresFailover::Quarantine);
        assert!(!config.synchronous_commit && config.tls.is_none());
        assert_eq!((config.connections, config.listen), (4, None));
    }
}

#[test]
fn several_hosts_and_sockets() {
    assert_eq!(
        parsed("postgres://a,b:6000,[::1]/app").hosts,
        [tcp("a", 5432), tcp("b", 6000), tcp("::1", 5432)]
    );
    let socket = |port| PostgresHost::Socket("/run/pg".into(), port);
    assert_eq!(parsed("postgres://%2Frun%2Fpg/app").hosts, [socket(5432)]);
    assert_eq!(parsed("postgres://%2Frun%2Fpg:6000/app").hosts, [socket(6000)]);
    assert_eq!(parsed("postgres:///app?host=/run/pg&port=6000").hosts, [socket(6000)]);
    assert_eq!(socket(5432).to_string(), "/run/pg/.s.PGSQL.5432");
    assert_eq!(parsed("postgres://").hosts, [tcp("127.0.0.1", 5432)]);
}

#[test]
fn user_password_and_database_may_be_escaped() {
    let config = parsed("postgres://a%40b:p%2Fw@db/my%20app");
    let login = config.credentials.read().unwrap().unwrap();
    assert_eq!(login.user.as_deref(), Some("a@b"));
    assert_eq!(login.password.reveal(), "p/w");
    assert_eq!(config.database.as_deref(), Some("my app"));
    assert!(!format!("{config:?}").contains("p/w"));
}

#[test]
fn a_promise_of_synchronous_standbys_needs_synchronous_commits() {
    assert!(parsed("postgres://db/app?failover=synchronous").synchronous_commit);
    assert!(parsed("postgres://db/app?synchronous_commit=on").synchronous_commit);
    let contradiction = "postgres://db/app?failover=synchronous&synchronous_commit=off";
    assert!(PostgresConfig::parse(contradiction).unwrap_err().contains("exclude each other"));
}

#[test]
fn another_place_to_listen_is_a_url_in_the_url() {
    let config = parsed("postgres://bouncer:6432/app?listen=postgres%3A%2F%2Fdb%2Fapp");
    assert_eq!(config.listen.unwrap().hosts, [tcp("db", 5432)]);
    let nested = "postgres://a/app?listen=postgres%3A%2F%2Fb%3Flisten%3Dpostgres%253A%252F%252Fc";
    assert!(PostgresConfig::parse(nested).unwrap_err().contains("listen"));
}

#[test]
fn tls_is_asked_for_by_sslmode() {
    let tls = |url| parsed(url).tls;
    assert!(tls("postgres://db?sslmode=disable").is_none());
    assert!(tls("postgres://db?sslmode=require").is_some());
    assert_eq!(
        tls("postgres://db?sslmode=verify-full&ca=/ca.pem").unwrap().ca,
        Some("/ca.pem".into())
    );
    let error = PostgresConfig::parse("postgres://db?ca=/ca.pem").unwrap_err();
    assert!(error.contains("sslmode=verify-full"), "{error}");
}

#[test]
fn what_makes_no_sense_is_refused_without_the_password() {
    for (url, why) in [
        ("postgres:db", "two slashes"),
        ("postgres://u:hunter2@db/a/b", "where none can be"),
        ("postgres://u:hunter2@db/app?prefix=x", "no option"),
        ("postgres://u:hunter2@db/app?sslmode=prefer", "sslmode is one of"),
        ("postgres://u:hunter2@db/app?failover=strict", "failover is one of"),
        ("postgres://u:hunter2@db/app?connections=0", "from 1 to 32"),
        ("postgres://u:hunter2@db/app?synchronous_commit=maybe", "one of off, on"),
        ("postgres://u:hunter2@db/app?password_env=X", "one place"),
        ("postgres://u:hunter2@db:99999/app", "from 1 to 65535"),
        ("postgres://u:hunter2@db/app?host=other", "named twice"),
        ("postgres://u:hunter2@db/app?max_lease=0", "in seconds"),
    ] {
        let error = PostgresConfig::parse(url).unwrap_err();
        assert!(error.contains(why), "{url}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
