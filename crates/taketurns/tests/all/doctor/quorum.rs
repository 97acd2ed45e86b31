//! Quorums.

use taketurns::doctor::{Level, Report};
use taketurns_servers::{Flavor, Server, ServerClock, module_path};

use super::{bad, block_on, check, examined, is, node};

/// With scripts, and with the module.
fn servers(count: usize) -> Vec<Server> {
    let flavors = [Flavor::Redis, Flavor::Valkey].into_iter().cycle();
    let start = |(number, flavor)| {
        let builder = Server::builder(flavor);
        let module = module_path().expect("the module was built");
        let builder = if number % 2 == 1 { builder.module(&module, &[]) } else { builder };
        builder.start().expect("a server")
    };
    (0..count).zip(flavors).map(start).collect()
}

fn url<'a>(servers: impl IntoIterator<Item = &'a Server>) -> String {
    let urls: Vec<String> = servers.into_iter().map(Server::url).collect();
    format!("quorum:{}", urls.join(","))
}

/// The users of these servers may do everything.
fn bad_but_for_users(report: &Report) -> Vec<&str> {
    let bad = bad(report).into_iter().filter(|check| check.name != "excess");
    bad.map(|check| check.name).collect()
}

#[test]
fn three_nodes_are_well_before_and_after_use_and_nothing_is_written() {
    let servers = servers(3);
    let report = examined(&url(&servers));
    assert_eq!(bad_but_for_users(&report), [""; 0], "{report:#?}");
    for server in &servers {
        is(&report, &node(server), "membership", Level::Ok, "no quorum yet");
        is(&report, &node(server), "persistence", Level::Ok, "a quorum does not need");
        assert_eq!(server.cli(&["DBSIZE"]).int(), Some(0), "nothing was written");
    }
    block_on(async {
        let locks = taketurns::connect(&url(&servers)).await.expect("a quorum");
        locks.mutex("door").acquire().await.expect("free").release().await.expect("held");
    });
    let report = examined(&url(servers.iter().rev()));
    assert_eq!(bad_but_for_users(&report), [""; 0], "{report:#?}");
    for server in &servers {
        is(&report, &node(server), "membership", Level::Ok, "of this quorum");
    }
}

#[test]
fn a_node_that_is_down_is_named_and_a_majority_is_needed() {
    let servers = servers(3);
    servers[1].kill();
    let report = examined(&url(&servers));
    is(&report, &node(&servers[1]), "reachable", Level::Fail, "refused");
    is(&report, "all", "majority", Level::Warn, &format!("missing: {}", servers[1].addr()));
    is(&report, &node(&servers[0]), "version", Level::Ok, "Redis");
    servers[2].kill();
    is(&examined(&url(&servers)), "all", "majority", Level::Fail, "1 of 3 nodes answer");
    servers[0].kill();
    assert!(!examined(&url(&servers)).reached);
}

#[test]
fn nodes_of_another_quorum_are_named() {
    let servers = servers(4);
    block_on(async {
        drop(taketurns::connect(&url(&servers[..3])).await.expect("a quorum"));
    });
    let report = examined(&url(&servers[1..]));
    for server in &servers[1..3] {
        is(&report, &node(server), "membership", Level::Fail, "belongs to another quorum");
    }
    is(&report, &node(&servers[3]), "membership", Level::Ok, "no quorum yet");
}

#[test]
fn one_server_by_two_names_is_named() {
    let servers = servers(2);
    let again = format!("redis://localhost:{}", servers[0].port());
    let report = examined(&format!("{},{again}", url(&servers)));
    let place = format!("localhost:{}", servers[0].port());
    is(&report, &place, "identity", Level::Fail, &node(&servers[0]));
}

#[test]
fn the_one_clock_that_is_off_is_named() {
    let clock = ServerClock::ahead(5).expect("a clock");
    let off = Server::builder(Flavor::Redis).clock(&clock).start().expect("a server");
    let servers = servers(2);
    let report = examined(&url(servers.iter().chain([&off])));
    is(&report, &node(&off), "clock", Level::Warn, "ahead of the median of the nodes");
    for server in &servers {
        assert_eq!(check(&report, &node(server), "clock").level, Level::Ok);
    }
}

#[test]
fn an_even_number_of_nodes_is_one_too_many() {
    is(&examined(&url(&servers(4))), "all", "nodes", Level::Warn, "as many as of 3");
}
