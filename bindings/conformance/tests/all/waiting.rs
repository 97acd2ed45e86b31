//! Tries, timeouts, cancellations and losses.

use serde_json::json;
use taketurns::blocking::Wait;

use crate::agent::{Agent, AgentError};
use crate::stage::{Stage, named, token};

pub(crate) fn tries(stage: &Stage) {
    let held = stage.locks.mutex("tries").acquire().wait().expect("free");
    for agent in &stage.agents {
        let guard = named("tries", agent);
        let answer = agent.ask("try", json!({ "lock": "tries", "guard": guard }));
        assert!(answer["token"].is_null(), "{}: {answer}", agent.language);
    }
    held.release().wait().expect("released");
    for agent in &stage.agents {
        let guard = named("tries", agent);
        let answer = agent.ask("try", json!({ "lock": "tries", "guard": guard }));
        assert!(token(&answer) > 0);
        agent.ask("release", json!({ "guard": guard }));
    }
}

pub(crate) fn timeouts(stage: &Stage) {
    let _held = stage.locks.mutex("timeouts").acquire().wait().expect("free");
    for agent in &stage.agents {
        for within_ms in [0, 50] {
            let error = in_vain(agent, within_ms);
            assert_eq!(error.kind, "Timeout", "{}: {}", agent.language, error.message);
            assert!(error.message.contains("lock timeouts was not acquired"), "{}", error.message);
        }
    }
    stage.until_waiting("timeouts", 0);
}

/// Waits for a lock that nobody can have. On a busy machine the time may be over before the store has answered: then it
/// asks again with twice the time.
fn in_vain(agent: &Agent, mut within_ms: u64) -> AgentError {
    loop {
        let wait = json!({ "lock": "timeouts", "guard": "g", "within_ms": within_ms });
        let error = agent.refused("acquire", wait);
        if !["Unreachable", "NoQuorum"].contains(&error.kind.as_str()) {
            return error;
        }
        assert!(within_ms > 0, "a try waits for its answer");
        within_ms *= 2;
    }
}

pub(crate) fn cancels(stage: &Stage) {
    let held = stage.locks.mutex("cancels").acquire().wait().expect("free");
    for agent in &stage.agents {
        let wait = agent.begin("acquire", json!({ "lock": "cancels", "guard": "g" }));
        stage.until_waiting("cancels", 1);
        agent.ask("cancel", json!({ "acquire": wait.id }));
        let error = wait.error();
        assert_eq!(error.kind, "Cancelled", "{}: {}", agent.language, error.message);
        stage.until_waiting("cancels", 0);
    }
    held.release().wait().expect("released");
    let free = stage.locks.mutex("cancels").try_acquire().wait().expect("a store");
    assert!(free.is_some(), "a cancelled wait was granted the lock");
}

pub(crate) fn losses(stage: &Stage) {
    for agent in &stage.agents {
        let lock = named("losses", agent);
        let held = token(&agent.ask("acquire", json!({ "lock": lock, "guard": lock })));
        let broken = json!({ "lock": lock, "token": held, "at_once": true });
        assert_eq!(agent.ask("break", broken)["holders"], 1, "{}", agent.language);
        let lost = agent.event("lost", |event| event["guard"] == lock);
        assert_eq!(lost["cause"], "revoked", "{}", agent.language);
        let check = agent.refused("check", json!({ "guard": lock }));
        assert_eq!(check.kind, "Lost", "{}: {}", agent.language, check.message);
        assert!(check.message.contains("somebody broke it"), "{}", check.message);
        let next = stage.locks.mutex(&lock).try_acquire().wait().expect("a store").expect("free");
        assert!(next.token().raw() > held, "{}", agent.language);
        assert_eq!(agent.refused("release", json!({ "guard": lock })).kind, "Lost");
    }
}

pub(crate) fn max_hold(stage: &Stage) {
    for agent in &stage.agents {
        let lock = named("max_hold", agent);
        let acquire = json!({ "lock": lock, "guard": lock, "max_hold_ms": 200, "lease_ms": 200 });
        agent.ask("acquire", acquire);
        let lost = agent.event("lost", |event| event["guard"] == lock);
        // On a slow machine the lease may end before a renewal that max_hold still allowed.
        let cause = lost["cause"].as_str().unwrap_or_default();
        assert!(["max_hold", "expired"].contains(&cause), "{}: {lost}", agent.language);
    }
}
