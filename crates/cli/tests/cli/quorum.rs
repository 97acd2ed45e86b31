//! The program on a quorum of real servers.

use serde_json::json;
use taketurns_servers::{Flavor, Server};

use crate::helper::{Done, Store};

#[test]
fn commands_work_on_a_quorum_and_with_a_minority_of_it_down() {
    let flavors = [Flavor::Redis, Flavor::Valkey, Flavor::Redis];
    let servers = flavors.map(|flavor| Server::start(flavor).expect("a server"));
    let url = format!("quorum:{}", servers.each_ref().map(Server::url).join(","));
    let store = Store::at(&url);

    let says = "echo $TAKETURNS_LOCK $TAKETURNS_TOKEN";
    let run = ["--store", &url, "run", "door", "--", "sh", "-c", says];
    let said = store.run(&run).quiet().stdout;
    let shown = store.show("door");
    assert_eq!(said, format!("door {}\n", shown["last_token"]));
    assert_eq!((&shown["state"], &shown["quarantine_ms"]), (&json!("idle"), &json!(null)));

    let handle = store.run(&["acquire", "--lease", "40", "desk"]).quiet().stdout;
    let with = |args: &[&str]| Done::of(store.command(args).env("TAKETURNS_HANDLE", handle.trim()));
    store.run(&["run", "-n", "desk", "--", "true"]).failed(75, "desk is not free");
    let token = with(&["renew", "--json"]).quiet().json()["token"].clone();
    let shown = store.run(&["show", "desk"]).quiet().stdout;
    assert!(shown.starts_with(&format!("desk: mutex, held, last token {token}\n")), "{shown}");
    let listed = store.run(&["ls"]).quiet().stdout;
    let names: Vec<_> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["LOCK", "desk", "door"], "{listed}");

    servers[0].kill();
    // That a node is missing is said, and no more.
    let missing = format!("a node of the quorum is missing: {}", servers[0].addr());
    let busy = store.run(&["run", "-n", "desk", "--", "true"]);
    assert!(busy.stderr.contains(&missing) && busy.stderr.contains("desk is not free"), "{busy:?}");
    assert_eq!(busy.code, 75);
    assert!(with(&["release"]).ok().stderr.contains(&missing));
    assert_eq!(store.run(&["run", "desk", "--", "echo", "done"]).stdout, "done\n");
    servers[1].kill();
    let error = store.run(&["run", "-n", "desk", "--", "true"]);
    assert_eq!(error.code, 69);
    assert!(error.stderr.contains("2 of 3 nodes are needed"), "{}", error.stderr);
    for server in &servers[..2] {
        assert!(error.stderr.contains(&server.addr().to_string()), "{}", error.stderr);
    }
}
