//! What goes wrong with redturn, and does not with ours; and who is dead in its list.

use std::time::Instant;

use taketurns::ErrorKind;
use taketurns_servers::{Flavor, eventually, on_both};

use super::redturn_clients::{Scene, Words, begins, holds, told};
use super::*;

/// One of ours that stands in line, and is never heard of again.
async fn dies_in_line(scene: &Scene) {
    let dead = queues_and_takes_no_turn(&scene.server, "redturn", [60_000, 200]).await;
    soon("it goes", dead.close()).await;
}

/// How long a foreign client that heard nothing may take to come back.
const GRACE: Duration = Duration::from_secs(1);

/// A foreign client's turn, in milliseconds: longer than a grace, and no longer than a look.
const TURN_MS: u32 = 1_500;

/// Has so much time passed? But for the part of a millisecond that the server's clock does not show.
pub(super) fn has_passed(began: Instant, ms: u64) -> bool {
    began.elapsed() + Duration::from_millis(1) >= Duration::from_millis(ms)
}

on_both! {
    fn a_release_where_the_list_is_gone_is_of_a_lock_that_is_not_held(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let guard = acquires(&locks, "orders").await;
            scene.server.cli(&["DEL", "orders"]);
            let error = guard.release().await.expect_err("it was not held any more");
            assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
            acquires(&locks, "orders").await.release().await.expect("held");
            assert_eq!(foreign_keys(&scene.server), [""; 0]);
        });
    }

    fn a_holder_that_was_popped_is_told_and_takes_nobody_along(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let guard = acquires(&locks, "orders").await;
            scene.stands("orders", "a", 60_000);
            let [id, ..] = scene.head("orders").expect("a head");
            assert!(scene.signals("orders", &id, Words::Late));
            // Anybody's look finds out, and the next renewal would.
            assert!(is_busy(&scene.client().await, "orders").await);
            soon("it is told", guard.lost()).await;
            assert!(guard.release().await.is_err());
            assert_eq!(scene.head("orders").expect("a head")[0], "a");
        });
    }

    fn a_timer_for_a_head_of_ours_that_was_renewed_finds_another(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let lease = Duration::from_secs(6);
            let guard = soon("an acquire", locks.mutex("orders").acquire().lease(lease)).await.expect("it");
            scene.stands("orders", "a", 60_000);
            let mut seen = Vec::new();
            for _ in 0..3 {
                let [id, _, timeout] = scene.head("orders").expect("a head");
                let timeout: u128 = timeout.parse().expect("a number");
                assert!((1..=6_000).contains(&timeout), "{timeout}");
                let renewed = || (scene.head("orders")?[0] != id).then_some(());
                eventually("it is renewed", renewed).expect("another id");
                assert!(!scene.signals("orders", &id, Words::Late), "as a client that timed it would");
                assert!(guard.is_held());
                assert!(!seen.contains(&id));
                seen.push(id);
            }
            guard.release().await.expect("held");
            assert_eq!(scene.list("orders").len(), 1);
        });
    }

    fn a_signal_that_nobody_heard_is_noticed(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            scene.stands("orders", "a", 600_000);
            let waiting = scene.waits(&locks, "orders", 2);
            scene.server.cli(&["LPOP", "orders"]);
            holds(waiting).await.release().await.expect("held");
        });
    }

    fn a_foreign_client_is_removed_after_its_timeout_and_not_before(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let mut b = scene.listens("b");
            let began = Instant::now();
            scene.stands("orders", "a", 1_500);
            scene.stands("orders", "b", 60_000);
            let waiting = begins(&locks, "orders");
            assert_eq!(told(&mut b), "orders:b");
            assert!(has_passed(began, 1_500), "it was still its turn");
            assert!(scene.signals("orders", "b", Words::Old));
            holds(waiting).await.release().await.expect("held");
        });
    }

    fn a_foreign_client_that_heard_its_turn_has_its_timeout_from_then_on(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let guard = acquires(&locks, "orders").await;
            scene.stands("orders", "a", TURN_MS);
            let mut a = scene.listens("a");
            let waiting = scene.waits(&locks, "orders", 3);
            let began = Instant::now();
            guard.release().await.expect("held");
            assert_eq!(told(&mut a), "orders:a");
            drop(holds(waiting).await);
            assert!(has_passed(began, TURN_MS.into()), "it was still its turn");
        });
    }

    fn clients_that_nobody_can_tell_cost_a_grace_and_not_their_timeout(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let guard = acquires(&locks, "orders").await;
            for id in ["a", "b", "c"] {
                scene.stands("orders", id, 600_000);
            }
            let waiting = scene.waits(&locks, "orders", 5);
            guard.release().await.expect("held");
            holds(waiting).await.release().await.expect("held");
            assert_eq!(foreign_keys(&scene.server), [""; 0]);
        });
    }

    fn a_client_that_comes_back_within_its_grace_is_told_again_and_stays(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let (list, waiting, mut a) = while_it_is_so(GRACE, async |number| {
                let list = format!("orders-{number}");
                let guard = acquires(&locks, &list).await;
                scene.stands(&list, "a", 600_000);
                let waiting = scene.waits(&locks, &list, 3);
                let told = Instant::now();
                guard.release().await.expect("held");
                (told, (list, waiting, scene.listens("a")))
            })
            .await;
            // Of what it came back too late for it may be told as well.
            eventually("it is told", || (told(&mut a) == format!("{list}:a")).then_some(())).expect("again");
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(scene.head(&list).expect("a head")[0], "a", "it is its turn");
            assert!(scene.signals(&list, "a", Words::Late));
            holds(waiting).await.release().await.expect("held");
        });
    }

    fn a_foreign_client_that_was_told_again_has_its_timeout_from_then_on(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let (list, waiting, began, mut a) = while_it_is_so(GRACE, async |number| {
                let list = format!("orders-{number}");
                let guard = acquires(&locks, &list).await;
                scene.stands(&list, "a", TURN_MS);
                let waiting = scene.waits(&locks, &list, 3);
                let began = Instant::now();
                guard.release().await.expect("held");
                (began, (list, waiting, began, scene.listens("a")))
            })
            .await;
            eventually("it is told", || (told(&mut a) == format!("{list}:a")).then_some(())).expect("again");
            drop(holds(waiting).await);
            assert!(has_passed(began, 1_000 + u64::from(TURN_MS)), "a grace, and then its turn");
        });
    }

    fn a_server_with_replicas_can_not_say_that_nobody_heard(flavor: Flavor) {
        let scene = Scene::new(flavor);
        let replica = Server::builder(flavor).replica_of(scene.server.port()).start().expect("a replica");
        eventually("it is there", || {
            (scene.server.info("replication").get("connected_slaves")? == "1").then_some(())
        }).expect("a replica");
        block_on(async {
            let locks = scene.client().await;
            let guard = acquires(&locks, "orders").await;
            scene.stands("orders", "a", TURN_MS);
            let waiting = scene.waits(&locks, "orders", 3);
            let began = Instant::now();
            guard.release().await.expect("held");
            drop(holds(waiting).await);
            assert!(has_passed(began, TURN_MS.into()), "it may have listened at the replica");
        });
        drop(replica);
    }

    fn one_of_ours_that_died_in_line_is_passed_over_at_once(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let guard = acquires(&locks, "orders").await;
            dies_in_line(&scene).await;
            scene.stands("orders", "a", 600_000);
            let mut a = scene.listens("a");
            tokio::time::sleep(Duration::from_millis(250)).await;
            guard.release().await.expect("held");
            assert_eq!(told(&mut a), "orders:a");
            assert_eq!(scene.list("orders").len(), 1);
        });
    }

    fn a_waiter_asks_foreign_clients_for_no_more_than_its_waiter_lease(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            scene.stands("orders", "a", 600_000);
            dies_in_line(&scene).await;
            assert!(scene.list("orders")[1].ends_with(":200"), "{:?}", scene.list("orders"));
            let fields = scene.server.cli(&["HKEYS", "tt:orders"]);
            assert!(fields.to_string().contains("\"gt"), "{fields}");
            // Another of ours takes the dead one away, and what was known of it.
            let locks = scene.client().await;
            tokio::time::sleep(Duration::from_millis(250)).await;
            let waiting = scene.waits(&locks, "orders", 2);
            assert!(scene.signals("orders", "a", Words::Late));
            holds(waiting).await.release().await.expect("held");
            let fields = scene.server.cli(&["HKEYS", "tt:orders"]);
            assert!(!fields.to_string().contains("\"gt"), "{fields}");
        });
    }

    fn one_of_ours_that_was_popped_in_line_stands_again_and_keeps_its_turn(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            scene.stands("orders", "a", 600_000);
            let (first, second) = (scene.waits(&locks, "orders", 2), scene.waits(&locks, "orders", 3));
            let entries = scene.list("orders");
            assert_eq!(scene.server.cli(&["LREM", "orders", "1", &entries[1]]).int(), Some(1));
            scene.reaches("orders", 3);
            assert_eq!(scene.list("orders")[1..], [entries[2].clone(), entries[1].clone()]);
            assert!(scene.signals("orders", "a", Words::Late));
            let first = holds(first).await;
            assert!(!second.is_finished());
            assert_eq!(scene.list("orders")[1..], entries[2..], "they have changed turns");
            first.release().await.expect("held");
            holds(second).await.release().await.expect("held");
            assert_eq!(foreign_keys(&scene.server), [""; 0]);
        });
    }

    fn a_list_that_was_deleted_is_made_anew(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            scene.stands("orders", "a", 600_000);
            let (first, second) = (scene.waits(&locks, "orders", 2), scene.waits(&locks, "orders", 3));
            scene.server.cli(&["DEL", "orders"]);
            holds(first).await.release().await.expect("held");
            holds(second).await.release().await.expect("held");
            assert_eq!(foreign_keys(&scene.server), [""; 0]);
        });
    }

    fn where_the_list_is_taken_away_nothing_of_those_who_waited_is_left(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            scene.stands("orders", "a", 60_000);
            let waiting = scene.waits(&locks, "orders", 2);
            scene.server.cli(&["DEL", "orders"]);
            holds(waiting).await.release().await.expect("held");
            let fields = scene.server.cli(&["HKEYS", "tt:orders"]);
            let fields = fields.array().expect("fields").iter().filter_map(|field| field.text());
            let left: Vec<&str> = fields.filter(|field| field.starts_with('g')).collect();
            assert_eq!(left, [""; 0]);
        });
    }

    fn one_that_a_native_client_handed_the_lock_to_is_not_shown_as_waiting(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let (locks, native) = (scene.client().await, taketurns::connect(&scene.server.url()).await);
            let guard = acquires(&native.expect("a server"), "orders").await;
            let waiting = scene.waits(&locks, "orders", 1);
            guard.release().await.expect("held");
            let guard = holds(waiting).await;
            let seen = locks.inspect("orders").await.expect("a server").expect("a lock");
            assert_eq!((seen.holders.len(), seen.waiting), (1, 0));
            guard.release().await.expect("held");
            assert_eq!(foreign_keys(&scene.server), [""; 0]);
        });
    }

    fn a_try_removes_a_dead_foreign_client_as_well(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let began = Instant::now();
            scene.stands("orders", "a", 700);
            while is_busy(&locks, "orders").await {
                assert!(began.elapsed() < taketurns_servers::PATIENCE, "it is never over");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert!(has_passed(began, 700), "it was still its turn");
        });
    }

    fn a_malformed_head_is_neither_stolen_at_once_nor_an_error(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let far = format!("a:b:{}", "9".repeat(400));
            let absurd = ["", "x", "a:b", "::", "a:b:", "a:b:0", "a:b:-1", "a:b:soon", "a:b:1:1", &far];
            for (number, head) in absurd.into_iter().enumerate() {
                let list = format!("orders-{number}");
                scene.server.cli(&["RPUSH", &list, head]);
                assert!(is_busy(&locks, &list).await, "{head:?}");
                let waiting = scene.waits(&locks, &list, 2);
                assert!(locks.inspect(&list).await.expect("a server").expect("a lock").holders.len() == 1);
                tokio::time::sleep(Duration::from_millis(20)).await;
                assert_eq!(scene.list(&list)[0], head, "it is left alone");
                assert_eq!(locks.break_lock(&list).at_once().await.expect("a server"), 1);
                holds(waiting).await.release().await.expect("held");
            }
            // As the next, too.
            let guard = acquires(&locks, "orders").await;
            scene.server.cli(&["RPUSH", "orders", "x"]);
            guard.release().await.expect("held");
            assert_eq!(scene.list("orders"), ["x"]);
        });
    }

    fn a_server_that_has_forgotten_our_scripts_is_told_them_again(flavor: Flavor) {
        let scene = Scene::new(flavor);
        block_on(async {
            let locks = scene.client().await;
            let guard = acquires(&locks, "orders").await;
            assert!(scene.server.cli(&["SCRIPT", "FLUSH"]).is_ok());
            guard.release().await.expect("held");
            drop(acquires(&locks, "orders").await);
        });
    }
}
