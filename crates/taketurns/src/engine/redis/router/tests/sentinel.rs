//! Sentinels, and a master that changes.

use taketurns_servers::{Flavor, MASTER_NAME, ReplicaSet, Server};

use super::party::{CHANNEL, Party, assert_broken, refused};
use super::server::{ask, gone, until};
use crate::engine::EngineError;

struct WatchedSet {
    set: ReplicaSet,
    /// The first Sentinel in the URL, which is gone: clients must skip it.
    gone: Server,
}

impl WatchedSet {
    fn start() -> Self {
        let set = ReplicaSet::builder(Flavor::Redis).replicas(1).start().expect("a set");
        Self { set, gone: gone() }
    }

    fn url(&self, master: &str) -> String {
        let hosts = std::iter::once(&self.gone).chain(&self.set.sentinels);
        let hosts: Vec<_> = hosts.map(|sentinel| sentinel.addr().to_string()).collect();
        format!("redis+sentinel://{}/{master}", hosts.join(","))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_master_is_followed_when_it_is_switched() {
    let watched = WatchedSet::start();
    let [first, second] = [&watched.set.servers[0], &watched.set.servers[1]];
    let mut party = Party::open(&watched.url(MASTER_NAME)).await.unwrap();
    let (_, before) = party.call(&["SET", "a", "1"]).await.unwrap();
    assert_eq!(before.connection().address.port, first.port());
    assert_eq!(before.peer.lag, None);
    ask(&watched.set.sentinels[0], &["SENTINEL", "FAILOVER", MASTER_NAME]);
    // By the watch alone: nothing is sent meanwhile.
    party.recheck().await;
    until("the link is dropped", || !before.connection().is_alive());
    let (_, after) = party.call_until(&["SET", "a", "2"]).await;
    assert_eq!(after.connection().address.port, second.port());
    assert_eq!(
        (
            after.connection().origin.source,
            after.connection().origin.epoch > before.connection().origin.epoch
        ),
        (0, true)
    );
    ask(second, &["PUBLISH", CHANNEL, "new"]);
    assert_eq!(party.heard().await, b"new");
    party.router.close().await;
    let metrics = tokio::runtime::Handle::current().metrics();
    until("all tasks have ended", || metrics.num_alive_tasks() == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_master_is_followed_by_its_replica() {
    let watched = WatchedSet::start();
    let party = Party::open(&watched.url(MASTER_NAME)).await.unwrap();
    party.call(&["SET", "a", "1"]).await.unwrap();
    watched.set.servers[0].kill();
    let (_, after) = party.call_until(&["SET", "a", "2"]).await;
    assert_eq!(after.connection().address.port, watched.set.servers[1].port());
}

/// On one thread, as the driver's runtime is: there the watch, which begins at the same time, passes
/// over the one that is gone just when the search does.
#[tokio::test]
async fn one_sentinel_that_answers_is_enough() {
    let watched = WatchedSet::start();
    let (gone, answers) = (watched.gone.addr(), watched.set.sentinels[0].addr());
    for hosts in [format!("{gone},{answers}"), format!("{gone},{answers},{gone}")] {
        let party = Party::open(&format!("redis+sentinel://{hosts}/{MASTER_NAME}")).await.unwrap();
        party.call(&["GET", "a"]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_in_the_place_of_a_server_is_recognised() {
    let watched = WatchedSet::start();
    let sentinel = watched.set.sentinels[0].addr();
    for scheme in ["redis", "redis+cluster"] {
        let refused = refused(&format!("{scheme}://{sentinel}")).await;
        assert_broken(&refused, &format!("{sentinel} is a Sentinel: use redis+sentinel://"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sentinels_do_not_know_is_said() {
    let watched = WatchedSet::start();
    assert_broken(&refused(&watched.url("other")).await, "no master named \"other\"");
    let url = format!("{}?strict=true", watched.url(MASTER_NAME));
    assert_broken(&refused(&url).await, "min-replicas-to-write");
    ask(&watched.set.servers[0], &["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let party = Party::open(&url).await.unwrap();
    let (_, session) = party.call(&["GET", "a"]).await.unwrap();
    assert_eq!(session.peer.lag.map(|lag| lag.as_secs()), Some(10));
    let nobody = refused(&format!("redis+sentinel://{}/m", watched.gone.addr())).await;
    assert!(
        matches!(&nobody, EngineError::Unreachable(why) if why.contains("no Sentinel")),
        "{nobody}"
    );
}
