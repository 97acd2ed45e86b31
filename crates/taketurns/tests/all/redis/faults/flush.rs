//! FLUSHALL: a server that has lost all it knew, its marker too, without being restarted.

use taketurns_servers::{Cluster, Flavor, Server, on_both};

use super::load::Load;
use super::{MAX_LEASE, block_on, connect, soon, store};

/// Flushes, and says when: in one step, since the first client may look again right after it.
fn flush(server: &Server) -> u64 {
    let mut connection = server.connect().expect("a connection");
    let mut say = |word: &str| connection.command(&[word]).expect("a reply");
    assert!(say("MULTI").is_ok());
    say("FLUSHALL");
    say("TIME");
    let done = say("EXEC");
    let [flushed, time] = done.array().expect("two replies") else { panic!("{done}") };
    assert!(flushed.is_ok());
    let part = |index: usize| time.array()?.get(index)?.text()?.parse::<u64>().ok();
    part(0).expect("seconds") * 1_000_000 + part(1).expect("microseconds")
}

on_both! {
    fn after_a_flush_nothing_is_granted_until_every_lease_is_over(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let load = Load::start(&[store(&server.url())]);
        let mut flushed_us = Vec::new();
        for _ in 0..2 {
            load.goes_on(100);
            flushed_us.push(flush(&server));
        }
        load.goes_on(100);
        let history = load.finish();
        for flushed_us in flushed_us {
            history.pauses(flushed_us, MAX_LEASE);
        }
    }
}

#[test]
fn nothing_is_granted_after_a_flush_of_a_cluster_while_somebody_holds_it() {
    let cluster = Cluster::start(Flavor::Redis).expect("a cluster");
    block_on(async {
        let url = store(&cluster.url());
        let (one, two) = (connect(&url).await, connect(&url).await);
        let held = one.mutex("l").acquire().lease(MAX_LEASE).await.expect("free");
        for node in &cluster.nodes {
            assert!(node.cli(&["FLUSHALL"]).is_ok());
        }
        let next = two.mutex("l").acquire().lease(MAX_LEASE);
        let next = soon("the second is granted", next).await.expect("granted");
        assert!(!held.is_held(), "two held it at once");
        assert!(held.token() < next.token());
    });
}
