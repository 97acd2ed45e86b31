//! The program on a quorum of real servers.

use taketurns_servers::{Flavor, Server};

use crate::cli::helper::{Done, Store};
use crate::cli::redis::every_command_works_on_a_mutex;

#[test]
fn commands_work_on_a_quorum_and_with_a_minority_of_it_down() {
    let flavors = [Flavor::Redis, Flavor::Valkey, Flavor::Redis];
    let servers = flavors.map(|flavor| Server::start(flavor).expect("a server"));
    let url = format!("quorum:{}", servers.each_ref().map(Server::url).join(","));
    let store = Store::at(&url);

    every_command_works_on_a_mutex(&store);

    let handle = store.run(&["acquire", "--lease", "40", "chair"]).quiet().stdout;
    let with = |args: &[&str]| Done::of(store.command(args).env("TAKETURNS_HANDLE", handle.trim()));
    servers[0].kill();
    // That a node is missing is said, and no more.
    let missing = format!("a node of the quorum is missing: {}", servers[0].addr());
    let busy = store.run(&["run", "-n", "chair", "--", "true"]);
    assert!(
        busy.stderr.contains(&missing) && busy.stderr.contains("chair is held by "),
        "{busy:?}"
    );
    assert_eq!(busy.code, 75);
    assert!(with(&["release"]).ok().stderr.contains(&missing));
    assert_eq!(store.run(&["run", "chair", "--", "echo", "done"]).stdout, "done\n");
    servers[1].kill();
    let error = store.run(&["run", "-n", "chair", "--", "true"]);
    assert_eq!(error.code, 69);
    assert!(error.stderr.contains("2 of 3 nodes are needed"), "{}", error.stderr);
    for server in &servers[..2] {
        assert!(error.stderr.contains(&server.addr().to_string()), "{}", error.stderr);
    }
}
