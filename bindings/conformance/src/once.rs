//! The commands of the Rust agent about the work of a once.

use std::rc::Rc;

use serde_json::{Value, json};
use taketurns::{Attempt, Begun, Completion};

use super::{AgentState, Answer, Command, Failure, locks, millis, no_guard, watch};

pub(super) async fn run(state: &Rc<AgentState>, command: Command) -> Answer {
    let once = locks(state)?.once(&command.lock);
    Ok(match command.what.as_str() {
        "begin" => return begin(state, command).await,
        "done" => {
            take(state, &command.guard)?.done_with(&command.result).await?;
            json!({})
        }
        "fail" => {
            take(state, &command.guard)?.fail().await?;
            json!({})
        }
        "completion" => json!({ "done": once.completion().await?.as_ref().map(told) }),
        _ => json!({ "changed": once.undo().await? }),
    })
}

async fn begin(state: &Rc<AgentState>, command: Command) -> Answer {
    let mut once = locks(state)?.once(&command.lock).why(command.why);
    if let Some(time) = millis(command.for_ms) {
        once = once.remember_for(time);
    }
    if let Some(attempts) = command.attempts {
        once = once.attempts(attempts);
    }
    if let Some(within) = millis(command.within_ms) {
        once = once.within(within);
    }
    match once.begin().await? {
        Begun::Attempt(attempt) => {
            watch(&attempt, command.guard.clone());
            let answer = json!({ "token": attempt.token() });
            state.attempts.borrow_mut().insert(command.guard, attempt);
            Ok(answer)
        }
        Begun::DoneBefore(done) => Ok(json!({ "done": told(&done) })),
    }
}

fn take(state: &Rc<AgentState>, name: &str) -> Result<Attempt, Failure> {
    state.attempts.borrow_mut().remove(name).ok_or_else(|| no_guard(name))
}

fn told(done: &Completion) -> Value {
    json!({
        "by": done.by.who(),
        "why": done.by.why(),
        "token": done.token,
        "failed": done.failed,
        "result": done.result.as_str(),
    })
}
