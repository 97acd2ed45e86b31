//! Every branch of the judgement, on a server that is good but for one thing.

use std::collections::HashMap;
use std::time::Duration;

use super::super::gather::{Answers, ExaminedServer, ServerPart, Trip};
use super::super::rights::Rights;
use super::{ClockReference, judge};
use crate::doctor::{Check, Level};
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::handshake::facts::ServerFacts;
use crate::engine::redis::url::{Address, RedisConfig};

const NOW_MS: u64 = 1_700_000_000_000;

const INFO: &str = "redis_version:7.2.0\nredis_mode:standalone\nrun_id:now\nuptime_in_seconds:500\n\
    role:master\nmaxmemory:0\nused_memory:1048576\nmaxmemory_policy:noeviction\nloading:0\n\
    aof_enabled:1\naof_last_write_status:ok\nrdb_last_bgsave_status:ok\ncluster_enabled:0\n";

const MODULE: &str = "module:name=fencelock,ver=3,api=1\nfencelock_failover:quarantine\n\
    fencelock_max_lease_ms:60000\n";

fn settings() -> HashMap<String, String> {
    let all = [("save", ""), ("appendfsync", "always"), ("timeout", "0")];
    all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn trip(ahead_ms: i64, took_ms: u64) -> Trip {
    Trip {
        sent_ms: NOW_MS,
        took: Duration::from_millis(took_ms),
        server_ms: NOW_MS.saturating_add_signed(ahead_ms) + took_ms / 2,
    }
}

/// What a server with this INFO answers, good otherwise.
fn answers(info: &str) -> Answers {
    Answers {
        resp3: true,
        database: Ok(()),
        facts: ServerFacts::parse(info, NOW_MS),
        info: Ok(info.to_owned()),
        settings: Some(settings()),
        lag: None,
        user: Some("bob".to_owned()),
        trips: vec![trip(0, 2); 3],
        rights: Ok(Rights::default()),
        subscribes: Ok(()),
        marker: Some(Ok(String::new())),
        members: None,
    }
}

fn server(answers: Answers) -> ExaminedServer {
    ExaminedServer {
        address: Address { host: "127.0.0.1".to_owned(), port: 7 },
        part: ServerPart::Alone,
        login: Some("bob".to_owned()),
        is_open: false,
        answers: Ok(answers),
    }
}

fn changed(from: &str, to: &str) -> ExaminedServer {
    assert!(INFO.contains(from), "{from}");
    server(answers(&INFO.replace(from, to)))
}

fn with(change: impl FnOnce(&mut Answers)) -> ExaminedServer {
    let mut answers = answers(INFO);
    change(&mut answers);
    server(answers)
}

fn with_setting(name: &str, value: &str) -> ExaminedServer {
    with(|answers| {
        let settings = answers.settings.as_mut().expect("settings");
        settings.insert(name.to_owned(), value.to_owned());
    })
}

fn judged(url: &str, server: &ExaminedServer) -> Vec<Check> {
    judge(&RedisConfig::parse(url).expect("a URL"), server, ClockReference::Ours)
}

/// The one thing that is not as it should be.
#[track_caller]
fn only(url: &str, server: &ExaminedServer) -> Check {
    let mut bad = judged(url, server);
    bad.retain(|check| check.level > Level::Ok);
    let [only] = &bad[..] else { panic!("{bad:?}") };
    assert!(only.advice.as_ref().is_some_and(|advice| !advice.is_empty()), "{only:?}");
    only.clone()
}

#[track_caller]
fn is(server: &ExaminedServer, name: &str, level: Level, piece: &str) {
    is_at("redis://h", server, name, level, piece);
}

#[track_caller]
fn is_at(url: &str, server: &ExaminedServer, name: &str, level: Level, piece: &str) {
    let only = only(url, server);
    assert_eq!((only.name, only.level), (name, level), "{only:?}");
    let whole = format!("{} → {}", only.found, only.advice.unwrap_or_default());
    assert!(whole.contains(piece), "{piece:?} is not in {whole:?}");
}

#[track_caller]
fn is_well(url: &str, server: &ExaminedServer, name: &str, piece: &str) {
    let checks = judged(url, server);
    assert!(checks.iter().all(|check| check.level == Level::Ok), "{checks:?}");
    let check = checks.iter().find(|check| check.name == name);
    let check = check.unwrap_or_else(|| panic!("no {name} in {checks:?}"));
    assert!(check.found.contains(piece), "{piece:?} is not in {check:?}");
}

#[test]
fn a_good_server_has_nothing_to_be_warned_of() {
    is_well("redis://h", &with(|_| ()), "version", "Redis 7.2.0");
    is_well(
        "redis://h",
        &changed("7.2.0", "7.2.4\nvalkey_version:8.1.0"),
        "version",
        "Valkey 8.1.0",
    );
    is_well("redis://h/2", &with(|_| ()), "database", "2 is there");
}

#[test]
fn one_that_does_not_answer_is_one_line() {
    let mut gone = with(|_| ());
    gone.answers = Err(Failure::Unreachable("127.0.0.1:7: refused".to_owned()));
    is(&gone, "reachable", Level::Fail, "start it");
    gone.answers = Err(Failure::Broken("127.0.0.1:7 does not accept the user".to_owned()));
    is(&gone, "reachable", Level::Fail, "→ correct the URL");
}

#[test]
fn the_servers_role_must_fit_the_url() {
    is(&changed("7.2.0", "6.2.14"), "version", Level::Fail, "7.0 or later");
    is(&changed("cluster_enabled:0", "cluster_enabled:1"), "mode", Level::Fail, "redis+cluster://");
    is_at("redis+cluster://h", &with(|_| ()), "mode", Level::Fail, "use redis://");
    let replica = "role:slave\nmaster_host:m\nmaster_port:8";
    is(&changed("role:master", replica), "role", Level::Fail, "replica of m:8");
    is(&changed("loading:0", "loading:1"), "loading", Level::Fail, "wait");
    let missing = Err(Failure::Broken("it has no database 9".to_owned()));
    let missing = with(|answers| answers.database = missing);
    is_at("redis://h/9", &missing, "database", Level::Fail, "no database 9");
}

#[test]
fn a_replica_of_a_set_must_be_a_replica() {
    let replica = "role:slave\nmaster_host:m\nmaster_port:8";
    let mut good = changed("role:master", replica);
    good.part = ServerPart::Replica;
    is_well("redis+sentinel://h/m", &good, "role", "a replica of m:8");
    let mut other = with(|_| ());
    other.part = ServerPart::Replica;
    is_at("redis+sentinel://h/m", &other, "role", Level::Warn, "takes itself for a master");
}

#[test]
fn without_info_little_can_be_told_and_that_is_said() {
    let denied = "h:7 does not let this user run the command \"info\"".to_owned();
    let blind = with(|answers| {
        answers.info = Err(Failure::Broken(denied));
        answers.facts = None;
    });
    is(&blind, "info", Level::Fail, "+info");
    is(&with(|answers| answers.facts = None), "info", Level::Fail, "malformed");
}

#[test]
fn what_is_kept_on_disk() {
    let good = |fsync, piece| {
        is_well("redis://h", &with_setting("appendfsync", fsync), "persistence", piece)
    };
    good("always", "at every write");
    good("everysec", "every second");
    good("no", "when the system likes");
    let none = || changed("aof_enabled:1", "aof_enabled:0");
    is(&none(), "persistence", Level::Warn, "a restart forgets all locks");
    is_at("redis://h?max_lease=7", &none(), "persistence", Level::Warn, "granted for 7 s");
    let change = |change: fn(&mut Answers)| {
        let mut server = none();
        server.answers.as_mut().map(change).expect("answers");
        server
    };
    let snapshots = change(|answers| {
        answers.settings.as_mut().and_then(|all| all.insert("save".into(), "60 1".into()));
    });
    is(&snapshots, "persistence", Level::Warn, "snapshots alone");
    let unknown = change(|answers| answers.settings = None);
    is(&unknown, "persistence", Level::Warn, "CONFIG GET");
    for mut node in [none(), snapshots, unknown] {
        node.part = ServerPart::Node;
        is_well("redis://h", &node, "persistence", "a quorum does not need");
    }
}

#[test]
fn what_could_not_be_saved_stops_writes() {
    let aof = changed("aof_last_write_status:ok", "aof_last_write_status:err");
    is(&aof, "saving", Level::Fail, "append-only file could not be written");
    let rdb = |save: Option<&str>, stop: &str| {
        let mut server = changed("rdb_last_bgsave_status:ok", "rdb_last_bgsave_status:err");
        let answers = server.answers.as_mut().expect("answers");
        answers.settings = save.map(|save| {
            let mut all = settings();
            all.insert("save".to_owned(), save.to_owned());
            all.insert("stop-writes-on-bgsave-error".to_owned(), stop.to_owned());
            all
        });
        server
    };
    is(&rdb(Some("60 1"), "yes"), "saving", Level::Fail, "takes no writes");
    is(&rdb(None, ""), "saving", Level::Fail, "takes no writes");
    is(&rdb(Some("60 1"), "no"), "saving", Level::Warn, "last snapshot");
    is(&rdb(Some(""), "yes"), "saving", Level::Warn, "last snapshot");
}

#[test]
fn a_lock_must_not_be_evicted_and_memory_not_run_out() {
    let lru = changed("noeviction", "allkeys-lru");
    is(&lru, "eviction", Level::Warn, "no limit now");
    let text =
        INFO.replace("noeviction", "volatile-ttl").replace("maxmemory:0", "maxmemory:9999999999");
    is(&server(answers(&text)), "eviction", Level::Fail, "volatile-ttl");
    is(&changed("maxmemory:0", "maxmemory:1100000"), "memory", Level::Warn, "95 %");
    is_well("redis://h", &changed("maxmemory:0", "maxmemory:1200000"), "memory", "87 %");
    is_well("redis://h", &with(|_| ()), "memory", "no limit");
}

#[test]
fn a_clock_is_off_only_as_far_as_that_is_sure() {
    let with_trips = |trips: &[Trip]| with(|answers| answers.trips = trips.to_vec());
    is(&with_trips(&[trip(5_000, 2)]), "clock", Level::Warn, "5.000 s ahead of ours");
    is(&with_trips(&[trip(-5_000, 2)]), "clock", Level::Warn, "5.000 s behind ours");
    is(&with_trips(&[trip(2_002, 2)]), "clock", Level::Warn, "2.002 s");
    is_well("redis://h", &with_trips(&[trip(2_001, 2)]), "clock", "2.001 s");
    // A slow answer says little, and the quickest counts.
    is_well("redis://h", &with_trips(&[trip(2_090, 198)]), "clock", "give or take 100 ms");
    is_well("redis://h", &with_trips(&[trip(9_000, 190), trip(1, 2)]), "clock", "0.001 s");
    let config = RedisConfig::parse("redis://h").expect("a URL");
    let level = |ahead_ms, median_ms| {
        let checks =
            judge(&config, &with_trips(&[trip(ahead_ms, 2)]), ClockReference::Median(median_ms));
        checks.into_iter().find(|check| check.name == "clock").expect("a clock").level
    };
    assert_eq!(level(60_000, 60_500), Level::Ok, "ours does not matter");
    assert_eq!((level(1_001, 0), level(1_002, 0)), (Level::Ok, Level::Warn));
    assert_eq!(level(0, 1_002), Level::Warn);
}

#[test]
fn a_slow_answer_is_told() {
    let slow = with(|answers| answers.trips = vec![trip(0, 1), trip(0, 1), trip(0, 200)]);
    is(&slow, "latency", Level::Warn, "200.0 ms at worst");
    let quick = with(|answers| answers.trips = vec![trip(0, 1), trip(0, 199)]);
    is_well("redis://h", &quick, "latency", "2 round trips");
    is(&slow, "latency", Level::Warn, "gives a server up after 2 s");
    is_well("redis://h?response_timeout=3", &slow, "latency", "3 round trips");
    is_at("redis://h?response_timeout=0.5", &slow, "latency", Level::Warn, "after 0.5 s (response");
}

#[test]
fn how_clients_are_connected() {
    is(&with(|answers| answers.resp3 = false), "resp3", Level::Warn, "second connection");
    is_well("redis://h", &with_setting("timeout", "30"), "idle", "it listens");
    let cluster = changed("cluster_enabled:0", "cluster_enabled:1");
    is_well("redis+cluster://h", &cluster, "idle", "stay open");
    let mut closing = cluster;
    let settings = closing.answers.as_mut().expect("answers").settings.as_mut().expect("some");
    settings.insert("timeout".to_owned(), "30".to_owned());
    is_at("redis+cluster://h", &closing, "idle", Level::Warn, "after 30 s");
    is_well("redis://h", &with(|answers| answers.settings = None), "settings", "CONFIG GET");
}

#[test]
fn another_machine_is_reached_by_tls_and_a_password() {
    let far = |login: Option<&str>| {
        let mut server = with(|_| ());
        server.address.host = "10.0.0.1".to_owned();
        server.login = login.map(str::to_owned);
        server
    };
    is_at("redis://h", &far(Some("bob")), "tls", Level::Warn, "rediss");
    is_at("rediss://h", &far(None), "password", Level::Fail, "ACL SETUSER bob reset");
    is_well("rediss://h", &far(Some("bob")), "tls", "on");
    let mut open = far(Some("bob"));
    open.is_open = true;
    is_at("rediss://h", &open, "password", Level::Warn, "ACL SETUSER default off");
    let mut near = with(|_| ());
    near.is_open = true;
    is_well("redis://h", &near, "password", "others need not");
    near.login = None;
    is_well("redis://h", &near, "password", "on this machine alone");
}

#[test]
fn rights_that_are_missing_or_too_many_are_named_with_the_line_to_use() {
    let with_rights = |rights: Rights| with(|answers| answers.rights = Ok(rights));
    let missing = with_rights(Rights { missing: vec!["publish"], ..Rights::default() });
    is(&missing, "rights", Level::Fail, "the user bob lacks +publish → ACL SETUSER bob reset on");
    let excess = || Rights { excess: vec!["FLUSHALL", "KEYS"], ..Rights::default() };
    is(&with_rights(excess()), "excess", Level::Warn, "than locks need: FLUSHALL, KEYS");
    let mut open = with_rights(excess());
    (open.login, open.answers.as_mut().expect("answers").user) = (None, None);
    is(&open, "excess", Level::Warn, "the user default, for whom no password is asked,");
    is(&open, "excess", Level::Warn, "ACL SETUSER taketurns reset");
    let wire = "redis://h?protocol=plain&unfenced=ok";
    is_well(wire, &with(|_| ()), "rights", "docs/protocols/plain.md");
    is_at(wire, &with_rights(excess()), "excess", Level::Warn, "docs/protocols/plain.md");
    let denied = Failure::Broken("h:7 does not let this user run the command \"eval\"".to_owned());
    let denied = with(|answers| answers.rights = Err(denied));
    is(&denied, "rights", Level::Fail, "\"eval\"; what else is missing can't be told");
    let deaf = Err(Failure::Broken("h:7 does not let this user use the channels".to_owned()));
    is(&with(|answers| answers.subscribes = deaf), "rights", Level::Fail, "use the channels");
    // That is said of loading.
    let busy = with(|answers| answers.rights = Err(Failure::Unreachable("loading".to_owned())));
    assert!(judged("redis://h", &busy).iter().all(|check| check.name != "rights"));
}

#[test]
fn the_module_is_there_or_not_and_for_us_or_not() {
    let loaded = || server(answers(&format!("{INFO}{MODULE}")));
    is_well("redis://h", &with(|_| ()), "module", "not loaded");
    is_at("redis://h?module=required", &with(|_| ()), "module", Level::Fail, "MODULE LOAD");
    is_well("redis://h", &loaded(), "module", "version 3, failover quarantine");
    let mut denied = loaded();
    let missing = Rights { module_missing: vec!["fencelock.do"], ..Rights::default() };
    denied.answers.as_mut().expect("answers").rights = Ok(missing);
    is(&denied, "module", Level::Warn, "+fencelock.do");
    is_at("redis://h?module=required", &denied, "module", Level::Fail, "+fencelock.do");
    is_well("redis://h?module=off", &denied, "module", "module=off");
}

#[test]
fn a_quarantine_is_told_also_before_it_begins() {
    let marked = |marker: &str| {
        let marker = marker.to_owned();
        with(|answers| answers.marker = Some(Ok(marker)))
    };
    let (born, until) = (NOW_MS - 9_000, NOW_MS + 1_500);
    is_well("redis://h", &marked(&format!("taketurns4 now {born} 0 60000 ")), "quarantine", "none");
    let begun = marked(&format!("taketurns4 now {born} {until} 60000 "));
    is(&begun, "quarantine", Level::Warn, "in force for 2 s more");
    let other = marked(&format!("taketurns4 old {born} 0 60000 "));
    is(
        &other,
        "quarantine",
        Level::Warn,
        "restarted or failed over: nothing will be granted for 60 s",
    );
    is(&marked("something"), "quarantine", Level::Fail, "another prefix");
    is_at("redis://h?failover=immediate", &other, "quarantine", Level::Warn, "none, ever");
    let unread = Failure::Broken("no right".to_owned());
    let unread = with(|answers| answers.marker = Some(Err(unread)));
    assert!(judged("redis://h", &unread).iter().all(|check| check.name != "quarantine"));
}
