//! Who is next, in which order of tokens, and one at a time.

use std::fs;

use serde_json::json;
use taketurns::blocking::Wait;

use crate::stage::{Stage, named, token};

/// Each language asks several times, in turns. The grants come in the order of the requests, and so do the tokens.
pub(crate) fn fifo(stage: &Stage) {
    const ROUNDS: usize = 3;
    let lock = "fifo";
    let held = stage.locks.mutex(lock).acquire().wait().expect("free");
    let mut waits = Vec::new();
    for round in 0..ROUNDS {
        for agent in &stage.agents {
            let guard = format!("{}-{round}", named(lock, agent));
            let wait = agent.begin("acquire", json!({ "lock": lock, "guard": guard }));
            waits.push((agent, guard, wait));
            stage.until_waiting(lock, waits.len());
        }
    }
    let mut last = held.check().expect("held").raw();
    held.release().wait().expect("released");
    for (place, (agent, guard, wait)) in waits.iter().enumerate() {
        let granted = token(&wait.ok());
        assert!(granted > last, "{}: token {granted} after {last}", agent.language);
        last = granted;
        for (later, _, wait) in &waits[place + 1..] {
            assert!(!wait.is_answered(), "{} overtook {}", later.language, agent.language);
        }
        agent.ask("release", json!({ "guard": guard }));
    }
}

/// All languages count in one file at the same time.
pub(crate) fn turns(stage: &Stage) {
    const TURNS: usize = 40;
    let file = stage.folder.path().join("counter");
    fs::write(&file, "0").expect("written");
    let begin = |agent: &crate::agent::Agent| {
        agent.begin("turns", json!({ "lock": "turns", "turns": TURNS, "file": file }))
    };
    let running: Vec<_> = stage.agents.iter().map(begin).collect();
    let mut tokens = Vec::new();
    for (agent, running) in stage.agents.iter().zip(running) {
        let answer = running.ok();
        let own: Vec<u64> = answer["tokens"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|it| it.as_u64())
            .collect();
        assert_eq!(own.len(), TURNS, "{}", agent.language);
        assert!(own.is_sorted_by(|one, next| one < next), "{}: {own:?}", agent.language);
        tokens.extend(own);
    }
    let all = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), all, "a token was granted twice");
    assert_eq!(fs::read_to_string(&file).expect("a file"), all.to_string(), "turns overlapped");
}

/// From each language to each other: the token stays, and the one before can't release it any more.
pub(crate) fn handles(stage: &Stage) {
    for (from, to) in stage.pairs() {
        let lock = format!("handle/{}-{}", from.language, to.language);
        let held = token(&from.ask("acquire", json!({ "lock": lock, "guard": lock })));
        let handle = from.ask("handle", json!({ "guard": lock }))["handle"].clone();
        assert!(handle.as_str().is_some_and(|text| text.ends_with(&lock)), "{lock}");
        assert_eq!(token(&to.ask("adopt", json!({ "handle": handle, "guard": lock }))), held);
        assert_eq!(token(&to.ask("check", json!({ "guard": lock }))), held);
        to.ask("release", json!({ "guard": lock }));
        let late = to.refused("adopt", json!({ "handle": handle, "guard": lock }));
        assert_eq!(late.kind, "NotHeld", "{}", late.message);
    }
}
