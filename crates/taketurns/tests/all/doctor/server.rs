//! One server.

use std::path::Path;

use taketurns::doctor::Level;
use taketurns_servers::{Builder, Certificates, Flavor, Server, ServerClock, eventually, on_both};

use super::{bad, block_on, check, examined, is, node, redis_acl};

fn start(builder: Builder) -> Server {
    builder.start().expect("a server")
}

/// As SECURITY.md has it.
fn with_user(server: &Server, missing: &[&str]) -> String {
    let has = |command: &&str| !missing.contains(command);
    let commands: Vec<&str> = redis_acl::COMMANDS.into_iter().filter(has).collect();
    redis_acl::set_user(server, "bob", "tt:", &commands);
    redis_acl::url(server, "bob")
}

on_both! {
    fn a_good_server_has_nothing_to_be_warned_of_before_and_after_its_first_use(flavor: Flavor) {
        let server = start(Server::builder(flavor).appendonly(true));
        let url = with_user(&server, &[]);
        let report = examined(&url);
        assert!(bad(&report).is_empty(), "{:#?}", bad(&report));
        assert!(report.reached);
        is(&report, &node(&server), "quarantine", Level::Ok, "nobody has used it yet");
        assert_eq!(server.cli(&["DBSIZE"]).int(), Some(0), "nothing was written");

        block_on(async {
            let locks = taketurns::connect(&url).await.expect("a server");
            let guard = locks.mutex("door").acquire().await.expect("free");
            let report = taketurns::doctor::examine(&url).await.expect("a store");
            assert!(bad(&report).is_empty(), "{:#?}", bad(&report));
            guard.check().expect("nobody has touched it");
        });
        let refused = server.cli(&["ACL", "LOG"]);
        assert_eq!(refused.array().map(<[_]>::len), Some(0), "nothing was tried in vain: {refused}");
    }

    fn a_policy_that_evicts_is_named(flavor: Flavor) {
        let evicting = ["--maxmemory-policy", "allkeys-lru", "--maxmemory", "100mb"];
        let server = start(Server::builder(flavor).args(evicting));
        is(&examined(&server.url()), &node(&server), "eviction", Level::Fail, "allkeys-lru");
        let server = start(Server::builder(flavor).args(evicting.into_iter().take(2)));
        is(&examined(&server.url()), &node(&server), "eviction", Level::Warn, "no limit now");
    }

    fn a_replica_is_no_store_and_all_else_is_looked_at_too(flavor: Flavor) {
        let master = start(Server::builder(flavor));
        let replica = start(Server::builder(flavor).replica_of(master.port()));
        let of = format!("is a replica of 127.0.0.1:{}", master.port());
        let report = examined(&replica.url());
        is(&report, &node(&replica), "role", Level::Fail, &of);
        for name in ["version", "rights", "persistence", "clock", "module"] {
            check(&report, &node(&replica), name);
        }
    }

    fn what_keeps_nothing_is_named_and_what_keeps_snapshots_alone(flavor: Flavor) {
        let server = start(Server::builder(flavor));
        let at = node(&server);
        is(&examined(&server.url()), &at, "persistence", Level::Warn, "nothing is kept on disk");
        assert!(server.cli(&["CONFIG", "SET", "save", "3600 1"]).is_ok());
        is(&examined(&server.url()), &at, "persistence", Level::Warn, "snapshots alone");
        assert!(server.cli(&["CONFIG", "SET", "appendonly", "yes"]).is_ok());
        is(&examined(&server.url()), &at, "persistence", Level::Ok, "synced at every write");
    }

    fn a_clock_that_is_five_seconds_off_is_named(flavor: Flavor) {
        let clock = ServerClock::ahead(5).expect("a clock");
        let server = start(Server::builder(flavor).clock(&clock));
        let off = |way: &str| {
            let report = examined(&server.url());
            is(&report, &node(&server), "clock", Level::Warn, way);
            let found = &check(&report, &node(&server), "clock").found;
            found.split(' ').next().expect("a word").parse::<f64>().expect("seconds")
        };
        assert!((4.0..6.0).contains(&off("ahead of ours")));
        clock.set(-5).expect("set");
        assert!((4.0..6.0).contains(&off("behind ours")));
    }

    fn the_line_that_is_printed_is_neither_too_wide_nor_too_narrow(flavor: Flavor) {
        let server = start(Server::builder(flavor).appendonly(true));
        let url = |user: &str| format!("redis://{user}127.0.0.1:{}/1?prefix=app*x:", server.port());
        let report = examined(&url(""));
        is(&report, &node(&server), "excess", Level::Warn, "the user default");
        is(&report, &node(&server), "excess", Level::Warn, "keys of others, channels of others");
        let line = check(&report, &node(&server), "excess").advice.clone().expect("a line");
        let line = line.replace(">PASSWORD", ">secret");
        let words: Vec<&str> = line.split(' ').collect();
        assert!(server.cli(&words).is_ok(), "{line}");
        let report = examined(&url("taketurns:secret@"));
        assert!(bad(&report).is_empty(), "{:#?}", bad(&report));
        block_on(async {
            let locks = taketurns::connect(&url("taketurns:secret@")).await.expect("the rights");
            locks.mutex("door").acquire().await.expect("the rights").release().await.expect("so");
        });
    }

    fn each_right_that_is_missing_is_named(flavor: Flavor) {
        let server = start(Server::builder(flavor));
        for missing in redis_acl::COMMANDS {
            let report = examined(&with_user(&server, &[missing]));
            let rights = check(&report, &node(&server), "rights");
            assert_eq!(rights.level, Level::Fail, "{missing}: {rights:?}");
            let said = match missing {
                "eval" => "run the command \"eval\"".to_owned(),
                missing => format!("the user bob lacks +{missing}"),
            };
            assert!(rights.found.contains(&said), "{missing}: {rights:?}");
        }
    }

    fn keys_and_channels_out_of_reach_are_named(flavor: Flavor) {
        let server = start(Server::builder(flavor));
        let url = format!("{}?prefix=other:", with_user(&server, &[]));
        let lacks = "lacks the keys ~other:*, the channels &other:wake:*";
        is(&examined(&url), &node(&server), "rights", Level::Fail, lacks);
    }

    fn a_user_that_may_not_ask_is_told_what_was_left_out(flavor: Flavor) {
        let server = start(Server::builder(flavor).appendonly(true));
        let report = examined(&with_user(&server, &["info"]));
        is(&report, &node(&server), "info", Level::Fail, "run the command \"info\"");
        is(&report, &node(&server), "settings", Level::Ok, "CONFIG GET");
        for name in ["clock", "latency", "tls", "excess"] {
            check(&report, &node(&server), name);
        }
    }

    fn no_password_is_ever_said(flavor: Flavor) {
        let server = start(Server::builder(flavor).requirepass("hunter2"));
        let wrong = format!("redis://:hunter3@127.0.0.1:{}", server.port());
        for url in [server.url(), wrong] {
            let said = format!("{:?}", examined(&url));
            assert!(!said.contains("hunter"), "{said}");
        }
        is(&examined(&server.url()), &node(&server), "password", Level::Ok, "log in as default");
        let without = format!("redis://127.0.0.1:{}", server.port());
        let report = examined(&without);
        is(&report, &node(&server), "reachable", Level::Fail, "wants a password");
        assert!(!report.reached);
    }

    fn a_server_that_lets_in_who_does_not_log_in_is_known(flavor: Flavor) {
        let server = start(Server::builder(flavor));
        let url = with_user(&server, &[]);
        is(&examined(&url), &node(&server), "password", Level::Ok, "as bob; others need not");
        assert!(server.cli(&["ACL", "SETUSER", "default", "off"]).is_ok());
        let said = check(&examined(&url), &node(&server), "password").found.clone();
        assert_eq!(said, "we log in as bob");
    }

    fn tls_is_seen_and_one_that_can_not_be_trusted_is_named(flavor: Flavor) {
        let certificates = Certificates::new().expect("certificates");
        let server = start(Server::builder(flavor).tls(&certificates));
        let port = server.tls_port().expect("a port");
        let url = |ca: &Path| format!("rediss://localhost:{port}?ca={}", ca.display());
        let at = format!("localhost:{port}");
        is(&examined(&url(&certificates.ca())), &at, "tls", Level::Ok, "on");
        let others = Certificates::new().expect("certificates");
        let report = examined(&url(&others.ca()));
        is(&report, &at, "reachable", Level::Fail, "is not accepted by TLS");
        let report = examined(&url(&others.ca().with_extension("none")));
        is(&report, "all", "reachable", Level::Fail, "none");
        assert!(!report.reached);
    }

    fn a_server_that_does_not_answer_is_one_line(flavor: Flavor) {
        let server = start(Server::builder(flavor));
        server.pause();
        let report = examined(&server.url());
        is(&report, &node(&server), "reachable", Level::Fail, "does not answer");
        assert_eq!((report.checks.len(), report.reached), (1, false));
        server.kill();
        let report = examined(&server.url());
        is(&report, &node(&server), "reachable", Level::Fail, "refused");
    }

    fn a_server_that_still_loads_says_so(flavor: Flavor) {
        let server = start(Server::builder(flavor));
        server.restart_loading().expect("it answers");
        let report = examined(&server.url());
        is(&report, &node(&server), "loading", Level::Fail, "still loading");
        check(&report, &node(&server), "version");
    }

    fn a_quarantine_is_told_before_and_while_it_is_in_force(flavor: Flavor) {
        let server = start(Server::builder(flavor).appendonly(true));
        let connect = || block_on(async { taketurns::connect(&server.url()).await.expect("a server") });
        drop(connect());
        is(&examined(&server.url()), &node(&server), "quarantine", Level::Ok, "none");
        server.restart().expect("it starts again");
        let report = examined(&server.url());
        is(&report, &node(&server), "quarantine", Level::Warn, "from the next connect on");
        drop(connect());
        is(&examined(&server.url()), &node(&server), "quarantine", Level::Warn, "in force for ");
    }

    fn what_could_not_be_saved_is_named(flavor: Flavor) {
        let server = start(Server::builder(flavor).args(["--save", "3600 1"]));
        std::fs::create_dir(server.dir().join("dump.rdb")).expect("a directory in its way");
        server.cli(&["BGSAVE"]);
        eventually("the snapshot failed", || {
            let info = server.info("persistence");
            (info.get("rdb_last_bgsave_status")? == "err").then_some(())
        })
        .expect("it fails");
        is(&examined(&server.url()), &node(&server), "saving", Level::Fail, "takes no writes");
    }

    fn a_wire_says_what_it_lacks(flavor: Flavor) {
        let server = start(Server::builder(flavor));
        let url = |more: &str| format!("{}?protocol=plain{more}", server.url());
        is(&examined(&url("&unfenced=ok")), "all", "protocol", Level::Ok, "no fencing tokens");
        is(&examined(&url("")), "all", "protocol", Level::Fail, "nothing can be acquired");
    }
}
