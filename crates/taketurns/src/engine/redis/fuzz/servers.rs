//! What servers say of themselves, of others and of what went wrong, damaged.

use redis::Value;
use taketurns_servers::fuzz;

use super::{shaken, text};
use crate::clock::millis;
use crate::engine::EngineError;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::handshake::facts::ServerFacts;
use crate::engine::redis::handshake::query;
use crate::engine::redis::router::sentinel;
use crate::engine::redis::router::slots::{self, SLOTS};
use crate::engine::redis::url::Address;

#[test]
fn an_error_is_told_in_one_short_line_without_what_was_sent() {
    let secret = "ERR unknown command 'HELLO', with args beginning with: 'AUTH' 'u' 'hunter2'";
    let lines = [
        secret,
        "MOVED 3999 10.0.0.1:6381",
        "ASK 7 :6381",
        "TTVERIFY run",
        "TTWIRE the lock speaks another protocol",
        "NOPERM this user has no permissions to run the 'publish' command",
        "ERR The user executing the script can't run this command or",
        "OOM command not allowed",
        "ERR user_script:1: oops",
    ];
    let server = Address { host: "h".to_owned(), port: 1 };
    fuzz::rounds("errors of servers", 20_000, |dice| {
        let damaged = dice.damaged_text(&lines);
        let read = redis::parse_redis_value(format!("-{damaged}\r\n").as_bytes());
        let Ok(Value::ServerError(error)) = read else { return false };
        let failure = Failure::of_reply(&server, &error);
        if let Failure::Moved { addr, .. } | Failure::Ask { addr, .. } = &failure
            && let Some(address) = Address::announced(addr, "asked")
        {
            let shown = address.to_string();
            assert_eq!(Address::announced(&shown, "asked"), Some(address), "{damaged:?}");
        }
        let is_known = !matches!(failure, Failure::Broken(_));
        let told = EngineError::from(failure).to_string();
        assert!(told.chars().count() < 500 && !told.contains('\n'), "{told}");
        let command = damaged.split(", with args beginning with").next().unwrap_or_default();
        assert!(!told.contains("hunter") || command.contains("hunter"), "{told}");
        is_known
    });
}

#[test]
fn what_a_server_says_of_itself_is_whole_or_not_read() {
    let info = "# Server\r\nredis_version:7.0.15\r\nvalkey_version:8.0.1-rc1\r\nrun_id:3020a9\r\n\
        uptime_in_seconds:12\r\nrole:slave\r\nmaster_host:h\r\nmaster_port:7001\r\nmaxmemory:1\r\n\
        slave0:ip=fe80::1,port=6380,state=online,offset=42,lag=0\r\nloading:0\r\n";
    let time = Value::Array(vec![text("1700000000"), text("345678")]);
    let names = ["min-replicas-to-write", "1", "min-replicas-max-lag", "10"];
    let settings = Value::Array(names.map(text).to_vec());
    fuzz::rounds("INFO, TIME and CONFIG", 20_000, |dice| {
        let now_ms = query::now_ms(&shaken(dice, &time)).unwrap_or_default();
        // Whatever it is, it is added to times.
        let _ = query::lag(&shaken(dice, &settings)).map(millis);
        let info = dice.damaged_text(&[info]);
        let Some(facts) = ServerFacts::parse(&info, now_ms) else { return false };
        assert!(!facts.run.is_empty() && !facts.run.contains('\n'), "{info:?}");
        assert!(facts.replicas.iter().all(|at| at.port != 0 && !at.host.is_empty()), "{info:?}");
        true
    });
}

#[test]
fn where_others_are_is_an_address_or_not_read() {
    let node = |host| Value::Array(vec![host, Value::Int(7000), text("id"), Value::Array(vec![])]);
    let row = |first, last, host| {
        let ends = [first, last].map(Value::Int);
        Value::Array([&ends[..], &[node(host), node(text("10.0.0.9"))]].concat())
    };
    let map = Value::Array(vec![
        row(0, 5_460, text("10.0.0.1")),
        row(5_461, 5_461, text("?")),
        row(5_462, 16_383, Value::Nil),
    ]);
    let master = Value::Array(vec![text("fe80::1"), text("6379")]);
    fuzz::rounds("CLUSTER SLOTS and Sentinel", 20_000, |dice| {
        let ranges = slots::parse(&shaken(dice, &map), "asked");
        for range in ranges.iter().flatten() {
            assert!(range.first <= range.last && range.last < SLOTS, "{range:?}");
        }
        let masters = ranges.iter().flatten().map(|range| range.master.clone());
        let at = sentinel::address(&shaken(dice, &master), "asked");
        for address in masters.chain(at.clone()) {
            assert!(address.port != 0 && !address.host.is_empty(), "{address:?}");
        }
        ranges.is_some() && at.is_some()
    });
}
