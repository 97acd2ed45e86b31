//! `openapi.json` says what the server does, and the server does what it says: tried by schemathesis,
//! which makes requests up from the description.

use std::env;

use serde_json::Value;
use taketurns_servers::clients;

use super::http::get;
use super::{Serving, TOKEN};
use crate::cli::helper::{Done, Store, until};

fn tried(store: &Store, serving: &Serving, more: &[&str]) {
    let url = format!("http://{}/openapi.json", serving.at);
    let mut command = clients::schemathesis().expect("schemathesis");
    let examples = if env::var_os("CLI_LONG").is_some() { "30" } else { "5" };
    command.args(["run", &url, "--exclude-path", "/api/events", "--max-examples", examples]);
    command.args(["--seed", "1", "--no-color", "--continue-on-failure"]).args(more);
    // It keeps notes where it runs.
    let done = Done::of(command.current_dir(store.path("")));
    assert_eq!(done.code, 0, "{}\n{}", done.stdout, done.stderr);
    assert!(done.stdout.contains("No issues found"), "{}", done.stdout);
}

#[test]
fn with_the_token_and_without_it() {
    let store = Store::new();
    // The examples in the description are of these, so that answers with something in them are seen too.
    store.run(&["pool", "add", "browsers", "b-1", "b-2"]).ok();
    let held: [&[&str]; 4] = [
        &["--why", "nightly", "backup"],
        &["-s", "config"],
        &["--permits", "2/3", "gpu"],
        &["--pool", "--member", "b-1", "browsers"],
    ];
    let _held = held.map(|args| store.hold(args));
    store.run(&["once", "nightly", "--", "true"]).quiet();
    let waiting: [&[&str]; 4] = [
        &["run", "backup", "true"],
        &["run", "-x", "config", "true"],
        &["run", "--permits", "2/3", "gpu", "true"],
        &["run", "--pool", "--member", "b-1", "browsers", "true"],
    ];
    let _waiting = waiting.map(|args| store.start(args));
    for lock in ["backup", "config", "gpu", "browsers"] {
        store.until_waiting(lock, 1);
    }
    let header = format!("Authorization: Bearer {TOKEN}");
    tried(&store, &Serving::start(&store, &[]), &["--header", &header]);
    tried(&store, &Serving::start(&store, &["--closed"]), &["--header", &header]);
    tried(&store, &Serving::start(&store, &[]), &["--exclude-path", "/api/break"]);
}

/// What an answer has that the description does not: schemathesis lets that pass.
fn undescribed(answer: &Value, schema: &Value, all: &Value) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        return undescribed(answer, all.pointer(&name[1..]).expect("a schema"), all);
    }
    // What may be null, and is not.
    if let (Some(either), false) = (schema["anyOf"].get(0), answer.is_null()) {
        return undescribed(answer, either, all);
    }
    match answer {
        Value::Array(items) => {
            items.iter().flat_map(|item| undescribed(item, &schema["items"], all)).collect()
        }
        Value::Object(fields) => {
            let look = |(name, value): (&String, &Value)| match schema["properties"].get(name) {
                None => vec![name.clone()],
                Some(schema) => undescribed(value, schema, all),
            };
            fields.iter().flat_map(look).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn there_is_no_more_in_an_answer_than_is_described() {
    let store = Store::new();
    store.run(&["pool", "add", "rooms", "blue"]).ok();
    let _held = [&["door"][..], &["--pool", "rooms"]].map(|args| store.hold(args));
    let _next = store.start(&["run", "door", "--", "true"]);
    store.run(&["once", "nightly", "--", "true"]).quiet();
    store.run(&["run", "--at-least", "600", "ping", "--", "true"]).quiet();
    store.until_waiting("door", 1);
    let serving = Serving::start(&store, &[]);
    until("all is seen", || get(&serving.at, "/api/status").json()["totals"]["waiting"] == 1);
    let all = get(&serving.at, "/openapi.json").json();
    let locks =
        ["/api/locks", "/api/lock?name=rooms", "/api/lock?name=nightly", "/api/lock?name=ping"];
    for path in ["/api/status", "/api/turns", "/api/waits"].into_iter().chain(locks) {
        let plain = path.split('?').next().unwrap();
        let described =
            &all["paths"][plain]["get"]["responses"]["200"]["content"]["application/json"];
        let answer = get(&serving.at, path).json();
        assert_eq!(undescribed(&answer, &described["schema"], &all), [""; 0], "{path}");
    }
}
