//! The Rust agent of the conformance scenarios: the library as an application uses it, driven by JSON lines. PROTOCOL.md
//! says what each line means.

mod once;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use futures_util::future::{AbortHandle, Abortable};
use serde::Deserialize;
use serde_json::{Value, json};
use taketurns::{
    Acquire, AllGuard, Attempt, Connect, Error, Guard, Handle, HolderView, Locks, LossCause, Token,
    View,
};
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};

/// A line of the driver. Which fields it has depends on `do`.
#[derive(Deserialize)]
struct Command {
    id: u64,
    #[serde(rename = "do")]
    what: String,
    #[serde(default)]
    url: String,
    who: Option<String>,
    waiter_lease_ms: Option<u64>,
    #[serde(default)]
    guard: String,
    #[serde(default)]
    lock: String,
    kind: Option<String>,
    #[serde(default)]
    of: u32,
    take: Option<u32>,
    member: Option<String>,
    within_ms: Option<u64>,
    lease_ms: Option<u64>,
    max_hold_ms: Option<u64>,
    for_ms: Option<u64>,
    attempts: Option<u32>,
    #[serde(default)]
    result: String,
    #[serde(default)]
    why: String,
    #[serde(default)]
    acquire: u64,
    #[serde(default)]
    handle: String,
    #[serde(default)]
    locks: Vec<String>,
    #[serde(default)]
    pattern: String,
    token: Option<u64>,
    #[serde(default)]
    at_once: bool,
    #[serde(default)]
    turns: usize,
    #[serde(default)]
    file: String,
}

/// What the agent has, by the names that the driver gave.
#[derive(Default)]
struct AgentState {
    locks: RefCell<Option<Locks>>,
    guards: RefCell<HashMap<String, Guard>>,
    several: RefCell<HashMap<String, AllGuard>>,
    attempts: RefCell<HashMap<String, Attempt>>,
    /// What cancels the acquires under way.
    acquires: RefCell<HashMap<u64, AbortHandle>>,
}

/// An error of a command, as its kind and its message.
struct Failure(String, String);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(format!("{:?}", error.kind()), error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self("Io".to_owned(), error.to_string())
    }
}

type Answer = Result<Value, Failure>;

fn main() -> io::Result<()> {
    let (send, mut lines) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    say(&json!({ "event": "ready", "language": "rust" }));
    let state = Rc::new(AgentState::default());
    // One thread polls tasks in the order of their start, so requests are sent in the order of the lines.
    LocalSet::new().block_on(&runtime, async {
        while let Some(line) = lines.recv().await {
            spawn_local(serve(state.clone(), line));
        }
    });
    // Without releasing anything.
    std::process::exit(0)
}

fn say(line: &Value) {
    let mut stdout = io::stdout().lock();
    // The driver may have ended.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

async fn serve(state: Rc<AgentState>, line: String) {
    let command: Command = match serde_json::from_str(&line) {
        Ok(command) => command,
        Err(error) => return eprintln!("{line}: {error}"),
    };
    let id = command.id;
    let answer = match run(&state, command).await {
        Ok(ok) => json!({ "id": id, "ok": ok }),
        Err(Failure(kind, message)) => {
            json!({ "id": id, "error": { "kind": kind, "message": message } })
        }
    };
    say(&answer);
}

async fn run(state: &Rc<AgentState>, command: Command) -> Answer {
    match command.what.as_str() {
        "connect" => {
            let mut connect = Connect::new(&command.url);
            if let Some(who) = command.who {
                connect = connect.who(who);
            }
            if let Some(waiter_lease) = command.waiter_lease_ms {
                connect = connect.waiter_lease(Duration::from_millis(waiter_lease));
            }
            let locks = connect.open().await?;
            *state.locks.borrow_mut() = Some(locks);
            Ok(json!({}))
        }
        "acquire" => acquire(state, command).await,
        "try" => try_acquire(state, command).await,
        "cancel" => {
            if let Some(acquire) = state.acquires.borrow_mut().remove(&command.acquire) {
                acquire.abort();
            }
            Ok(json!({}))
        }
        "check" => {
            let guards = state.guards.borrow();
            let guard = guards.get(&command.guard).ok_or_else(|| no_guard(&command.guard))?;
            Ok(json!({ "token": guard.check()? }))
        }
        "release" => release(state, &command.guard).await,
        "handle" => {
            let handle = take_guard(state, &command.guard)?.into_handle().await?;
            Ok(json!({ "handle": handle.expose() }))
        }
        "adopt" => {
            let guard = locks(state)?.adopt(Handle::parse(&command.handle)?).await?;
            Ok(keep(state, command.guard, guard))
        }
        "acquire_all" => acquire_all(state, command).await,
        "turns" => turns(state, command).await,
        "begin" | "done" | "fail" | "completion" | "undo" => once::run(state, command).await,
        "close" => {
            state.guards.borrow_mut().clear();
            state.several.borrow_mut().clear();
            state.attempts.borrow_mut().clear();
            let locks = state.locks.borrow_mut().take();
            if let Some(locks) = locks {
                locks.close().await;
            }
            Ok(json!({}))
        }
        _ => look(state, command).await,
    }
}

/// Commands without a guard.
async fn look(state: &Rc<AgentState>, command: Command) -> Answer {
    let locks = locks(state)?;
    Ok(match command.what.as_str() {
        "pool_add" => {
            let member = command.member.unwrap_or_default();
            json!({ "changed": locks.pool(command.lock).add(member).await? })
        }
        "leader" => match locks.election(command.lock).leader().await? {
            Some(leader) => holder(&leader),
            None => Value::Null,
        },
        "inspect" => match locks.inspect(command.lock).await? {
            Some(seen) => view(&seen),
            None => Value::Null,
        },
        "list" => {
            let all = locks.list(&command.pattern).await?;
            json!({ "locks": all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>() })
        }
        "break" => {
            let mut breaking = locks.break_lock(command.lock);
            if let Some(token) = command.token {
                breaking = breaking.token(Token::from_raw(token));
            }
            if command.at_once {
                breaking = breaking.at_once();
            }
            json!({ "holders": breaking.await? })
        }
        what => return Err(Failure("Protocol".to_owned(), format!("there is no command {what}"))),
    })
}

fn locks(state: &Rc<AgentState>) -> Result<Locks, Failure> {
    Ok(state.locks.borrow().clone().ok_or(Error::Closed)?)
}

fn no_guard(name: &str) -> Failure {
    Failure("Protocol".to_owned(), format!("there is no guard {name}"))
}

fn take_guard(state: &Rc<AgentState>, name: &str) -> Result<Guard, Failure> {
    state.guards.borrow_mut().remove(name).ok_or_else(|| no_guard(name))
}

/// Keeps a guard by its name, and watches it.
fn keep(state: &Rc<AgentState>, name: String, guard: Guard) -> Value {
    watch(&guard, name.clone());
    let answer = json!({
        "token": guard.token(),
        "member": guard.member().map(|member| member.as_str()),
    });
    state.guards.borrow_mut().insert(name, guard);
    answer
}

fn watch(guard: &Guard, name: String) {
    let lost = guard.lost();
    spawn_local(async move {
        let cause: LossCause = lost.await;
        say(&json!({ "event": "lost", "guard": name, "cause": cause.word() }));
    });
}

fn millis(ms: Option<u64>) -> Option<Duration> {
    ms.map(Duration::from_millis)
}

fn with_options<T>(mut acquire: Acquire<T>, command: &Command) -> Acquire<T> {
    if let Some(lease) = millis(command.lease_ms) {
        acquire = acquire.lease(lease);
    }
    if let Some(max_hold) = millis(command.max_hold_ms) {
        acquire = acquire.max_hold(max_hold);
    }
    acquire.why(command.why.clone())
}

async fn acquire(state: &Rc<AgentState>, command: Command) -> Answer {
    let (locks, name) = (locks(state)?, &command.lock);
    let take = command.take.unwrap_or(1);
    let mut acquire = match (command.kind.as_deref().unwrap_or("mutex"), &command.member) {
        ("read", _) => locks.rwlock(name).read(),
        ("write", _) => locks.rwlock(name).write(),
        ("semaphore", _) => locks.semaphore(name, command.of).acquire_many(take),
        ("pool", None) => locks.pool(name).any(),
        ("pool", Some(member)) => locks.pool(name).member(member),
        ("campaign", _) => locks.election(name).campaign(),
        _ => locks.mutex(name).acquire(),
    };
    if let Some(within) = millis(command.within_ms) {
        acquire = acquire.within(within);
    }
    let acquire = with_options(acquire, &command).into_future();
    let (abort, registration) = AbortHandle::new_pair();
    state.acquires.borrow_mut().insert(command.id, abort);
    let acquired = Abortable::new(acquire, registration).await;
    state.acquires.borrow_mut().remove(&command.id);
    match acquired {
        Ok(guard) => Ok(keep(state, command.guard, guard?)),
        Err(_) => Err(Failure("Cancelled".to_owned(), "the acquire was cancelled".to_owned())),
    }
}

async fn try_acquire(state: &Rc<AgentState>, command: Command) -> Answer {
    let (locks, name) = (locks(state)?, &command.lock);
    let take = command.take.unwrap_or(1);
    let acquire = match (command.kind.as_deref().unwrap_or("mutex"), &command.member) {
        ("read", _) => locks.rwlock(name).try_read(),
        ("write", _) => locks.rwlock(name).try_write(),
        ("semaphore", _) => locks.semaphore(name, command.of).try_acquire_many(take),
        ("pool", None) => locks.pool(name).try_any(),
        ("pool", Some(member)) => locks.pool(name).try_member(member),
        _ => locks.mutex(name).try_acquire(),
    };
    match with_options(acquire, &command).await? {
        Some(guard) => Ok(keep(state, command.guard, guard)),
        None => Ok(json!({ "token": null })),
    }
}

async fn acquire_all(state: &Rc<AgentState>, command: Command) -> Answer {
    let mut acquire = locks(state)?.all(&command.locks).acquire();
    if let Some(within) = millis(command.within_ms) {
        acquire = acquire.within(within);
    }
    let guards = acquire.await?;
    let tokens: HashMap<String, Token> =
        guards.check()?.into_iter().map(|(name, token)| (name.to_string(), token)).collect();
    state.several.borrow_mut().insert(command.guard, guards);
    Ok(json!({ "tokens": tokens }))
}

async fn release(state: &Rc<AgentState>, name: &str) -> Answer {
    let several = state.several.borrow_mut().remove(name);
    match several {
        Some(guards) => guards.release().await?,
        None => take_guard(state, name)?.release().await?,
    }
    Ok(json!({}))
}

async fn turns(state: &Rc<AgentState>, command: Command) -> Answer {
    let mutex = locks(state)?.mutex(&command.lock);
    let mut tokens = Vec::with_capacity(command.turns);
    for _ in 0..command.turns {
        let guard = mutex.acquire().await?;
        tokens.push(guard.check()?);
        let number: u64 =
            std::fs::read_to_string(&command.file)?.trim().parse().map_err(io::Error::other)?;
        std::fs::write(&command.file, (number + 1).to_string())?;
        guard.release().await?;
    }
    Ok(json!({ "tokens": tokens }))
}

fn holder(holder: &HolderView) -> Value {
    json!({ "token": holder.token, "who": holder.label.who(), "why": holder.label.why() })
}

fn view(view: &View) -> Value {
    let holders: Vec<Value> = view.holders.iter().map(holder).collect();
    json!({ "kind": view.kind.word(), "holders": holders, "waiting": view.waiting })
}
