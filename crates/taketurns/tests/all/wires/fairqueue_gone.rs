//! `protocol=fairqueue`: those who died or gave up, ours and strangers.

use taketurns_servers::{Flavor, Proxy, on_both};

use super::fairqueue::*;
use super::*;

on_both! {
    fn strangers_that_died_cost_a_moment_each_and_leave_nothing(flavor: Flavor) {
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

    fn a_stranger_that_died_is_seen_out_also_by_those_who_only_try(flavor: Flavor) {
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
            let guard = acquires(&ours, "orders").await;
            server.cli(&["RPUSH", QUEUE, "a stranger"]);
            guard.release().await.expect("held");
            assert!((1..=10_000).contains(&left_ms(&server, "lock-notify:a stranger")));
            // However often it is looked at.
            assert!(is_busy(&ours, "orders").await);
            assert!(is_busy(&ours, "orders").await);
            assert_eq!(server.cli(&["LLEN", "lock-notify:a stranger"]).int(), Some(1));
            // Also at a lock of which nothing is remembered.
            server.cli(&["RPUSH", "lock-queue:new", "another"]);
            assert!(is_busy(&ours, "new").await);
            assert!(is_busy(&ours, "new").await);
            assert_eq!(server.cli(&["LLEN", "lock-notify:another"]).int(), Some(1));
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

    fn a_dead_one_of_ours_costs_no_more_than_a_waiter_lease(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let proxy = Proxy::start(server.port()).expect("a proxy");
            let url = format!("{}?protocol=fairqueue&unfenced=ok", proxy.url());
            let connect = Connect::new(&url).waiter_lease(Duration::from_millis(600));
            let dead = soon("connecting", connect.open()).await.expect("a server");
            let ours = speaks(&server, "fairqueue").await;
            assert!(locks(&server, "first"));
            let never = begins_to_wait(&server, &dead);
            proxy.hold(true);
            let waiting = begins_to_wait(&server, &ours);
            let ids = line(&server);
            server.cli(&["DEL", LOCK]);
            assert!(!locks(&server, "second"));
            assert_eq!(holder(&server).as_ref(), Some(&ids[0]), "the dead one, for a minute");
            let guard = has_it(waiting).await;
            assert_eq!(holder(&server).as_ref(), Some(&ids[1]));
            assert_eq!(foreign_keys(&server), [QUEUE, LOCK], "and nothing is left of it");
            drop((guard, never));
        });
    }

    fn one_of_ours_that_was_dead_when_it_was_promoted_is_passed_over(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let proxy = Proxy::start(server.port()).expect("a proxy");
            let url = format!("{}?protocol=fairqueue&unfenced=ok", proxy.url());
            let lease = Duration::from_millis(300);
            let dead = soon("connecting", Connect::new(&url).waiter_lease(lease).open()).await;
            assert!(locks(&server, "first"));
            let never = begins_to_wait(&server, &dead.expect("a server"));
            proxy.hold(true);
            tokio::time::sleep(lease * 2).await;
            server.cli(&["DEL", LOCK]);
            assert!(!locks(&server, "second"), "it promotes the dead one, for a minute");
            let ours = speaks(&server, "fairqueue").await;
            drop(acquires(&ours, "orders").await);
            never.abort();
        });
    }

    fn one_of_ours_that_a_native_client_found_dead_does_not_stay_in_line(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let proxy = Proxy::start(server.port()).expect("a proxy");
            let url = format!("{}?protocol=fairqueue&unfenced=ok", proxy.url());
            let lease = Duration::from_millis(300);
            let dead = soon("connecting", Connect::new(&url).waiter_lease(lease).open()).await;
            let native = soon("connecting", taketurns::connect(&server.url())).await.expect("a server");
            let guard = acquires(&native, "orders").await;
            let never = begins_to_wait(&server, &dead.expect("a server"));
            proxy.hold(true);
            tokio::time::sleep(lease * 2).await;
            guard.release().await.expect("held");
            assert_eq!(line(&server).len(), 1, "it knows nothing of lines");
            let ours = speaks(&server, "fairqueue").await;
            acquires(&ours, "orders").await.release().await.expect("held");
            assert_eq!(foreign_keys(&server), [""; 0]);
            never.abort();
        });
    }
}
