//! Acquires that are dropped at any moment.

use std::time::Duration;

use taketurns::Locks;
use taketurns_servers::fuzz::Dice;

use super::patience::soon;

/// What is acquired.
pub(crate) const LOCKS: [&str; 3] = ["a", "b", "c"];
const TASKS: u64 = 8;
const TURNS: u64 = 40;

/// Tasks of these clients acquire, try, and drop what they have or wait for, until all is dropped.
pub(crate) async fn drop_at_any_moment(clients: &[Locks; 3], lease: Duration) {
    let task = |task: u64| {
        let clients = clients.clone();
        tokio::spawn(async move {
            let mut dice = Dice::new(task);
            for _ in 0..TURNS {
                let number = dice.any();
                let locks = &clients[(number % 3) as usize];
                let mutex = locks.mutex(LOCKS[(number / 3 % 3) as usize]);
                // From before anything is sent until after it is granted.
                let after = Duration::from_micros(number / 9 % 8_000);
                let acquire = async {
                    match number % 2 {
                        0 => mutex.acquire().lease(lease).await.map(Some),
                        _ => mutex.try_acquire().lease(lease).await,
                    }
                };
                // The guard is dropped too, if there is one.
                drop(tokio::time::timeout(after, acquire).await);
            }
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(task).collect();
    for task in tasks {
        soon("all are dropped", task).await.expect("no panic");
    }
}

/// An acquire that was dropped before it was sent may still come and go. None stays.
pub(crate) async fn comes_free(locks: &Locks, lock: &str) {
    let guard = soon("it is free", locks.mutex(lock).acquire()).await;
    guard.expect("free").release().await.expect("held");
}
