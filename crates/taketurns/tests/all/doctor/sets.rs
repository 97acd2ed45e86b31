//! Sentinel sets and Clusters.

use taketurns::doctor::Level;
use taketurns_servers::{Cluster, Flavor, ReplicaSet, Server, eventually, module_path, on_both};

use super::{bad, check, examined, is, node};

on_both! {
    fn a_set_without_min_replicas_is_named_and_one_with_them_is_well(flavor: Flavor) {
        let set = ReplicaSet::start(flavor).expect("a set");
        let report = examined(&set.url());
        for server in &set.servers {
            is(&report, &node(server), "min-replicas", Level::Warn, "two holders are possible");
        }
        let kept = ["--appendonly", "yes"];
        let set = ReplicaSet::builder(flavor).min_replicas(true).args(kept).start();
        let set = set.expect("a set");
        let report = examined(&set.url());
        // Its only user is the one that may do everything.
        let bad: Vec<_> = bad(&report).into_iter().filter(|check| check.name != "excess").collect();
        assert!(bad.is_empty(), "{bad:#?}");
        is(&report, "all", "sentinels", Level::Ok, "there are 3");
        let master = set.master().expect("a master");
        is(&report, "all", "agreement", Level::Ok, &node(master));
        is(&report, &node(master), "role", Level::Ok, "a master");
        for replica in set.replicas().expect("replicas") {
            is(&report, &node(replica), "role", Level::Ok, "a replica of");
            is(&report, &node(master), "replicas", Level::Ok, &node(replica));
        }
    }

    fn sentinels_that_are_down_are_named(flavor: Flavor) {
        let set = ReplicaSet::builder(flavor).replicas(0).start().expect("a set");
        set.sentinels[1].kill();
        let report = examined(&set.url());
        is(&report, &node(&set.sentinels[1]), "reachable", Level::Fail, "refused");
        is(&report, &node(&set.sentinels[0]), "reachable", Level::Ok, "a Sentinel");
        is(&report, &node(&set.servers[0]), "replicas", Level::Warn, "none follows it");
        set.sentinels[2].kill();
        eventually("the last one knows that it is alone", || {
            let report = examined(&set.url());
            (check(&report, "all", "sentinels").level == Level::Fail).then_some(())
        })
        .expect("it can't fail over");
        set.sentinels[0].kill();
        let report = examined(&set.url());
        assert!(!report.reached && report.checks.len() == 3, "{report:#?}");
    }

    fn a_master_that_is_down_is_named_by_sentinels_that_are_not(flavor: Flavor) {
        let set = ReplicaSet::builder(flavor).replicas(0).start().expect("a set");
        set.servers[0].kill();
        let report = examined(&set.url());
        is(&report, &node(&set.servers[0]), "reachable", Level::Fail, "refused");
        assert!(report.reached);
    }

    fn a_replica_without_the_module_of_its_master_is_named(flavor: Flavor) {
        let modules = ["--enable-module-command", "yes"];
        let set = ReplicaSet::builder(flavor).replicas(1).args(modules).start().expect("a set");
        let [master, replica] = &set.servers[..] else { panic!("two") };
        let load = |server: &Server| {
            let path = module_path().expect("the module was built");
            assert!(server.cli(&["MODULE", "LOAD", path.to_str().expect("a path")]).is_ok());
        };
        load(master);
        for url in [set.url(), master.url()] {
            let report = examined(&url);
            let of_module = report.checks.iter().filter(|check| check.name == "module");
            let lacks: Vec<_> = of_module.filter(|check| check.level == Level::Warn).collect();
            let [lacks] = lacks[..] else { panic!("{report:#?}") };
            assert_eq!(lacks.node, node(master));
            assert!(lacks.found.contains(&node(replica)), "{lacks:?}");
        }
        load(replica);
        let report = examined(&set.url());
        for server in [master, replica] {
            is(&report, &node(server), "module", Level::Ok, "failover immediate");
        }
    }

    fn a_cluster_is_well_until_a_master_is_lost(flavor: Flavor) {
        let kept = ["--appendonly", "yes"];
        let cluster = Cluster::builder(flavor).replicas(true).args(kept).start().expect("a Cluster");
        let report = examined(&cluster.url());
        let bad: Vec<_> = bad(&report).into_iter().filter(|check| check.name != "excess").collect();
        assert!(bad.is_empty(), "{bad:#?}");
        is(&report, "all", "slots", Level::Ok, "by 3 masters");
        is(&report, "all", "state", Level::Ok, "ok");
        for (number, server) in cluster.nodes.iter().enumerate() {
            let role = if number < 3 { "a master" } else { "a replica of" };
            is(&report, &node(server), "role", Level::Ok, role);
        }
        for server in &cluster.nodes {
            assert_eq!(server.cli(&["DBSIZE"]).int(), Some(0), "nothing was written");
        }

        let [lost, its_replica] = [&cluster.nodes[1], &cluster.nodes[4]];
        its_replica.kill();
        lost.kill();
        eventually("the Cluster knows", || {
            let report = examined(&cluster.url());
            (check(&report, "all", "state").level == Level::Fail).then_some(())
        })
        .expect("it is down");
        is(&examined(&cluster.url()), &node(lost), "reachable", Level::Fail, "refused");
    }

    fn a_cluster_that_is_none_says_what_it_is(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let report = examined(&server.url().replace("redis://", "redis+cluster://"));
        is(&report, &node(&server), "mode", Level::Fail, "is not part of a Cluster");
        let cluster = Cluster::start(flavor).expect("a Cluster");
        let report = examined(&cluster.nodes[0].url());
        is(&report, &node(&cluster.nodes[0]), "mode", Level::Fail, "is part of a Cluster");
    }
}
