//! `protocol=zmutex`: ours and foreign clients in one set, and who gets what when.

use taketurns::Ask;
use taketurns::engine::{self, AcquireRequest, Engine, Owner, Reply, Request, Wakes};
use taketurns_servers::{Cluster, Flavor, ServerClock, eventually, on_both};

use super::zmutex::*;
use super::*;

/// The wire's timeout, much longer than a lease of ours.
pub(crate) const TIMEOUT_S: &str = "3600";

/// A client of ours that does nothing by itself: it renews and refreshes nothing, as the dead do.
pub(crate) async fn lifeless(server: &Server) -> Box<dyn Engine> {
    let url = format!("{}?protocol=zmutex&timeout={TIMEOUT_S}&unfenced=ok", server.url());
    let (wakes, _) = Wakes::channel();
    engine::open(&url, taketurns::ClientId::from_bits(7), wakes).await.expect("a server")
}

/// An acquire by this owner, with a lease and a waiter lease of `lease_ms`.
pub(crate) fn asks(owner: u128, ask: Ask, lease_ms: u64) -> Request {
    Request::Acquire(AcquireRequest {
        owner: Owner::from_bits(owner),
        client: taketurns::ClientId::from_bits(7),
        ask,
        at_least_ms: 0,
        lease_ms,
        waiter_lease_ms: Some(lease_ms),
        not_after_ms: u64::MAX >> 12,
        ballot: None,
        label: taketurns::Label::new("dead", "").expect("a label"),
    })
}

on_both! {
    fn a_foreign_release_is_found_and_its_timeout_waited_for(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            creates(&server, "jobs", "a");
            scores(&server, "jobs", "a", time_us(&server) + 60_000_000);
            let waiting = waits_for(&locks, "jobs", "a");
            until_waiting(&server, "jobs", 1);
            scores(&server, "jobs", "a", 0);
            let guard = soon("a turn", waiting).await.expect("no panic");
            guard.release().await.expect("held");
            let locks = zmutex(&server, "1").await;
            let taken = time_us(&server);
            scores(&server, "jobs", "a", taken);
            drop(gets(&locks.pool("jobs"), "a").await);
            assert!(time_us(&server) > taken + 1_000_000, "the foreign client's time was not over");
        });
    }

    fn foreign_clients_hear_of_a_member_when_it_is_free_and_only_then(flavor: Flavor) {
        let server = starts(flavor);
        server.cli(&["CONFIG", "SET", "notify-keyspace-events", "Kz"]);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            creates(&server, "jobs", "a");
            let mut ear = server.connect().expect("a connection");
            ear.command(&["SUBSCRIBE", "__keyspace@0__:jobs"]).expect("a confirmation");
            let mut heard = || {
                let event = ear.read().expect("an event");
                event.array().and_then(|parts| parts[2].text()).expect("a name").to_owned()
            };
            let guard = gets(&locks.pool("jobs"), "a").await;
            assert_eq!(heard(), "zincr", "it is taken");
            let waiting = waits_for(&locks, "jobs", "a");
            until_waiting(&server, "jobs", 1);
            guard.release().await.expect("held");
            let guard = soon("a turn", waiting).await.expect("no panic");
            assert_eq!(heard(), "zincr", "it is handed over, and was free for nobody else");
            guard.release().await.expect("held");
            // The new holder may have renewed it before.
            let last = std::iter::repeat_with(heard).find(|event| event != "zincr");
            assert_eq!(last.as_deref(), Some("zadd"), "what zmutexset.py listens for");
        });
    }

    fn who_is_first_in_line_finds_what_foreign_clients_create(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let url = format!("{}?protocol=zmutex&unfenced=ok", server.url());
            let locks = sleeper(&url, AllowedLooks::AtForeignClients).await;
            // Of none, and of another.
            for member in ["late", "later"] {
                let waiting = waits_for(&locks, "jobs", member);
                until_waiting(&server, "jobs", 1);
                creates(&server, "jobs", member);
                let guard = soon("it is created", waiting).await.expect("no panic");
                guard.release().await.expect("held");
            }
        });
    }

    fn a_member_that_a_foreign_client_has_is_in_nobodys_way(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            for member in ["a", "b"] {
                creates(&server, "jobs", member);
            }
            let tried = soon("a try", locks.pool("jobs").try_member("none")).await.expect("a server");
            assert!(tried.is_none(), "and they are known to be free, in this order");
            assert!(takes(&server, "jobs", "a", "60"));
            let waiting = waits_for(&locks, "jobs", "a");
            until_waiting(&server, "jobs", 1);
            let any = soon("any", locks.pool("jobs").any()).await.expect("a member");
            assert_eq!(any.member().map(|member| member.as_str()), Some("b"));
            scores(&server, "jobs", "a", 0);
            assert!(soon("a turn", waiting).await.expect("no panic").is_held());
        });
    }

    fn a_holder_whose_score_was_changed_is_told(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            creates(&server, "jobs", "a");
            let guard = gets(&locks.pool("jobs"), "a").await;
            let stolen = time_us(&server) + 100_000_000;
            scores(&server, "jobs", "a", stolen);
            // Anybody's look finds out, and the next renewal would.
            let tried = soon("a try", locks.pool("jobs").try_any()).await.expect("a server");
            assert!(tried.is_none());
            soon("it is told", guard.lost()).await;
            assert!(guard.release().await.is_err(), "it was not held any more");
            assert_eq!(score(&server, "jobs", "a"), Some(stolen), "the client that took over keeps the member");
        });
    }

    fn a_holder_whose_member_was_removed_is_told(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "3600").await;
            for member in ["a", "b"] {
                creates(&server, "jobs", member);
            }
            // No renewal of its own is to find out.
            let acquire = locks.pool("jobs").member("a").lease(Duration::from_secs(3_600));
            let guard = soon("a member", acquire).await.expect("it");
            server.cli(&["ZREM", "jobs", "a"]);
            drop(gets(&locks.pool("jobs"), "b").await);
            soon("it is told", guard.lost()).await;
            assert_eq!(score(&server, "jobs", "a"), None);
            let members = seen(&locks, "jobs").await.members;
            assert_eq!(members.len(), 1, "{members:?}");
        });
    }

    fn a_score_without_an_end_can_be_broken_while_one_of_ours_waits(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            server.cli(&["ZADD", "jobs", "+inf", "a"]);
            let waiting = waits_for(&locks, "jobs", "a");
            until_waiting(&server, "jobs", 1);
            let broken = soon("a break", locks.break_lock("jobs").at_once()).await;
            assert_eq!(broken.expect("a server"), 1);
            let guard = soon("a turn", waiting).await.expect("no panic");
            assert!(score(&server, "jobs", "a").is_some_and(|score| score > 0));
            guard.release().await.expect("held");
        });
    }

    fn foreign_clients_are_seen_and_can_be_broken(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            for member in ["a", "b"] {
                creates(&server, "jobs", member);
                assert!(takes(&server, "jobs", member, "60"));
            }
            let view = seen(&locks, "jobs").await;
            let holders: Vec<_> = view.holders.iter().map(|holder| holder.member.as_ref().expect("one").as_str()).collect();
            assert_eq!(holders.len(), 2, "{view:?}");
            assert!(holders.contains(&"a") && holders.contains(&"b"));
            assert_eq!(view.holders[0].label.why(), "protocol=zmutex");
            assert!((50_000..=60_001).contains(&view.holders[0].left.as_millis()), "{view:?}");
            assert!(view.members.iter().all(|member| member.held && !member.stale));
            let waiting = waits_for(&locks, "jobs", "b");
            until_waiting(&server, "jobs", 1);
            assert_eq!(locks.break_lock("jobs").at_once().await.expect("a server"), 2);
            let guard = soon("a turn", waiting).await.expect("no panic");
            assert_eq!(score(&server, "jobs", "a"), Some(0));
            let view = seen(&locks, "jobs").await;
            assert_eq!((view.holders.len(), view.holders[0].token), (1, None));
            drop(guard);
        });
    }

    fn what_a_foreign_client_has_is_removed_when_its_time_is_over(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            let jobs = locks.pool("jobs");
            creates(&server, "jobs", "a");
            assert!(takes(&server, "jobs", "a", "60"));
            assert!(jobs.remove("a").await.expect("a server") && !jobs.remove("a").await.expect("a server"));
            assert!(seen(&locks, "jobs").await.members[0].leaving);
            assert!(score(&server, "jobs", "a").is_some(), "it is held");
            assert!(jobs.add("a").await.expect("a server"), "it stays after all");
            assert!(jobs.remove("a").await.expect("a server"));
            scores(&server, "jobs", "a", 0);
            assert!(soon("a try", jobs.try_any()).await.expect("a server").is_none());
            assert_eq!(score(&server, "jobs", "a"), None);
        });
    }

    fn the_dead_hold_up_nobody_for_longer_than_their_lease(flavor: Flavor) {
        let clock = ServerClock::ahead(0).expect("a clock");
        let server = Server::builder(flavor).clock(&clock).start().expect("a server");
        block_on(async {
            let dead = lifeless(&server).await;
            creates(&server, "jobs", "a");
            let (jobs, member) = (taketurns::Name::new("jobs").expect("one"), taketurns::Member::new("a").expect("one"));
            let answer = dead.call(&jobs, asks(1, Ask::Any, 600_000)).await.expect("a server");
            assert!(matches!(answer.reply, Reply::Granted(_)), "{:?}", answer.reply);
            let answer = dead.call(&jobs, asks(2, Ask::Member(member), 600_000)).await.expect("a server");
            assert!(matches!(answer.reply, Reply::Queued(_)), "{:?}", answer.reply);
            // Their leases are over. The wire's timeout, which is for foreign clients, is not.
            clock.set(601).expect("set");
            let locks = zmutex(&server, TIMEOUT_S).await;
            let guard = gets(&locks.pool("jobs"), "a").await;
            guard.release().await.expect("held");
            dead.close().await;
        });
    }

    fn who_polls_is_not_starved_by_those_who_hand_over(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            creates(&server, "jobs", "a");
            for _ in 0..4 {
                let locks = zmutex(&server, "60").await;
                tokio::spawn(async move {
                    loop {
                        let guard = gets(&locks.pool("jobs"), "a").await;
                        tokio::time::sleep(Duration::from_millis(3)).await;
                        let _ = guard.release().await;
                    }
                });
            }
            for _ in 0..3 {
                eventually("a foreign client gets in", || takes(&server, "jobs", "a", "60").then_some(())).expect("a turn");
                tokio::time::sleep(Duration::from_millis(30)).await;
                scores(&server, "jobs", "a", 0);
            }
        });
    }

    fn the_least_rights_do_with_or_without_events(flavor: Flavor) {
        let server = starts(flavor);
        server.cli(&["CONFIG", "SET", "notify-keyspace-events", "Kz"]);
        let commands = [&redis_acl::COMMANDS[..], &["unsubscribe", "zrange", "zincrby", "zadd", "zrem"]].concat();
        block_on(async {
            for (user, channels) in [("hears", "&__keyspace@*__:jobs"), ("deaf", "&tt:wake:*")] {
                redis_acl::set_user(&server, user, "tt:", &commands);
                assert!(server.cli(&["ACL", "SETUSER", user, "~jobs", channels]).is_ok());
                let url = format!("{}?protocol=zmutex&unfenced=ok", redis_acl::url(&server, user));
                let locks = soon("connecting", taketurns::connect(&url)).await.expect("a server");
                assert!(locks.pool("jobs").add("a").await.expect("a right"));
                let guard = gets(&locks.pool("jobs"), "a").await;
                let waiting = waits_for(&locks, "jobs", "a");
                until_waiting(&server, "jobs", 1);
                let denied = || server.cli(&["ACL", "LOG"]).array().expect("a log").len();
                if user == "deaf" {
                    // It tries to hear in the background, for as long as somebody waits.
                    eventually("it may not hear", || (denied() > 0).then_some(())).expect("tried");
                }
                guard.release().await.expect("held");
                soon("a turn", waiting).await.expect("no panic").release().await.expect("held");
                assert!(takes(&server, "jobs", "a", "60"));
                assert_eq!(seen(&locks, "jobs").await.holders.len(), 1);
                assert_eq!(locks.break_lock("jobs").at_once().await.expect("a right"), 1);
                assert!(locks.pool("jobs").remove("a").await.expect("a right"));
                assert!(user == "deaf" || denied() == 0, "it has all rights that it needs");
            }
        });
    }

    fn a_set_is_in_one_slot_of_a_cluster_with_our_own_state(flavor: Flavor) {
        let cluster = Cluster::start(flavor).expect("a Cluster");
        block_on(async {
            let url = format!("{}?protocol=zmutex&unfenced=ok", cluster.url());
            let locks = soon("connecting", taketurns::connect(&url)).await.expect("a Cluster");
            for set in ["jobs", "other", "{tagged}jobs", "odd}"] {
                let jobs = locks.pool(set);
                assert!(jobs.add("a").await.expect("a server"));
                let guard = gets(&jobs, "a").await;
                let owner = cluster.owner_of(cluster.slot_of(set)).expect("an owner");
                let server = &cluster.nodes[owner];
                assert!(!takes(server, set, "a", "60"), "a foreign client is kept out");
                let waiting = waits_for(&locks, set, "a");
                let channel = format!("__keyspace@0__:{set}");
                eventually("events are heard of where the set is", || {
                    let channels = server.cli(&["PUBSUB", "CHANNELS", "__keyspace*"]);
                    channels.array()?.iter().any(|it| it.text() == Some(&channel)).then_some(())
                })
                .expect("a channel");
                guard.release().await.expect("held");
                soon("a turn", waiting).await.expect("no panic").release().await.expect("held");
                assert!(takes(server, set, "a", "60"));
            }
        });
    }

    fn what_is_left_to_others_goes_to_a_native_client_if_it_is_alone(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let wired = zmutex(&server, "60").await;
            wired.pool("orders").add("m").await.expect("a set");
            let guard = soon("an acquire", wired.pool("orders").any()).await.expect("a member");
            let native = soon("connecting", taketurns::connect(&server.url())).await.expect("a server");
            let waiting = tokio::spawn(native.pool("orders").any().into_future());
            waits(&server, "orders", 1);
            // As if foreign clients had come the last time: each release leaves it to them for a while.
            server.cli(&["HSET", "tt:orders", "gc", "0 0 0"]);
            guard.release().await.expect("held");
            wired.close().await;
            let guard = soon("a hand-over", waiting).await.expect("no panic").expect("a member");
            assert!(guard.is_held());
        });
    }
}
