//! What becomes of a client, connected to a server, when the runtime that connected it blocks, ends or is one of many.

use std::sync::mpsc::channel;
use std::time::Duration;

use taketurns::{Guard, Locks};
use taketurns_servers::{Flavor, PATIENCE, Server, on_both};
use tokio::runtime::{Builder, Runtime};

use crate::support::patience::{block_on, soon};

/// Long enough for a busy machine, and renewed within seconds.
const LEASE: Duration = Duration::from_secs(9);

fn one_thread() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().expect("a runtime")
}

/// Connects, takes some turns so that answers are read here, and holds a lock.
async fn held(url: String) -> (Locks, Guard) {
    let locks = taketurns::connect(&url).await.expect("a server");
    for _ in 0..20 {
        let guard = locks.mutex("busy").acquire().await.expect("free");
        guard.release().await.expect("held");
    }
    let guard = locks.mutex("l").acquire().lease(LEASE).await.expect("free");
    (locks, guard)
}

/// Waits until the holder's lease has been extended, as another client sees it.
fn is_renewed(url: &str) {
    block_on(async {
        let other = taketurns::connect(url).await.expect("a server");
        let renewed = async {
            let mut least = Duration::MAX;
            loop {
                let view = other.inspect("l").await.expect("a server").expect("held");
                let left = view.holders.first().expect("held").left;
                if left > least {
                    return;
                }
                least = left;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon("it is renewed", renewed).await;
    });
}

/// The client goes on, on a runtime that is not the one that connected it: a request, and a wake-up.
fn goes_on(locks: &Locks, guard: Guard) {
    block_on(async {
        guard.check().expect("held");
        let waits = tokio::spawn(locks.mutex("l").acquire().into_future());
        let queued = async {
            while locks.inspect("l").await.expect("a server").expect("held").waiting == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        soon("it queues up", queued).await;
        soon("it is released", guard.release()).await.expect("held");
        let next = soon("it is handed over", waits).await.expect("no panic").expect("a turn");
        next.release().await.expect("held");
    });
}

on_both! {
    fn a_runtime_that_connected_and_blocks_keeps_its_lock(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let runtime = one_thread();
        let (locks, guard) = runtime.block_on(runtime.spawn(held(server.url()))).expect("no panic");
        let (unblock, blocked) = channel::<()>();
        let (is_blocked, blocks) = channel();
        runtime.spawn(async move {
            is_blocked.send(()).expect("the test waits");
            let _ = blocked.recv();
        });
        blocks.recv_timeout(PATIENCE).expect("it hangs");
        is_renewed(&server.url());
        goes_on(&locks, guard);
        drop(unblock);
    }

    fn a_runtime_that_connected_and_ends_keeps_its_lock(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let runtime = one_thread();
        let (locks, guard) = runtime.block_on(runtime.spawn(held(server.url()))).expect("no panic");
        drop(runtime);
        is_renewed(&server.url());
        goes_on(&locks, guard);
    }

    fn runtimes_that_come_and_go_share_a_client(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let locks = block_on(taketurns::connect(&server.url())).expect("a server");
        let mut last = None;
        for round in 0..30 {
            let runtime = match round % 3 {
                0 => one_thread(),
                1 => Runtime::new().expect("a runtime"),
                _ => Builder::new_current_thread().enable_all().build().expect("a runtime"),
            };
            let mutex = locks.mutex("l");
            let turn = runtime.spawn(async move { soon("a turn", mutex.acquire()).await });
            let guard = runtime.block_on(turn).expect("no panic").expect("a turn");
            let token = guard.check().expect("held");
            assert!(last.replace(token) < Some(token), "tokens increase");
            // Some are given back by a drop, with the end of their runtime right behind it.
            if round % 2 == 0 {
                runtime.block_on(runtime.spawn(guard.release())).expect("no panic").expect("held");
            } else {
                drop(guard);
            }
        }
    }
}
