//! What turns cost the server, counted by the server itself (`INFO commandstats`), which also counts
//! what scripts do inside.
//!
//! Counts are compared, times only shown: a busy machine changes the latter. To see them:
//! `cargo test -p taketurns --release --test all redis::costs:: -- --nocapture --test-threads 1`

mod hand_overs;
mod keeping;
mod once;
mod steps;

use std::collections::BTreeMap;
use std::time::Duration;

use taketurns::Connect;
use taketurns_servers::stats::CommandStats;
use taketurns_servers::{Flavor, Server, on_both};

use crate::support::patience::{block_on, soon};

/// How often each command ran since the counters were reset, but for those that count.
type Calls = BTreeMap<String, u64>;

/// What the helper that asks for the counters does itself.
const COUNTING: [&str; 2] = ["info", "config|resetstat"];

fn stats(server: &Server) -> BTreeMap<String, CommandStats> {
    let mut stats = server.command_stats();
    stats.retain(|name, stats| stats.calls > 0 && !COUNTING.contains(&name.as_str()));
    stats
}

fn calls(server: &Server) -> Calls {
    stats(server).into_iter().map(|(name, stats)| (name, stats.calls)).collect()
}

/// The commands that clients sent were scripts and nothing else. Each reads the time and the marker
/// once, and none of what else they do is ever sent by a client.
fn only_scripts_were_sent(calls: &Calls) -> u64 {
    const INNER: [&str; 8] =
        ["time", "get", "hmget", "hget", "hset", "hdel", "pexpireat", "publish"];
    let scripts = calls.get("evalsha").copied().unwrap_or(0);
    // All but a release of a lock that nobody waits for look at the time and the marker.
    let looks = calls.get("time").copied().unwrap_or(0);
    assert_eq!(looks, calls.get("get").copied().unwrap_or(0), "both or none: {calls:?}");
    assert!(looks <= scripts, "once per script: {calls:?}");
    for name in calls.keys().filter(|name| *name != "evalsha") {
        assert!(INNER.contains(&name.as_str()), "{name} was sent: {calls:?}");
    }
    scripts
}

on_both! {
    fn an_acquire_of_a_free_lock_is_one_command_and_its_release_another(flavor: Flavor) {
        const TURNS: u64 = 50;
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = taketurns::connect(&server.url()).await.expect("a server");
            // The first turn brings the scripts to the server.
            locks.mutex("l").acquire().await.expect("free").release().await.expect("held");
            for turn in 0..TURNS {
                server.reset_stats();
                let guard = locks.mutex("l").acquire().await.expect("free");
                assert_eq!(only_scripts_were_sent(&calls(&server)), 1, "acquire {turn}");
                server.reset_stats();
                guard.release().await.expect("held");
                assert_eq!(only_scripts_were_sent(&calls(&server)), 1, "release {turn}");
            }
            locks.close().await;
        });
    }

    fn a_try_on_a_held_lock_is_one_command(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = taketurns::connect(&server.url()).await.expect("a server");
            let guard = locks.mutex("l").acquire().await.expect("free");
            server.reset_stats();
            assert!(locks.mutex("l").try_acquire().await.expect("an answer").is_none());
            assert_eq!(only_scripts_were_sent(&calls(&server)), 1);
            drop(guard);
            locks.close().await;
        });
    }

    fn waiting_costs_one_refresh_per_client_and_lock_however_many_tasks_wait(flavor: Flavor) {
        const TASKS: usize = 50;
        const REFRESHES: u64 = 4;
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let waiter_lease = Duration::from_secs(3);
            let holder = taketurns::connect(&server.url()).await.expect("a server");
            let waiter = Connect::new(&server.url()).waiter_lease(waiter_lease);
            let waiter = waiter.open().await.expect("a server");
            // Renewed every 20 s.
            let guard = holder.mutex("l").acquire().lease(Duration::from_secs(60)).await;
            let waits: Vec<_> = (0..TASKS)
                .map(|_| tokio::spawn(waiter.mutex("l").acquire().into_future()))
                .collect();
            soon("all wait", has_waiters(&holder, "l", TASKS)).await;
            server.reset_stats();
            let start = std::time::Instant::now();
            let scripts = || calls(&server).get("evalsha").copied().unwrap_or(0);
            soon("some refreshes", async {
                while scripts() < REFRESHES {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
            .await;
            // One may have been due when counting began.
            let thirds = start.elapsed().as_millis() / (waiter_lease.as_millis() / 3);
            let counted = only_scripts_were_sent(&calls(&server));
            assert!(u128::from(counted) <= thirds + 2, "{counted} in {thirds} thirds of a lease");
            waits.iter().for_each(tokio::task::JoinHandle::abort);
            drop(guard);
        });
    }
}

/// Waits until the lock has this number of waiters.
async fn has_waiters(locks: &taketurns::Locks, lock: &str, waiting: usize) {
    loop {
        let view = locks.inspect(lock).await.expect("the store answers");
        if view.is_some_and(|view| view.waiting == waiting) {
            return;
        }
        // A look at ten thousand takes the server a while, in which it does nothing else.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
