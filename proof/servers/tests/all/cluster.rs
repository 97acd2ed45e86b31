//! A cluster: who owns what, a slot on its way, and a replica that takes over.

use taketurns_servers::{Cluster, Flavor, Migration, ServerReply, eventually, on_both};

/// Where a reply sends the client: the kind of redirection and the port.
fn redirection(reply: &ServerReply) -> Option<(&str, u16)> {
    let mut words = reply.error()?.split(' ');
    let kind = words.next()?;
    Some((kind, words.nth(1)?.rsplit(':').next()?.parse().ok()?))
}

on_both! {
    fn every_slot_has_an_owner_and_others_point_to_it(flavor: Flavor) {
        let cluster = Cluster::start(flavor).expect("a cluster");
        let ports: Vec<String> =
            cluster.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        assert_eq!(cluster.url(), format!("redis+cluster://{}", ports.join(",")));
        assert_eq!(cluster.nodes.len(), 3);
        let edges = [0, 5461, 5462, 10923, 10924, 16383];
        let owners = edges.map(|slot| cluster.owner_of(slot).expect("an owner"));
        assert_eq!(owners, [0, 0, 1, 1, 2, 2]);
        for key in ["a", "b", "c", "{tag}x", "}{", "{}y"] {
            let slot = cluster.slot_of(key);
            let asked = cluster.nodes[0].cli(&["CLUSTER", "KEYSLOT", key]);
            assert_eq!(asked, ServerReply::Int(slot.into()));
            let owner = cluster.owner_of(slot).expect("an owner");
            assert!(cluster.nodes[owner].cli(&["SET", key, "1"]).is_ok());
            let other = cluster.nodes[(owner + 1) % 3].cli(&["GET", key]);
            assert_eq!(redirection(&other), Some(("MOVED", cluster.nodes[owner].port())));
        }
    }

    fn a_slot_moves_in_three_steps(flavor: Flavor) {
        let cluster = Cluster::start(flavor).expect("a cluster");
        let slot = cluster.slot_of("{t}");
        let from = cluster.owner_of(slot).expect("an owner");
        let to = (from + 1) % 3;
        let (source, target) = (&cluster.nodes[from], &cluster.nodes[to]);
        for index in 0..250 {
            assert!(source.cli(&["SET", &format!("{{t}}{index}"), "1"]).is_ok());
        }

        let migration = cluster.begin_migration(slot, to).expect("a beginning");
        assert_eq!(migration, Migration { slot, from, to });
        assert_eq!(source.cli(&["GET", "{t}1"]).text(), Some("1"), "still here");
        let absent = source.cli(&["GET", "{t}absent"]);
        assert_eq!(redirection(&absent), Some(("ASK", target.port())));
        let unasked = target.cli(&["GET", "{t}1"]);
        assert_eq!(redirection(&unasked), Some(("MOVED", source.port())));
        let mut asking = target.connect().expect("a connection");
        assert!(asking.command(&["ASKING"]).expect("a reply").is_ok());
        assert!(asking.command(&["SET", "{t}new", "1"]).expect("a reply").is_ok());

        assert_eq!(cluster.move_keys(migration).expect("a move"), 250);
        assert_eq!(redirection(&source.cli(&["GET", "{t}1"])), Some(("ASK", target.port())));
        assert_eq!(cluster.owner_of(slot).expect("an owner"), from, "until it is finished");

        cluster.finish_migration(migration).expect("an end");
        assert_eq!(cluster.owner_of(slot).expect("an owner"), to);
        assert_eq!(target.cli(&["GET", "{t}1"]).text(), Some("1"));
        assert_eq!(target.cli(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]), ServerReply::Int(251));
        for other in [from, (from + 2) % 3] {
            let reply = cluster.nodes[other].cli(&["GET", "{t}1"]);
            assert_eq!(redirection(&reply), Some(("MOVED", target.port())));
        }

        cluster.migrate(slot, from).expect("all the way back");
        assert_eq!(cluster.owner_of(slot).expect("an owner"), from);
        assert_eq!(source.cli(&["GET", "{t}new"]).text(), Some("1"));
    }

    fn a_spare_node_has_no_slot_until_it_is_given_one(flavor: Flavor) {
        let cluster = Cluster::builder(flavor).replicas(true).spare(true).start();
        let cluster = cluster.expect("a cluster");
        assert_eq!(cluster.nodes.len(), 7);
        let spare = &cluster.nodes[6];
        assert!(!cluster.url().contains(&spare.addr().to_string()));
        assert_eq!(spare.info("replication")["role"], "master");
        let slot = cluster.slot_of("a");
        let owner = cluster.owner_of(slot).expect("an owner");
        assert!(owner < 3);
        let elsewhere = Some(("MOVED", cluster.nodes[owner].port()));
        assert_eq!(redirection(&spare.cli(&["GET", "a"])), elsewhere);
        let nodes = spare.cli(&["CLUSTER", "NODES"]);
        let own = nodes.text().and_then(|text| text.lines().find(|line| line.contains("myself")));
        assert!(own.is_some_and(|line| line.ends_with(" connected")), "no slots: {nodes}");

        cluster.migrate(slot, 6).expect("its first slot");
        assert_eq!(cluster.owner_of(slot).expect("an owner"), 6);
        assert!(spare.cli(&["SET", "a", "1"]).is_ok());
    }

    fn a_replica_takes_over_from_a_killed_master(flavor: Flavor) {
        let cluster = Cluster::builder(flavor).replicas(true).start().expect("a cluster");
        assert_eq!(cluster.nodes.len(), 6);
        let slot = cluster.slot_of("a");
        let owner = cluster.owner_of(slot).expect("an owner");
        assert!(owner < 3);
        let mut connection = cluster.nodes[owner].connect().expect("a connection");
        assert!(connection.command(&["SET", "a", "1"]).expect("a reply").is_ok());
        assert_eq!(connection.command(&["WAIT", "1", "0"]).expect("a reply"), ServerReply::Int(1));
        cluster.nodes[owner].kill();
        let new = eventually("somebody owns the slot again", || cluster.owner_of(slot).ok());
        let new = new.expect("a new owner");
        assert_eq!(new, owner + 3, "its replica");
        let value = || cluster.nodes[new].cli(&["GET", "a"]).text().map(str::to_owned);
        assert_eq!(eventually("the cluster is whole", value).expect("a value"), "1");
    }
}
