//! Processes that are killed, and processes that end.

use serde_json::json;
use taketurns::blocking::Wait;

use crate::languages::LANGUAGES;
use crate::stage::{Stage, token};

/// A holder of each language is killed while a client of each other waits: they get the lock in order.
pub(crate) fn of_holders(stage: &Stage) {
    for language in LANGUAGES {
        let lock = format!("dead-holder/{}", language.name);
        let mortal = stage.mortal(language);
        let acquire = json!({ "lock": lock, "guard": "g", "lease_ms": 2_000 });
        let mut last = token(&mortal.ask("acquire", acquire));
        let mut waits = Vec::new();
        for agent in &stage.agents {
            let wait = json!({ "lock": lock, "guard": lock });
            waits.push((agent, agent.begin("acquire", wait)));
            stage.until_waiting(&lock, waits.len());
        }
        mortal.kill();
        for (agent, wait) in waits {
            let granted = token(&wait.ok());
            assert!(granted > last, "{}: token {granted} after {last}", agent.language);
            last = granted;
            agent.ask("release", json!({ "guard": lock }));
        }
    }
}

/// A waiter of each language is killed: the next in line is granted the lock.
pub(crate) fn of_waiters(stage: &Stage) {
    for language in LANGUAGES {
        let lock = format!("dead-waiter/{}", language.name);
        let held = stage.locks.mutex(&lock).acquire().wait().expect("free");
        let mortal = stage.mortal(language);
        let _dies = mortal.begin("acquire", json!({ "lock": lock, "guard": "g" }));
        stage.until_waiting(&lock, 1);
        let next = &stage.agents[0];
        let wait = next.begin("acquire", json!({ "lock": lock, "guard": lock }));
        stage.until_waiting(&lock, 2);
        mortal.kill();
        held.release().wait().expect("released");
        wait.ok();
        next.ask("release", json!({ "guard": lock }));
    }
}

/// `close` releases what was dropped, and the process ends by itself.
pub(crate) fn of_closed(stage: &Stage) {
    for language in LANGUAGES {
        let lock = format!("closed/{}", language.name);
        let agent = crate::agent::Agent::start(language, &stage.url, json!({}));
        agent.ask("acquire", json!({ "lock": lock, "guard": "g" }));
        agent.ask("close", json!({}));
        let free = stage.locks.mutex(&lock).acquire().wait();
        free.expect("it was released").release().wait().expect("released");
        agent.end();
    }
}
