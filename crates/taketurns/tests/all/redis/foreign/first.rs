//! A waiter that becomes the first in line because the one before it gave up. From then on it must ask whether foreign
//! clients are still in the way.

use taketurns_servers::{Flavor, on_both};
use tokio::task::JoinHandle;

use super::*;

/// Longer than ours hand the lock on among themselves before they leave it to foreign clients for a moment.
const STRETCH: Duration = Duration::from_secs(1);

struct Line {
    server: Server,
    protocol: &'static str,
    take: fn(&Locks) -> Acquire,
}

impl Line {
    fn new(flavor: Flavor, protocol: &'static str) -> Self {
        let server = Server::start(flavor).expect("a server");
        Self { server, protocol, take: |locks| locks.mutex("orders").acquire() }
    }

    /// Queues a client that learns only by a wake-up that it is first, as the last of `count` waiters.
    async fn begins_to_wait(&self, count: u32) -> JoinHandle<Guard> {
        let waiting = self.begins().await;
        waits(&self.server, "orders", count);
        waiting
    }

    async fn begins(&self) -> JoinHandle<Guard> {
        let url = format!("{}?protocol={}&unfenced=ok", self.server.url(), self.protocol);
        let locks = sleeper(&url, AllowedLooks::AtForeignClients).await;
        let take = self.take;
        tokio::spawn(async move {
            soon("an acquire", take(&locks).lease(LEASE)).await.expect("the lock")
        })
    }

    /// The first in line gives up while foreign clients are in its way, and the next is told.
    async fn the_next_is_told(&self, guard: Guard) {
        let first = self.begins_to_wait(1).await;
        let second = self.begins_to_wait(2).await;
        guard.release().await.expect("held");
        first.abort();
        // Should it have had its turn by now, that is over, too.
        drop(first);
        drop(soon("its turn", second).await.expect("no panic"));
    }

    /// The same while the lock is left to foreign clients.
    async fn the_next_is_told_of_a_gap(&self) {
        let guard = soon("a turn", self.begins().await).await.expect("no panic");
        let next = self.begins_to_wait(1).await;
        guard.release().await.expect("held");
        let guard = soon("a turn", next).await.expect("no panic");
        tokio::time::sleep(STRETCH).await;
        self.the_next_is_told(guard).await;
    }
}

on_both! {
    fn on_plain_it_hears_of_a_lock_that_was_left_to_foreign_clients(flavor: Flavor) {
        block_on(async { Line::new(flavor, "plain").the_next_is_told_of_a_gap().await });
    }

    fn on_zmutex_it_hears_of_a_member_that_was_left_to_foreign_clients(flavor: Flavor) {
        let line = Line { take: |locks| locks.pool("orders").any(), ..Line::new(flavor, "zmutex") };
        line.server.cli(&["ZADD", "orders", "0", "a"]);
        block_on(async { line.the_next_is_told_of_a_gap().await });
    }

    fn on_fairqueue_it_hears_of_a_client_that_was_called_in_vain(flavor: Flavor) {
        let line = Line::new(flavor, "fairqueue");
        block_on(async {
            let guard = soon("a turn", line.begins().await).await.expect("no panic");
            line.server.cli(&["RPUSH", "lock-queue:orders", "dead"]);
            line.the_next_is_told(guard).await;
        });
    }

    fn on_redturn_it_hears_of_a_client_that_hears_nothing(flavor: Flavor) {
        let line = Line::new(flavor, "redturn");
        block_on(async {
            let guard = soon("a turn", line.begins().await).await.expect("no panic");
            line.server.cli(&["RPUSH", "orders", "dead:nobody:60000"]);
            line.the_next_is_told(guard).await;
        });
    }
}
