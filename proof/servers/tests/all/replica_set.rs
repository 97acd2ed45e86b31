//! A master, replicas and sentinels: fail-over, and what a stale replica does not know.

use taketurns_servers::{Flavor, ReplicaSet, ServerReply, eventually, on_both};

on_both! {
    fn a_stale_replica_becomes_the_master(flavor: Flavor) {
        let set = ReplicaSet::start(flavor).expect("a set");
        let ports: Vec<String> =
            set.sentinels.iter().map(|s| format!("127.0.0.1:{}", s.port())).collect();
        assert_eq!(set.url(), format!("redis+sentinel://{}/turns", ports.join(",")));
        let old = set.master().expect("a master");
        assert_eq!(old.port(), set.servers[0].port());
        assert_eq!(set.replicas().expect("replicas").len(), 2);

        old.cli(&["SET", "before", "1"]);
        for replica in set.replicas().expect("replicas") {
            let value = || replica.cli(&["GET", "before"]).text().map(str::to_owned);
            eventually("the write arrives", value).expect("replication");
        }
        set.cut_replication().expect("a cut");
        assert!(old.cli(&["SET", "after", "1"]).is_ok());
        for replica in set.replicas().expect("replicas") {
            assert_eq!(replica.cli(&["GET", "after"]), ServerReply::Nil);
        }
        old.kill();
        let new = set.failed_over(old).expect("a fail-over");
        assert_ne!(new.port(), old.port());
        assert_eq!(new.cli(&["GET", "before"]).text(), Some("1"));
        assert_eq!(new.cli(&["GET", "after"]), ServerReply::Nil, "it never heard of it");
        assert!(new.cli(&["SET", "after", "2"]).is_ok());

        old.restart().expect("the old master");
        let demoted = || (old.info("replication").get("role")? == "slave").then_some(());
        eventually("the old master follows the new one", demoted).expect("a demotion");
        let value = || (old.cli(&["GET", "after"]).text() == Some("2")).then_some(());
        eventually("it gets the new state", value).expect("replication");
        assert_eq!(set.master().expect("a master").port(), new.port());
    }

    fn a_master_without_replicas_refuses_writes_if_told_to(flavor: Flavor) {
        let set = ReplicaSet::builder(flavor).replicas(1).min_replicas(true).start();
        let set = set.expect("a set");
        let master = set.master().expect("a master");
        for server in &set.servers {
            let reply = server.cli(&["CONFIG", "GET", "min-replicas-*"]);
            assert_eq!(reply.field("min-replicas-to-write").and_then(ServerReply::text), Some("1"));
            assert_eq!(reply.field("min-replicas-max-lag").and_then(ServerReply::text), Some("1"));
        }
        let write = || master.cli(&["SET", "a", "1"]);
        eventually("a write is taken", || write().is_ok().then_some(())).expect("a good replica");
        set.cut_replication().expect("a cut");
        let refused = write();
        assert!(refused.error().is_some_and(|e| e.starts_with("NOREPLICAS")), "{refused}");
        set.mend_replication().expect("replicas follow again");
        eventually("a write is taken", || write().is_ok().then_some(())).expect("a good replica");
    }
}
