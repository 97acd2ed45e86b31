//! Foreign clients among themselves: they take turns, and each does what it is told.

use serde_json::{Value, json};
use taketurns_servers::foreign::{ForeignClients, ForeignConfig, ForeignKind, Puppet};
use taketurns_servers::turns::{check, least_turns};
use taketurns_servers::{Flavor, PATIENCE, Server, ServerReply, SetupError, eventually};

fn servers(count: usize) -> Vec<Server> {
    (0..count).map(|_| Server::start(Flavor::Redis).expect("a server")).collect()
}

fn config(who: &str, servers: &[Server]) -> ForeignConfig {
    ForeignConfig::new(who, servers.iter().map(Server::url))
}

/// They come to an end by themselves, or go on until each has had turns. Never two hold one lock.
fn take_turns(kind: ForeignKind, config: &ForeignConfig) {
    let turns = ForeignClients::start(kind, config).expect("clients").turns().expect("turns");
    assert!(!turns.is_empty() && turns.iter().all(|turn| config.locks.contains(&turn.lock)));
    check(&turns);

    let config = ForeignConfig { seconds: 2.0 * PATIENCE.as_secs_f64(), ..config.clone() };
    let clients = ForeignClients::start(kind, &config).expect("clients");
    let turns = eventually("turns for everyone", || {
        let turns = clients.so_far().expect("turns");
        (least_turns(&turns, config.everyone()).1 >= 2).then_some(turns)
    });
    check(&turns.expect("nobody starves"));
}

#[test]
fn the_locks_of_redis_py_take_turns() {
    let servers = servers(1);
    take_turns(
        ForeignKind::Plain,
        &ForeignConfig { retry_ms: Some(10), ..config("plain", &servers) },
    );
}

#[test]
fn the_locks_of_python_redis_lock_take_turns() {
    let servers = servers(1);
    take_turns(ForeignKind::PythonRedisLock, &config("signals", &servers));
}

#[test]
fn redlocks_in_python_take_turns_over_three_servers() {
    let servers = servers(3);
    take_turns(
        ForeignKind::RedlockPy,
        &ForeignConfig { retry_ms: Some(10), ..config("py", &servers) },
    );
}

#[test]
fn redlocks_in_node_take_turns_over_three_servers() {
    let servers = servers(3);
    take_turns(
        ForeignKind::RedlockJs,
        &ForeignConfig { retry_ms: Some(10), ..config("js", &servers) },
    );
}

/// Each looks again a lock time after it found the lock held, so here it is free most of the time.
#[test]
fn fair_queues_take_turns_though_some_wait_for_a_lock_time() {
    let servers = servers(1);
    let config = ForeignConfig { ttl_ms: 1_000, think_ms: 200, ..config("fair", &servers) };
    take_turns(ForeignKind::FairQueue, &config);
}

#[test]
fn fair_queues_as_they_are_shipped_take_turns() {
    let servers = servers(1);
    take_turns(
        ForeignKind::FairQueue,
        &ForeignConfig { shipped: true, ..config("amphp", &servers) },
    );
}

#[test]
fn redturns_take_turns_on_several_lists() {
    let servers = servers(1);
    for (who, shipped) in [("document", false), ("shipped", true)] {
        let locks = ["orders", "bills"].map(|list| format!("{who} {list}")).to_vec();
        take_turns(
            ForeignKind::Redturn,
            &ForeignConfig { locks, shipped, ..config(who, &servers) },
        );
    }
}

#[test]
fn mutexes_of_a_sorted_set_are_taken_in_turns() {
    let servers = servers(1);
    assert!(servers[0].cli(&["CONFIG", "SET", "notify-keyspace-events", "Kz"]).is_ok());
    for (who, remove, shipped) in
        [("set to 0", false, false), ("removed", true, false), ("shipped", false, true)]
    {
        let (locks, members) = (vec![who.to_owned()], ["a", "b"].map(str::to_owned).to_vec());
        let config = ForeignConfig { locks, members, remove, shipped, ..config(who, &servers) };
        take_turns(ForeignKind::ZMutex, &config);
    }
}

#[test]
fn who_loses_a_lock_before_its_time_fails() {
    let servers = servers(1);
    let config = ForeignConfig { hold_ms: 200, seconds: 20.0, ..config("robbed", &servers) };
    let clients = ForeignClients::start(ForeignKind::Plain, &config).expect("clients");
    eventually("a turn", || (!clients.so_far().expect("turns").is_empty()).then_some(()))
        .expect("a turn");
    eventually("somebody holds", || {
        (servers[0].cli(&["DEL", "orders"]) == ServerReply::Int(1)).then_some(())
    })
    .expect("a lock to rob");
    let error = clients.turns().expect_err("it was robbed");
    assert!(matches!(error, SetupError::Failed { .. }));
    assert!(error.to_string().contains("lost orders before its time"), "{error}");
}

#[test]
fn they_end_with_the_value_that_stands_for_them() {
    let servers = servers(1);
    let mut puppet =
        Puppet::start(ForeignKind::Plain, &config("gone", &servers)).expect("a client");
    assert_eq!(puppet.ask(json!({"do": "acquire", "lock": "orders"}))["ok"], true);
    let process = format!("/proc/{}", puppet.pid());
    assert!(std::fs::exists(&process).expect("a look"));
    drop(puppet);
    assert!(!std::fs::exists(&process).expect("a look"));
    assert_eq!(servers[0].cli(&["EXISTS", "orders"]), ServerReply::Int(1), "it released nothing");
}

/// One and another of a kind.
fn puppets(kind: ForeignKind, config: &ForeignConfig) -> [Puppet; 2] {
    [(); 2].map(|()| Puppet::start(kind, config).expect("a client"))
}

#[test]
fn libraries_do_as_they_are_told() {
    let servers = servers(3);
    for kind in [ForeignKind::Plain, ForeignKind::RedlockPy, ForeignKind::RedlockJs] {
        let key = kind.program();
        let config = ForeignConfig { retry_ms: Some(10), ..config("told", &servers) };
        let [mut one, mut other] = puppets(kind, &config);
        let acquire = json!({"do": "acquire", "lock": key, "ttl_ms": 60_000});
        let waiting = json!({"do": "acquire", "lock": key, "ttl_ms": 60_000, "wait_ms": 20_000});
        let release = json!({"do": "release", "lock": key});
        // A majority is enough for an answer, and the first server may be the last.
        let soon = |what: &str, is_so: &dyn Fn() -> bool| {
            eventually(&format!("{key}: {what}"), || is_so().then_some(()))
                .expect("as it was told");
        };
        let held = one.ask(acquire.clone());
        assert_eq!(held["ok"], true, "{kind}: {held}");
        let token = held["token"].as_str();
        soon("its token", &|| servers[0].cli(&["GET", key]).text() == token);
        assert_eq!(other.ask(acquire), json!({"ok": false, "token": null}), "{kind}");
        // redlock-py can't.
        if kind != ForeignKind::RedlockPy {
            let extend = json!({"do": "extend", "lock": key, "ttl_ms": 600_000});
            assert_eq!(one.ask(extend), json!({"ok": true}), "{kind}");
            let left = || servers[0].cli(&["PTTL", key]);
            soon("more time", &|| matches!(left(), ServerReply::Int(60_001..=600_000)));
        }
        other.tell(waiting);
        assert_eq!(one.ask(release.clone()), json!({"ok": true}), "{kind}");
        assert_eq!(other.answer()["ok"], true, "{kind}");
        assert_eq!(other.ask(release), json!({"ok": true}), "{kind}");
        soon("its end", &|| servers[0].cli(&["EXISTS", key]) == ServerReply::Int(0));
    }
}

#[test]
fn what_is_raised_is_an_answer() {
    let servers = servers(1);
    let mut puppet =
        Puppet::start(ForeignKind::Plain, &config("wrong", &servers)).expect("a client");
    servers[0].cli(&["LPUSH", "orders", "a list"]);
    let refused = puppet.ask(json!({"do": "release", "lock": "never acquired"}));
    assert_eq!(refused, json!({"ok": false, "error": "KeyError: 'never acquired'"}));
    assert_eq!(puppet.ask(json!({"do": "acquire", "lock": "orders"}))["ok"], false);
}

/// As the letter has it: not queued, not called, and one that was promoted does not know.
#[test]
fn fair_queues_do_as_they_are_told_to_the_letter() {
    let servers = servers(1);
    let [mut one, mut other] = puppets(
        ForeignKind::FairQueue,
        &ForeignConfig { ttl_ms: 60_000, ..config("fair", &servers) },
    );
    let lock = |token: &str| json!({"do": "lock", "lock": "orders", "token": token});
    let refused = |token: &str| json!({"ok": false, "token": token});
    let unlock = json!({"do": "unlock", "lock": "orders"});
    assert_eq!(one.ask(lock("first")), json!({"ok": true, "token": "first"}));
    assert_eq!(servers[0].cli(&["GET", "lock:orders"]).text(), Some("first"));
    assert_eq!(other.ask(lock("second")), refused("second"));
    assert_eq!(servers[0].cli(&["EXISTS", "lock-queue:orders"]), ServerReply::Int(0), "nor queued");
    assert_eq!(one.ask(unlock.clone()), json!({"ok": true}));
    assert_eq!(servers[0].cli(&["DBSIZE"]), ServerReply::Int(0));

    // With somebody else in the queue, who comes to a free lock queues, and promotes the head.
    servers[0].cli(&["RPUSH", "lock-queue:orders", "elsewhere"]);
    assert_eq!(other.ask(lock("third")), refused("third"));
    assert_eq!(servers[0].cli(&["GET", "lock:orders"]).text(), Some("elsewhere"));
    assert_eq!(servers[0].cli(&["LLEN", "lock-notify:elsewhere"]), ServerReply::Int(1));
    assert_eq!(servers[0].cli(&["LINDEX", "lock-queue:orders", "0"]).text(), Some("third"));
    assert_eq!(one.ask(lock("elsewhere")), refused("elsewhere"), "it holds the lock");
    assert_eq!(
        servers[0].cli(&["EXISTS", "lock-notify:elsewhere"]),
        ServerReply::Int(0),
        "so it was told"
    );

    servers[0].cli(&["DEL", "lock:orders"]);
    assert_eq!(other.ask(lock("third"))["ok"], true);
    servers[0].cli(&["RPUSH", "lock-queue:orders", "after"]);
    assert_eq!(other.ask(unlock), json!({"ok": true}));
    assert_eq!(servers[0].cli(&["EXISTS", "lock:orders"]), ServerReply::Int(0));
    assert_eq!(servers[0].cli(&["LLEN", "lock-notify:after"]), ServerReply::Int(1));

    // Called in the middle of a wait, it looks again at once.
    servers[0].cli(&["SET", "lock:orders", "elsewhere"]);
    other.tell(json!({"do": "lock", "lock": "orders", "token": "after", "wait_ms": 20_000}));
    eventually("it waits", || {
        (servers[0].info("clients").get("blocked_clients")? == "1").then_some(())
    })
    .expect("somebody who waits");
    servers[0].cli(&["DEL", "lock:orders"]);
    servers[0].cli(&["RPUSH", "lock-notify:after", "1"]);
    assert_eq!(other.answer(), json!({"ok": true, "token": "after"}));
}

#[test]
fn redturns_do_as_they_are_told_and_time_out_a_head() {
    let servers = servers(1);
    let [mut one, mut other] = puppets(ForeignKind::Redturn, &config("turn", &servers));
    let wait = |wait_ms: u64, ttl_ms: u64| json!({"do": "wait", "lock": "orders", "wait_ms": wait_ms, "ttl_ms": ttl_ms});
    let signal = |held: &Value| json!({"do": "signal", "lock": "orders", "id": held["id"]});
    let first = one.ask(wait(20_000, 60_000));
    assert_eq!(first["ok"], true);
    let head = servers[0].cli(&["LINDEX", "orders", "0"]);
    let head: Vec<&str> = head.text().expect("a head").split(':').collect();
    assert_eq!([head[0], head[2]], [first["id"].as_str().expect("an id"), "60000"]);

    other.tell(wait(20_000, 500));
    let waits = || (servers[0].cli(&["LLEN", "orders"]) == ServerReply::Int(2)).then_some(());
    eventually("the other waits", waits).expect("two in the list");
    assert_eq!(one.ask(signal(&first)), json!({"ok": true}));
    let second = other.answer();
    assert_eq!(second["ok"], true);
    // Shown to the one who released, which ends it after its 500 ms.
    let third = one.ask(wait(20_000, 60_000));
    assert_eq!(third["ok"], true);
    assert_eq!(other.ask(signal(&second)), json!({"ok": true}), "it is not told");
    assert_eq!(
        servers[0].cli(&["LLEN", "orders"]),
        ServerReply::Int(1),
        "the third is still there"
    );
    assert_eq!(one.ask(signal(&third)), json!({"ok": true}));
    assert_eq!(one.ask(signal(&third)), json!({"ok": false}), "there is no list");
}

#[test]
fn mutexes_of_a_sorted_set_do_as_they_are_told_by_their_own_clock() {
    let servers = servers(1);
    let config = ForeignConfig { ttl_ms: 60_000, members: vec![], ..config("set", &servers) };
    let ahead = ForeignConfig { clock_ms: 61_000, ..config.clone() };
    let mut one = Puppet::start(ForeignKind::ZMutex, &config).expect("a client");
    let mut ahead = Puppet::start(ForeignKind::ZMutex, &ahead).expect("a client");
    let of = |word: &str| json!({"do": word, "lock": "set", "member": "a"});
    let with = |word: &str, held: &Value| json!({"do": word, "lock": "set", "member": held["member"], "score": held["score"]});
    let stale = json!({"do": "stale", "lock": "set"});
    let none = json!({"ok": false, "member": null, "score": null});
    assert_eq!(one.ask(of("acquire")), none, "there is no such mutex");
    assert_eq!(one.ask(of("create")), json!({"ok": true}));
    assert_eq!(one.ask(of("create")), json!({"ok": false}), "it is there already");

    let held = one.ask(json!({"do": "acquire", "lock": "set"}));
    assert_eq!([&held["ok"], &held["member"]], [&json!(true), &json!("a")], "any will do");
    assert_eq!(one.ask(of("acquire")), none, "it is held");
    let kept = one.ask(with("update", &held));
    assert!(kept["score"].as_u64() > held["score"].as_u64(), "{kept}");
    assert_eq!(one.ask(with("update", &held)), none, "that was its score before");
    assert_eq!(one.ask(stale.clone()), json!({"members": []}));

    assert_eq!(ahead.ask(stale), json!({"members": ["a"]}), "as a clock ahead has it");
    let stolen = ahead.ask(of("acquire"));
    assert_eq!(stolen["ok"], true);
    assert_eq!(one.ask(with("release", &kept)), json!({"ok": false}), "it was lost");
    one.tell(json!({"do": "acquire", "lock": "set", "member": "a", "wait_ms": 20_000}));
    assert_eq!(ahead.ask(with("release", &stolen)), json!({"ok": true}));
    let again = one.answer();
    assert_eq!(again["ok"], true, "it looks again, without any event");
    let mut removing = with("release", &again);
    removing["remove"] = json!(true);
    assert_eq!(one.ask(removing), json!({"ok": true}));
    assert_eq!(servers[0].cli(&["EXISTS", "set"]), ServerReply::Int(0));
    assert_eq!(one.ask(of("create")), json!({"ok": true}));
    assert_eq!(one.ask(of("delete")), json!({"ok": true}));
    assert_eq!(one.ask(of("delete")), json!({"ok": false}));
}
