//! `protocol=fairqueue`: those who died or gave up, ours and foreign clients.

use taketurns_servers::{Flavor, on_both};

use super::fairqueue::*;
use super::*;

on_both! {
    fn foreign_clients_that_died_cost_a_moment_each_and_leave_nothing(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            server.cli(&["RPUSH", QUEUE, "dead", "dead, too"]);
            let guard = acquires(&ours, "orders").await;
            assert_eq!(foreign_keys(&server), [LOCK]);
            guard.release().await.expect("held");
            assert_eq!(foreign_keys(&server), [""; 0]);
        });
    }

    fn a_foreign_client_that_died_is_removed_by_a_try_too(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            server.cli(&["RPUSH", QUEUE, "dead"]);
            let has_it = async {
                while is_busy(&ours, "orders").await {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            soon("a try", has_it).await;
        });
    }

    fn a_call_that_nobody_hears_goes_by_itself(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            let stands = |lock: &str, foreign: &str| {
                let queue = format!("lock-queue:{lock}");
                server.cli(&["RPUSH", &queue, foreign]).int().expect("a length");
            };
            // However often it is looked at, as long as it may come.
            let look_twice = async |lock: &str, foreign: &str| {
                let busy = [is_busy(&ours, lock).await, is_busy(&ours, lock).await];
                (busy, server.cli(&["LLEN", &format!("lock-notify:{foreign}")]).int())
            };
            let grace = Duration::from_secs(1);
            let (left_ms, looks) = while_it_is_so(grace, async |number| {
                let (lock, foreign) = (format!("orders-{number}"), format!("a foreign client {number}"));
                let guard = acquires(&ours, &lock).await;
                stands(&lock, &foreign);
                let called = Instant::now();
                guard.release().await.expect("held");
                let left_ms = left_ms(&server, &format!("lock-notify:{foreign}"));
                (called, (left_ms, look_twice(&lock, &foreign).await))
            })
            .await;
            assert!((1..=10_000).contains(&left_ms));
            assert_eq!(looks, ([true, true], Some(1)));
            // Also for a lock that the server has forgotten.
            let looks = while_it_is_so(grace, async |number| {
                let (lock, foreign) = (format!("new-{number}"), format!("another {number}"));
                stands(&lock, &foreign);
                (Instant::now(), look_twice(&lock, &foreign).await)
            })
            .await;
            assert_eq!(looks, ([true, true], Some(1)));
        });
    }

    fn who_gives_up_leaves_nothing(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            assert!(locks(&server, "first"));
            let waiting = begins_to_wait(&server, &ours);
            // Called, and not heard yet: whatever comes first.
            server.cli(&["RPUSH", &format!("lock-notify:{}", line(&server)[0]), "x"]);
            waiting.abort();
            eventually("it is gone", || (foreign_keys(&server) == [LOCK]).then_some(())).expect("nothing left");
            server.cli(&["RPUSH", QUEUE, "second"]);
            let waiting = begins_to_wait(&server, &ours);
            waiting.abort();
            eventually("it is gone", || (line(&server) == ["second"]).then_some(())).expect("out of line");
            unlocks(&server, "first");
            assert!(locks(&server, "second"));
        });
    }

    fn a_dead_one_of_ours_costs_no_more_than_its_lease(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            assert!(locks(&server, "first"));
            let dead = queues_and_takes_no_turn(&server, "fairqueue", [500, 600_000]).await;
            let waiting = begins_to_wait(&server, &ours);
            let ids = line(&server);
            let promoted = comes_first_after_the_end(&server, "second");
            assert_eq!(promoted.as_ref(), Some(&ids[0]), "the dead one, for ten minutes");
            let guard = has_it(waiting).await;
            assert_eq!(holder(&server).as_ref(), Some(&ids[1]));
            assert_eq!(foreign_keys(&server), [QUEUE, LOCK], "and nothing is left of it");
            drop((guard, dead));
        });
    }

    fn one_of_ours_that_was_dead_when_it_was_promoted_is_passed_over(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let (proxy, dead) = mortal(&server, "fairqueue").await;
            assert!(locks(&server, "first"));
            let never = begins_to_wait(&server, &dead);
            proxy.hold(true);
            tokio::time::sleep(MORTAL_LEASE * 2).await;
            server.cli(&["DEL", LOCK]);
            assert!(!locks(&server, "second"), "it promotes the dead one, for ten minutes");
            let ours = speaks(&server, "fairqueue").await;
            drop(acquires(&ours, "orders").await);
            never.abort();
        });
    }

    fn one_of_ours_that_a_native_client_found_dead_does_not_stay_in_line(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let (proxy, dead) = mortal(&server, "fairqueue").await;
            let native = soon("connecting", taketurns::connect(&server.url())).await.expect("a server");
            let guard = acquires(&native, "orders").await;
            let never = begins_to_wait(&server, &dead);
            proxy.hold(true);
            tokio::time::sleep(MORTAL_LEASE * 2).await;
            guard.release().await.expect("held");
            assert_eq!(line(&server).len(), 1, "it knows nothing of lines");
            let ours = speaks(&server, "fairqueue").await;
            acquires(&ours, "orders").await.release().await.expect("held");
            assert_eq!(foreign_keys(&server), [""; 0]);
            never.abort();
        });
    }
}
