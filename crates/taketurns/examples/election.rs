//! An election: three candidates lead one after the other. The second leads until its lock is broken. An observer sees
//! who leads.

use std::time::Duration;

use taketurns::{Connect, Election, Locks};
use tokio::time::sleep;

async fn candidate(
    name: &str,
    store: taketurns::engine::MemoryStore,
) -> Result<(), taketurns::Error> {
    let locks: Locks = Connect::engine(store).who(name).open().await?;
    let mut terms = 0;
    let leads = |token: taketurns::Token| {
        terms += 1;
        let term = terms;
        async move {
            println!("{name} leads with token {token}, for the {term}. time");
            sleep(Duration::from_millis(60)).await;
            println!("{name} is done");
        }
    };
    locks.election("scheduler").campaign().why("to plan the day").lead(leads).await
}

async fn observe(election: Election) -> Result<(), taketurns::Error> {
    let mut observer = election.observe().every(Duration::from_millis(10));
    loop {
        match observer.changed().await? {
            Some(leader) => println!("  {} leads, {}", leader.label.who(), leader.label.why()),
            None => println!("  nobody leads"),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = taketurns::engine::MemoryStore::default();
    let locks = Connect::engine(store.clone()).open().await?;
    let election = locks.election("scheduler");
    let observer = tokio::spawn(observe(election.clone()));
    let candidates =
        ["anna", "bert", "carl"].map(|name| tokio::spawn(candidate(name, store.clone())));
    while election.leader().await?.is_none_or(|leader| leader.label.who() != "bert") {
        sleep(Duration::from_millis(5)).await;
    }
    locks.break_lock("scheduler").await?; // bert drops what it does, and campaigns again
    for candidate in candidates {
        candidate.await??;
    }
    sleep(Duration::from_millis(30)).await; // for the observer's last look
    observer.abort();
    Ok(())
}
