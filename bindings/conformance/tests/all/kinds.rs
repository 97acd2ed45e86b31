//! Views, kinds of locks, and errors: the same from every language.

use serde_json::json;
use taketurns::blocking::Wait;

use crate::stage::{Stage, named, token};

pub(crate) fn views(stage: &Stage) {
    for holder in &stage.agents {
        let lock = named("views", holder);
        let acquire = json!({ "lock": lock, "guard": lock, "why": "to be seen" });
        let held = token(&holder.ask("acquire", acquire));
        for agent in &stage.agents {
            let seen = agent.ask("inspect", json!({ "lock": lock }));
            let expected = json!({
                "kind": "mutex",
                "holders": [{ "token": held, "who": holder.language, "why": "to be seen" }],
                "waiting": 0,
            });
            assert_eq!(seen, expected, "{} looks", agent.language);
            let listed = agent.ask("list", json!({ "pattern": lock }));
            assert_eq!(listed, json!({ "locks": [lock] }), "{} looks", agent.language);
        }
        holder.ask("release", json!({ "guard": lock }));
    }
    for agent in &stage.agents {
        let unused = agent.ask("inspect", json!({ "lock": "views/nobody" }));
        assert!(unused.is_null(), "{}: {unused}", agent.language);
    }
}

pub(crate) fn all(stage: &Stage) {
    for agent in &stage.agents {
        let locks = ["c", "a", "b"].map(|part| format!("all/{}/{part}", agent.language));
        let guard = named("all", agent);
        let answer = agent.ask("acquire_all", json!({ "guard": guard, "locks": locks }));
        let tokens = answer["tokens"].as_object().expect("tokens by lock");
        assert_eq!(tokens.len(), locks.len(), "{}: {answer}", agent.language);
        for lock in &locks {
            assert!(tokens[lock.as_str()].is_u64(), "{}: {answer}", agent.language);
            let free = stage.locks.mutex(lock).try_acquire().wait().expect("a store");
            assert!(free.is_none(), "{lock} is not held");
        }
        agent.ask("release", json!({ "guard": guard }));
        let free = stage.locks.all(&locks).acquire().wait().expect("released");
        free.release().wait().expect("released");
    }
}

pub(crate) fn elections(stage: &Stage) {
    for candidate in &stage.agents {
        let lock = named("elections", candidate);
        for agent in &stage.agents {
            assert!(agent.ask("leader", json!({ "lock": lock })).is_null(), "{}", agent.language);
        }
        let campaign = json!({ "lock": lock, "guard": lock, "kind": "campaign", "why": "to lead" });
        let led = token(&candidate.ask("acquire", campaign));
        for agent in &stage.agents {
            let leader = agent.ask("leader", json!({ "lock": lock }));
            let expected = json!({ "token": led, "who": candidate.language, "why": "to lead" });
            assert_eq!(leader, expected, "{} looks", agent.language);
        }
        candidate.ask("release", json!({ "guard": lock }));
    }
}

pub(crate) fn errors(stage: &Stage) {
    for agent in &stage.agents {
        let kind = |what: &str, arguments| agent.refused(what, arguments).kind;
        let language = agent.language;
        let acquire = |lock: &str| json!({ "lock": lock, "guard": "g" });
        assert_eq!(kind("acquire", acquire("")), "InvalidName", "{language}");
        assert_eq!(kind("acquire", acquire("a\nb")), "InvalidName", "{language}");
        let short = json!({ "lock": "errors", "guard": "g", "lease_ms": 1 });
        assert_eq!(kind("acquire", short), "InvalidLease", "{language}");
        let long = json!({ "lock": "errors", "guard": "g", "why": "x".repeat(300) });
        assert_eq!(kind("acquire", long), "InvalidLabel", "{language}");
        let wrong = json!({ "guard": "g", "handle": "tt1.no-handle" });
        assert_eq!(kind("adopt", wrong), "InvalidHandle", "{language}");
    }
}

pub(crate) fn readers(stage: &Stage) {
    let lock = "readers";
    for agent in &stage.agents {
        let read = json!({ "lock": lock, "guard": lock, "kind": "read" });
        agent.ask("acquire", read);
    }
    for writer in &stage.agents {
        let write = json!({ "lock": lock, "guard": "w", "kind": "write" });
        assert!(writer.ask("try", write.clone())["token"].is_null(), "{}", writer.language);
    }
    let writer = &stage.agents[0];
    let wait = writer.begin("acquire", json!({ "lock": lock, "guard": "w", "kind": "write" }));
    stage.until_waiting(lock, 1);
    for agent in &stage.agents {
        let late = json!({ "lock": lock, "guard": "late", "kind": "read" });
        let answer = agent.ask("try", late);
        assert!(answer["token"].is_null(), "{} overtook a writer", agent.language);
        agent.ask("release", json!({ "guard": lock }));
    }
    wait.ok();
    writer.ask("release", json!({ "guard": "w" }));
}

pub(crate) fn permits(stage: &Stage) {
    let (lock, of) = ("permits", stage.agents.len());
    let one = |guard: &str| json!({ "lock": lock, "guard": guard, "kind": "semaphore", "of": of });
    for agent in &stage.agents {
        agent.ask("acquire", one("p"));
    }
    for agent in &stage.agents {
        assert!(agent.ask("try", one("late"))["token"].is_null(), "{}", agent.language);
    }
    for agent in &stage.agents {
        agent.ask("release", json!({ "guard": "p" }));
    }
    for agent in &stage.agents {
        let mut all = one("all");
        all["take"] = json!(of);
        agent.ask("acquire", all);
        agent.ask("release", json!({ "guard": "all" }));
    }
}

pub(crate) fn pools(stage: &Stage) {
    let lock = "pools";
    for agent in &stage.agents {
        let add = json!({ "lock": lock, "member": agent.language });
        assert_eq!(agent.ask("pool_add", add.clone())["changed"], true, "{}", agent.language);
        assert_eq!(agent.ask("pool_add", add)["changed"], false, "{}", agent.language);
    }
    let mut members = Vec::new();
    for agent in &stage.agents {
        let any = json!({ "lock": lock, "guard": "any", "kind": "pool" });
        members.push(agent.ask("acquire", any)["member"].as_str().expect("a member").to_owned());
    }
    members.sort();
    let mut languages: Vec<_> = stage.agents.iter().map(|agent| agent.language).collect();
    languages.sort_unstable();
    assert_eq!(members, languages);
    for agent in &stage.agents {
        agent.ask("release", json!({ "guard": "any" }));
    }
    for agent in &stage.agents {
        let own = json!({ "lock": lock, "guard": "own", "kind": "pool", "member": agent.language });
        assert_eq!(agent.ask("acquire", own)["member"], agent.language);
        agent.ask("release", json!({ "guard": "own" }));
    }
}

pub(crate) fn mismatches(stage: &Stage) {
    let _held = stage.locks.mutex("mismatches").acquire().wait().expect("free");
    for agent in &stage.agents {
        for kind in ["read", "write", "semaphore", "pool"] {
            let acquire = json!({ "lock": "mismatches", "guard": "g", "kind": kind, "of": 2 });
            let error = agent.refused("acquire", acquire);
            assert_eq!(error.kind, "KindMismatch", "{}: {}", agent.language, error.message);
        }
    }
}
