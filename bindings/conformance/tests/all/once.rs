//! Work that is done once: done by one language, and then for all.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::stage::{Stage, named, token};

fn begin(lock: &str, agent: &Agent) -> Value {
    json!({ "lock": lock, "guard": named(lock, agent), "why": "to work", "for_ms": 60_000 })
}

/// Each language does the work in turn, while the others wait for it. They are told who did it, and so is who asks later.
pub(crate) fn done(stage: &Stage) {
    for worker in &stage.agents {
        let lock = named("once", worker);
        let unknown = worker.ask("completion", json!({ "lock": lock }));
        assert!(unknown["done"].is_null(), "{}: {unknown}", worker.language);
        let attempt = token(&worker.ask("begin", begin(&lock, worker)));
        let mut waits = Vec::new();
        for agent in stage.agents.iter().filter(|agent| agent.language != worker.language) {
            waits.push((agent, agent.begin("begin", begin(&lock, agent))));
            stage.until_waiting(&lock, waits.len());
        }
        worker.ask("done", json!({ "guard": named(&lock, worker), "result": "3 files" }));
        let done = json!({ "done": {
            "by": worker.language, "why": "to work", "token": attempt, "failed": 0, "result": "3 files",
        } });
        for (agent, wait) in waits {
            assert_eq!(wait.ok(), done, "{} waited", agent.language);
        }
        for agent in &stage.agents {
            let late = agent.ask("begin", begin(&lock, agent));
            assert_eq!(late, done, "{} asked later", agent.language);
            let seen = agent.ask("completion", json!({ "lock": lock }));
            assert_eq!(seen, done, "{} looks", agent.language);
            let view = agent.ask("inspect", json!({ "lock": lock }));
            assert_eq!(view["kind"], "once", "{}", agent.language);
        }
    }
}

/// What one language did another one undoes, and then it may be done again.
pub(crate) fn undone(stage: &Stage) {
    for (worker, other) in stage.pairs() {
        let lock = format!("undone/{}-{}", worker.language, other.language);
        let first = token(&worker.ask("begin", begin(&lock, worker)));
        worker.ask("done", json!({ "guard": named(&lock, worker) }));
        assert_eq!(other.ask("undo", json!({ "lock": lock }))["changed"], true, "{lock}");
        assert_eq!(worker.ask("undo", json!({ "lock": lock }))["changed"], false, "{lock}");
        assert!(token(&other.ask("begin", begin(&lock, other))) > first, "{lock}");
        other.ask("fail", json!({ "guard": named(&lock, other) }));
    }
}

/// An attempt of each language fails in turn, and the last does the work: each in the order in which it asked.
pub(crate) fn failed(stage: &Stage) {
    let lock = "once-fails";
    let (first, others) = stage.agents.split_first().expect("agents");
    let mut last = token(&first.ask("begin", begin(lock, first)));
    let mut waits = Vec::new();
    for agent in others {
        waits.push(agent.begin("begin", begin(lock, agent)));
        stage.until_waiting(lock, waits.len());
    }
    first.ask("fail", json!({ "guard": named(lock, first) }));
    let failures = others.len();
    for (failed, (agent, wait)) in (1..).zip(others.iter().zip(waits)) {
        let attempt = token(&wait.ok());
        assert!(attempt > last, "{}: token {attempt} after {last}", agent.language);
        last = attempt;
        let end = if failed == failures { "done" } else { "fail" };
        agent.ask(end, json!({ "guard": named(lock, agent) }));
    }
    for agent in &stage.agents {
        let done = &agent.ask("completion", json!({ "lock": lock }))["done"];
        assert_eq!((&done["failed"], &done["token"]), (&json!(failures), &json!(last)));
        let mut again = begin("once-exhausted", agent);
        again["attempts"] = json!(1);
        if agent.language == first.language {
            agent.ask("begin", again.clone());
            agent.ask("fail", json!({ "guard": again["guard"] }));
        }
        let refused = agent.refused("begin", again);
        assert_eq!(refused.kind, "Exhausted", "{}: {}", agent.language, refused.message);
    }
}

/// A store without a once says so in every language.
pub(crate) fn refused(stage: &Stage) {
    for agent in &stage.agents {
        let error = agent.refused("begin", begin("once", agent));
        assert_eq!(error.kind, "Unsupported", "{}: {}", agent.language, error.message);
    }
}
