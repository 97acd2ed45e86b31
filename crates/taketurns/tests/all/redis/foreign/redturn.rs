//! `protocol=redturn`: the head of the list holds the lock.

use std::time::Instant;
use taketurns::{ErrorKind, Token};

use taketurns_servers::{Cluster, Flavor, eventually, on_both};

use super::redturn_clients::{SIGNAL, Scene, Words, holds, told};
use super::redturn_faults::has_passed;
use super::rights::rights;
use super::*;

on_both! {
    fn the_holder_is_the_head_for_its_lease_and_its_id_is_no_secret(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let guard = acquires(&locks, "orders").await;
            assert_eq!(guard.token(), Token::UNFENCED, "there is no room for one");
            let [id, channel, timeout] = scene.head("orders").expect("a head");
            assert_eq!(scene.list("orders").len(), 1);
            assert_eq!(timeout, LEASE.as_millis().to_string());
            let listening = scene.server.cli(&["PUBSUB", "NUMSUB", &channel]);
            assert_eq!(listening.array().expect("a count")[1].int(), Some(1), "it listens there");
            scene.stands("orders", "a", 60_000);
            let handle = guard.into_handle().await.expect("held");
            assert!(!handle.expose().contains(&id), "a reader of the list could use the handle");
        });
    }

    fn a_lock_is_waited_for_and_signalled(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let lease = Duration::from_secs(5);
            let held = soon("wait", locks.mutex("resource_name").acquire().lease(lease)).await.expect("it");
            assert_eq!(scene.list("resource_name").len(), 1);
            held.release().await.expect("signal");
            assert_eq!(foreign_keys(&scene.server), [""; 0]);
        });
    }

    fn a_lock_is_waited_for_elsewhere_and_signalled_once_it_has_come(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            scene.stands("resource_name", "a", 60_000);
            let (reference, mut mailbox) = tokio::sync::mpsc::unbounded_channel();
            tokio::spawn({
                let locks = locks.clone();
                async move { reference.send(acquires(&locks, "resource_name").await).map_err(drop) }
            });
            scene.reaches("resource_name", 2);
            assert!(mailbox.try_recv().is_err(), "it is not its turn");
            assert!(scene.signals("resource_name", "a", Words::Old));
            let held = soon("wait_async", mailbox.recv()).await.expect("a message");
            held.release().await.expect("signal");
            assert_eq!(foreign_keys(&scene.server), [""; 0]);
        });
    }

    fn foreign_clients_and_ours_stand_in_one_line(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let (one, other) = (scene.client().await, scene.client().await);
            let first = acquires(&one, "orders").await;
            scene.stands("orders", "a", 60_000);
            let mut a = scene.listens("a");
            let second = scene.waits(&other, "orders", 3);
            let third = scene.waits(&one, "orders", 4);
            scene.stands("orders", "b", 60_000);
            let mut b = scene.listens("b");
            first.release().await.expect("held");
            assert_eq!(told(&mut a), "orders:a");
            assert!(!second.is_finished() && !third.is_finished(), "it is the foreign client's");
            assert!(is_busy(&one, "orders").await);
            assert!(scene.signals("orders", "a", Words::Late));
            let second = holds(second).await;
            assert!(!third.is_finished(), "not both of ours");
            second.release().await.expect("held");
            holds(third).await.release().await.expect("held");
            assert_eq!(told(&mut b), "orders:b");
            assert_eq!(scene.list("orders").len(), 1);
        });
    }

    fn each_foreign_client_is_told_once_and_in_its_own_words(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            // By the document, and as redturn.ts makes its ids.
            for (id, message) in [("a", "orders:a"), ("1794755223463.7", "1794755223463.7:orders")] {
                let guard = acquires(&locks, "orders").await;
                scene.stands("orders", id, 60_000);
                let mut ear = scene.listens(id);
                guard.release().await.expect("held");
                assert_eq!(told(&mut ear), message);
                // Whatever else it was told would come before this.
                let channel = scene.head("orders").expect("a head")[1].clone();
                scene.server.cli(&["PUBLISH", &channel, "the next"]);
                assert_eq!(told(&mut ear), "the next");
                assert!(scene.signals("orders", id, Words::Late));
            }
        });
    }

    fn ours_hear_a_foreign_signal_in_either_words_whatever_the_name(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.sleeper().await;
            for name in ["orders", "orders:42", ":a::b:"] {
                for words in [Words::Old, Words::Late] {
                    scene.stands(name, "a", 60_000);
                    let waiting = scene.waits(&locks, name, 2);
                    assert!(scene.signals(name, "a", words));
                    holds(waiting).await.release().await.expect("held");
                }
            }
            assert_eq!(foreign_keys(&scene.server), [""; 0]);
        });
    }

    fn who_gives_up_leaves_nothing_in_the_list(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let mut a = scene.listens("a");
            scene.stands("orders", "z", 60_000);
            let (first, second) = (scene.waits(&locks, "orders", 2), scene.waits(&locks, "orders", 3));
            scene.stands("orders", "a", 60_000);
            second.abort();
            scene.reaches("orders", 3);
            first.abort();
            scene.reaches("orders", 2);
            assert!(scene.signals("orders", "z", Words::Late));
            assert_eq!(told(&mut a), "a:orders");
            // One that only tries never stands there.
            assert!(is_busy(&locks, "orders").await);
            assert_eq!(scene.list("orders").len(), 1);
        });
    }

    fn who_gives_up_at_the_head_tells_the_next(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.sleeper().await;
            let native = soon("connecting", taketurns::connect(&scene.server.url())).await.expect("a server");
            let guard = acquires(&native, "orders").await;
            let waiting = scene.waits(&locks, "orders", 1);
            let mut a = scene.listens("a");
            scene.stands("orders", "a", 60_000);
            waiting.abort();
            assert_eq!(told(&mut a), "orders:a");
            guard.release().await.expect("held");
        });
    }

    fn foreign_clients_are_seen_in_the_list_and_the_head_can_be_broken(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let look = async || locks.inspect("orders").await.expect("a server").expect("a lock");
            scene.stands("orders", "a", 60_000);
            let view = look().await;
            assert_eq!((view.holders.len(), view.waiting), (1, 0), "no state of ours is needed");
            assert_eq!(view.holders[0].label.why(), "protocol=redturn");
            assert!((1..=60_000).contains(&view.holders[0].left.as_millis()));
            scene.stands("orders", "b", 60_000);
            let waiting = scene.waits(&locks, "orders", 3);
            scene.stands("orders", "c", 60_000);
            let view = look().await;
            assert_eq!((view.holders.len(), view.waiting), (1, 3));
            let is_foreign = |waiter: &taketurns::WaiterView| waiter.label.why() == "protocol=redturn";
            let foreign: Vec<bool> = view.waiters.iter().map(is_foreign).collect();
            assert_eq!(foreign, [true, false, true]);
            let mut b = scene.listens("b");
            assert_eq!(locks.break_lock("orders").at_once().await.expect("a server"), 1);
            assert_eq!(told(&mut b), "orders:b");
            assert_eq!(locks.break_lock("orders").at_once().await.expect("a server"), 1);
            let guard = holds(waiting).await;
            let view = look().await;
            assert_eq!((view.holders.len(), view.waiting), (1, 1));
            assert_ne!(view.holders[0].label.why(), "protocol=redturn");
            // Ours is meant, and not the one that comes next by it.
            assert_eq!(locks.break_lock("orders").at_once().await.expect("a server"), 1);
            soon("it is told", guard.lost()).await;
            assert_eq!(scene.head("orders").expect("a head")[0], "c");
        });
    }

    fn a_key_that_is_no_list_is_named_and_left_alone(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            assert!(scene.server.cli(&["SET", "orders", "x"]).is_ok());
            let error = soon("a try", locks.mutex("orders").try_acquire()).await.expect_err("a string");
            assert_eq!(error.kind(), ErrorKind::Store);
            assert!(error.to_string().contains("protocol=redturn"), "{error}");
            assert_eq!(scene.server.cli(&["GET", "orders"]).text(), Some("x"));
        });
    }

    fn those_on_another_wire_are_refused(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let (locks, plain) = (scene.client().await, speaks(&scene.server, "plain").await);
            let guard = acquires(&locks, "orders").await;
            let error = soon("a try", plain.mutex("orders").try_acquire()).await.expect_err("mixed");
            assert!(error.to_string().contains("protocol="), "{error}");
            assert!(guard.is_held());
        });
    }

    fn native_clients_exclude_ours_and_wake_them_and_leave_nothing_behind(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.sleeper().await;
            let native = sleeper(&scene.server.url(), AllowedLooks::Never).await;
            let guard = acquires(&native, "orders").await;
            assert!(is_busy(&locks, "orders").await);
            let waiting = scene.waits(&locks, "orders", 1);
            guard.release().await.expect("held");
            let guard = holds(waiting).await;
            assert!(is_busy(&native, "orders").await);
            let waiting = tokio::spawn(async move { acquires(&native, "orders").await });
            eventually("it waits", || {
                let queue = scene.server.cli(&["HGET", "tt:orders", "q"]);
                queue.text()?.starts_with("1 ").then_some(())
            }).expect("a place");
            guard.release().await.expect("held");
            holds(waiting).await.release().await.expect("held");
            // What a native client could not take away goes with the next turn.
            acquires(&locks, "orders").await.release().await.expect("held");
            assert_eq!(foreign_keys(&scene.server), [""; 0]);
        });
    }

    fn the_rights_that_the_page_names_are_enough_among_foreign_clients(flavor: Flavor) {
        let scene = Scene::new(flavor);
        let words = rights(include_str!("../../../../../../docs/protocols/redturn.md"));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!(scene.server.cli(&words).is_ok(), "{words:?}");
        block_on(async {
            let user = format!("redis://taketurns:secret@127.0.0.1:{}", scene.server.port());
            let url = format!("{user}?protocol=redturn&unfenced=ok");
            let locks = soon("connecting", taketurns::connect(&url)).await.expect("the rights");
            let guard = acquires(&locks, "orders/1").await;
            scene.stands("orders/1", "a", 60_000);
            let mut a = scene.listens("a");
            let (first, second) = (scene.waits(&locks, "orders/1", 3), scene.waits(&locks, "orders/1", 4));
            second.abort();
            scene.reaches("orders/1", 3);
            guard.release().await.expect("held");
            assert_eq!(told(&mut a), "orders/1:a");
            let view = locks.inspect("orders/1").await.expect("the rights").expect("a lock");
            assert_eq!((view.holders.len(), view.waiting), (1, 1));
            let own = scene.list("orders/1").pop().expect("an entry");
            assert_eq!(scene.server.cli(&["LREM", "orders/1", "1", &own]).int(), Some(1));
            scene.reaches("orders/1", 2);
            assert!(scene.signals("orders/1", "a", Words::Late));
            holds(first).await.release().await.expect("held");
            assert_eq!(foreign_keys(&scene.server), [""; 0]);
        });
    }

    fn on_a_cluster_it_is_the_same(flavor: Flavor) {
        let cluster = Cluster::start(flavor).expect("a Cluster");
        block_on(async {
            let url = format!("{}?protocol=redturn&unfenced=ok", cluster.url());
            let locks = sleeper(&url, AllowedLooks::AtForeignClients).await;
            for name in ["orders", "a}b", "a:b"] {
                let owner = cluster.owner_of(cluster.slot_of(name)).expect("an owner");
                let node = &cluster.nodes[owner];
                let waits = |count: i64| {
                    let locks = locks.clone();
                    let waiting = tokio::spawn(async move { acquires(&locks, name).await });
                    let stands = || (node.cli(&["LLEN", name]).int() == Some(count)).then_some(());
                    eventually("it stands in line", stands).expect("a place");
                    waiting
                };
                let guard = acquires(&locks, name).await;
                assert_eq!(node.cli(&["LLEN", name]).int(), Some(1));
                node.cli(&["RPUSH", name, "a:redturn-a:1500"]);
                let waiting = waits(3);
                let began = Instant::now();
                guard.release().await.expect("held");
                let guard = holds(waiting).await;
                assert!(has_passed(began, 1_500), "the foreign client was not given its turn");
                node.cli(&["RPUSH", name, "b:redturn-b:600000"]);
                let waiting = waits(3);
                guard.release().await.expect("held");
                assert_eq!(node.cli(&["EVAL", SIGNAL, "1", name, "b", "late"]).int(), Some(1));
                holds(waiting).await.release().await.expect("held");
                assert_eq!(node.cli(&["EXISTS", name]).int(), Some(0));
            }
        });
    }
}
