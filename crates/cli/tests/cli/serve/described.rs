//! `openapi.json` says what the server does, and the server does what it says: tried by schemathesis,
//! which makes requests up from the description.

use taketurns_servers::clients;

use super::{Serving, TOKEN};
use crate::helper::{Done, Store};

fn tried(store: &Store, serving: &Serving, more: &[&str]) {
    let url = format!("http://{}/openapi.json", serving.at);
    let mut command = clients::schemathesis().expect("schemathesis");
    command.args(["run", &url, "--exclude-path", "/api/events", "--max-examples", "30"]);
    command.args(["--seed", "1", "--no-color", "--continue-on-failure"]).args(more);
    // It keeps notes where it runs.
    let done = Done::of(command.current_dir(store.path("")));
    assert_eq!(done.code, 0, "{}\n{}", done.stdout, done.stderr);
    assert!(done.stdout.contains("No issues found"), "{}", done.stdout);
}

#[test]
fn with_the_token_and_without_it() {
    let store = Store::new();
    store.run(&["pool", "add", "rooms", "blue"]).ok();
    let _held =
        [&["door"][..], &["-s", "shared"], &["--permits", "2/3", "gpu"], &["--pool", "rooms"]]
            .map(|args| store.hold(args));
    let header = format!("Authorization: Bearer {TOKEN}");
    tried(&store, &Serving::start(&store, &[]), &["--header", &header]);
    tried(&store, &Serving::start(&store, &["--closed"]), &["--header", &header]);
    tried(&store, &Serving::start(&store, &[]), &["--exclude-path", "/api/break"]);
}
