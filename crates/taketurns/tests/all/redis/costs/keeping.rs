//! Many locks held by one process for a while: none is lost, and renewal costs what it has to.

use std::time::{Duration, Instant};

use taketurns_servers::{Flavor, Server, on_both};

use super::{block_on, calls, only_scripts_were_sent, soon};

const LOCKS: u64 = 1_000;
/// So long that no busy machine misses the time to renew a thousand.
const LEASE: Duration = Duration::from_secs(10);

on_both! {
    fn a_thousand_locks_are_kept_for_longer_than_their_lease(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = taketurns::connect(&server.url()).await.expect("a server");
            let mut guards = Vec::new();
            for number in 0..LOCKS {
                let acquire = locks.mutex(format!("l{number}")).acquire().lease(LEASE);
                guards.push(acquire.await.expect("free"));
            }
            server.reset_stats();
            let start = Instant::now();
            let scripts = || calls(&server).get("evalsha").copied().unwrap_or(0);
            soon("each is renewed, and longer held than its lease", async {
                while scripts() < LOCKS || start.elapsed() < LEASE {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    for guard in &guards {
                        guard.check().expect("held");
                    }
                }
            })
            .await;
            let (sent, held) = (only_scripts_were_sent(&calls(&server)), start.elapsed());
            let per_second = sent as f64 / held.as_secs_f64();
            println!("{flavor}: {per_second:.0} renewals/s of {LOCKS} locks, lease {LEASE:?}");
            // At a third of what counts as held, which is 1 % and 2 ms less than the lease; and a
            // lock is renewed at most once more than there are thirds.
            let third = (LEASE.mul_f64(0.99) - Duration::from_millis(2)) / 3;
            let at_most = LOCKS as f64 * (held.as_secs_f64() / third.as_secs_f64() + 1.0);
            assert!(sent as f64 <= at_most, "{sent} renewals, {at_most:.0} would do");
            for guard in guards {
                guard.release().await.expect("held");
            }
            locks.close().await;
        });
    }
}
