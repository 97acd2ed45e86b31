//! Native clients beside those on a wire, which are handed the lock by one that knows no gate.

use taketurns_servers::{Flavor, on_both};

use super::*;

/// The last native client hands the lock to one on the wire, and goes. From then on foreign clients, of whom
/// there may be some again, are kept out by what is in the wire's keys.
fn keeps_foreign_clients_out(flavor: Flavor, protocol: &str, is_kept_out: fn(&Server) -> bool) {
    let server = Server::start(flavor).expect("a server");
    hands_over(&server, protocol, |locks| locks.mutex("orders").acquire(), is_kept_out);
    assert_eq!(foreign_keys(&server), [""; 0]);
}

fn hands_over(
    server: &Server,
    protocol: &str,
    take: fn(&Locks) -> Acquire,
    is_kept_out: fn(&Server) -> bool,
) {
    let acquires = |locks: Locks| async move {
        soon("an acquire", take(&locks).lease(LEASE)).await.expect("the lock")
    };
    block_on(async {
        let ours = speaks(server, protocol).await;
        let native = soon("connecting", taketurns::connect(&server.url())).await.expect("a server");
        let guard = acquires(native.clone()).await;
        let waiting = [1, 2].map(|count| {
            let waiting = tokio::spawn(acquires(ours.clone()));
            waits(server, "orders", count);
            waiting
        });
        assert!(!is_kept_out(server), "a native client knows no gate");
        guard.release().await.expect("held");
        native.close().await;
        for waiting in waiting {
            let guard = soon("its turn", waiting).await.expect("no panic");
            eventually("foreign clients are kept out", || is_kept_out(server).then_some(()))
                .expect("a gate");
            assert!(guard.is_held());
            guard.release().await.expect("held");
        }
    });
}

fn has_key(server: &Server, key: &str) -> bool {
    foreign_keys(server).iter().any(|it| it == key)
}

on_both! {
    fn what_a_native_client_handed_over_keeps_plain_clients_out(flavor: Flavor) {
        keeps_foreign_clients_out(flavor, "plain", |server| has_key(server, "orders"));
    }

    fn what_a_native_client_handed_over_keeps_fairqueue_clients_out(flavor: Flavor) {
        keeps_foreign_clients_out(flavor, "fairqueue", |server| has_key(server, "lock:orders"));
    }

    fn what_a_native_client_handed_over_keeps_redturn_clients_out(flavor: Flavor) {
        keeps_foreign_clients_out(flavor, "redturn", |server| {
            let head = server.cli(&["LINDEX", "orders", "0"]);
            let timeout = head.text().and_then(|head| head.rsplit(':').next()?.parse::<u64>().ok());
            // One that waits is seen out after its waiter lease.
            timeout.is_some_and(|timeout| timeout > 10_000)
        });
    }

    fn what_a_native_client_handed_over_keeps_zmutex_clients_out(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        server.cli(&["ZADD", "orders", "0", "a"]);
        // A native client knows the members that one on the wire has seen.
        block_on(async {
            let ours = speaks(&server, "zmutex").await;
            let pool = ours.pool("orders");
            drop(soon("a try", pool.try_any()).await.expect("a server").expect("a member"));
        });
        hands_over(&server, "zmutex", |locks| locks.pool("orders").any(), |server| {
            let score = server.cli(&["ZSCORE", "orders", "a"]);
            score.text() != Some("0")
        });
    }
}
