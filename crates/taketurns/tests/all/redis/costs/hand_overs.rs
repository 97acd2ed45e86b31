//! Hand-overs as users see them: clients with many tasks that wait for one lock.

use std::time::{Duration, Instant};

use taketurns::{Connect, Guard, Locks};
use taketurns_servers::{Flavor, Server, on_both};
use tokio::sync::mpsc;

use super::{block_on, calls, has_waiters, only_scripts_were_sent, soon};

const CLIENTS: usize = 4;
const ROUNDS: u64 = 100;

/// The longest that a client may have. Whatever is refreshed or renewed is so at a third of it.
const LEASE: Duration = Duration::from_secs(60);

/// Starts a task that waits for the lock and sends its guard to the one place that releases guards.
fn wait(locks: &Locks, guards: &mpsc::UnboundedSender<Guard>) {
    let (acquire, guards) = (locks.mutex("l").acquire().lease(LEASE), guards.clone());
    tokio::spawn(async move {
        if let Ok(guard) = acquire.await {
            let _ = guards.send(guard);
        }
    });
}

/// Counts the commands of a number of turns while this many clients wait. In each turn one client starts to wait, and
/// the next one gets the lock.
async fn commands(server: &Server, waiters: usize) -> u64 {
    let mut clients = Vec::new();
    // Ten thousand questions at once take a busy machine longer than the client waits by default.
    let url = format!("{}?response_timeout=60", server.url());
    for _ in 0..CLIENTS {
        let connect = Connect::new(&url).waiter_lease(LEASE);
        clients.push(connect.open().await.expect("a server"));
    }
    let start = Instant::now();
    let (sender, mut guards) = mpsc::unbounded_channel();
    let mut guard = clients[0].mutex("l").acquire().lease(LEASE).await.expect("free");
    // Two rounds to warm up, so that every client has met every script that it will use.
    let warm_up = 2 * CLIENTS;
    let mut next = (0..CLIENTS).cycle();
    let mut one_more = || wait(&clients[next.next().expect("endless")], &sender);
    (0..waiters + warm_up).for_each(|_| one_more());
    soon("all wait", has_waiters(&clients[0], "l", waiters + warm_up)).await;
    for _ in 0..warm_up {
        guard.release().await.expect("held");
        guard = soon("a hand-over", guards.recv()).await.expect("a guard");
    }
    server.reset_stats();
    for round in 0..ROUNDS {
        one_more();
        // Or it might come after the lock is free, and need no hand-over.
        soon("who came waits", were_sent(server, 2 * round + 1)).await;
        guard.release().await.expect("held");
        guard = soon("a hand-over", guards.recv()).await.expect("a guard");
    }
    let calls = calls(server);
    let sent = only_scripts_were_sent(&calls);
    assert_eq!(calls["publish"], ROUNDS, "one wake-up per turn, at {waiters} waiters");
    // None as long as this is done in a third of a lease, which it is unless the machine is slow.
    let thirds = start.elapsed().as_secs() / (LEASE.as_secs() / 3);
    let kept_alive = thirds * (CLIENTS as u64 + 1);
    assert!(sent >= 2 * ROUNDS && sent <= 2 * ROUNDS + kept_alive, "{sent}, {thirds} thirds");
    drop(guard);
    sent - kept_alive.min(sent - 2 * ROUNDS)
}

/// Waits until the server has counted this many scripts. Asking for the count is not one of them.
async fn were_sent(server: &Server, scripts: u64) {
    while calls(server).get("evalsha").is_none_or(|calls| *calls < scripts) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

on_both! {
    fn a_hand_over_is_two_commands_with_1_and_100_and_10_000_waiters(flavor: Flavor) {
        for waiters in [1, 100, 10_000] {
            let server = Server::start(flavor).expect("a server");
            let start = Instant::now();
            let commands = block_on(commands(&server, waiters));
            println!("{flavor}, {waiters} waiters: {commands} commands, {:?}", start.elapsed());
            assert_eq!(commands, 2 * ROUNDS, "{waiters} waiters");
        }
    }
}
