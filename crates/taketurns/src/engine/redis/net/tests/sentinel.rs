//! Sentinels, and a master that changes.

use super::party::{CHANNEL, Party, assert_broken, refused};
use super::server::{Server, free_port, until};
use crate::engine::EngineError;

struct Watched {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Watched {
    fn start() -> Self {
        let master = Server::start("redis-server", &[]);
        let port = master.port.to_string();
        let replica = Server::start("redis-server", &["--replicaof", "127.0.0.1", &port]);
        until("the replica is in step", || {
            replica.ask::<String>(&["INFO", "replication"]).contains("master_link_status:up")
        });
        let sentinels = (0..2).map(|_| sentinel(&port)).collect::<Vec<_>>();
        let watched = Self { servers: vec![master, replica], sentinels };
        for sentinel in &watched.sentinels {
            until("it knows the replica and the other Sentinel", || {
                let info: String = sentinel.ask(&["INFO", "sentinel"]);
                info.contains("slaves=1,sentinels=2")
            });
        }
        watched
    }

    fn url(&self, master: &str) -> String {
        let hosts: Vec<_> =
            self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port)).collect();
        format!("redis+sentinel://127.0.0.1:{},{}/{master}", free_port(), hosts.join(","))
    }
}

fn sentinel(master: &str) -> Server {
    Server::sentinel(&format!(
        "sentinel monitor mymaster 127.0.0.1 {master} 1\n\
         sentinel down-after-milliseconds mymaster 1000\n\
         sentinel failover-timeout mymaster 5000\n"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_master_is_followed_when_it_is_switched() {
    let watched = Watched::start();
    let mut party = Party::open(&watched.url("mymaster")).await.unwrap();
    let (_, before) = party.call(&["SET", "a", "1"]).await.unwrap();
    assert_eq!(before.link.address.port, watched.servers[0].port);
    assert_eq!(before.link.lag, None);
    watched.sentinels[0].ask::<()>(&["SENTINEL", "FAILOVER", "mymaster"]);
    // By the watch alone: nothing is sent meanwhile.
    party.recheck().await;
    until("the link is dropped", || !before.link.is_alive());
    let (_, after) = party.call_until(&["SET", "a", "2"]).await;
    assert_eq!(after.link.address.port, watched.servers[1].port);
    assert_eq!((after.link.source, after.link.epoch > before.link.epoch), (0, true));
    watched.servers[1].ask::<i64>(&["PUBLISH", CHANNEL, "new"]);
    assert_eq!(party.heard().await, b"new");
    party.net.close().await;
    let metrics = tokio::runtime::Handle::current().metrics();
    until("all tasks have ended", || metrics.num_alive_tasks() == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_master_is_followed_by_its_replica() {
    let mut watched = Watched::start();
    let party = Party::open(&watched.url("mymaster")).await.unwrap();
    party.call(&["SET", "a", "1"]).await.unwrap();
    watched.servers[0].kill();
    let (_, after) = party.call_until(&["SET", "a", "2"]).await;
    assert_eq!(after.link.address.port, watched.servers[1].port);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sentinels_do_not_know_is_said() {
    let watched = Watched::start();
    assert_broken(&refused(&watched.url("other")).await, "no master named \"other\"");
    let url = format!("{}?strict=true", watched.url("mymaster"));
    assert_broken(&refused(&url).await, "min-replicas-to-write");
    watched.servers[0].ask::<()>(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let party = Party::open(&url).await.unwrap();
    let (_, session) = party.call(&["GET", "a"]).await.unwrap();
    assert_eq!(session.link.lag.map(|lag| lag.as_secs()), Some(10));
    let nobody = refused(&format!("redis+sentinel://127.0.0.1:{}/m", free_port())).await;
    assert!(
        matches!(&nobody, EngineError::Unreachable(why) if why.contains("no Sentinel")),
        "{nobody}"
    );
}
