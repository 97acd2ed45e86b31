//! [`Agent`]: one process of a language, and the lines that go to and fro.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};
use taketurns_servers::PATIENCE;

use crate::languages::AgentLanguage;

/// A running agent. Dropping it kills the process.
pub(crate) struct Agent {
    pub(crate) language: &'static str,
    child: Mutex<Child>,
    stdin: Mutex<AgentInput>,
    heard: Arc<Heard>,
}

/// Where commands go, and the number of the last one.
struct AgentInput {
    pipe: Option<ChildStdin>,
    last_id: u64,
}

/// What an agent has said so far.
#[derive(Default)]
struct Heard {
    answers: Mutex<HashMap<u64, Sender<Value>>>,
    events: Mutex<Vec<Value>>,
    more_events: Condvar,
}

/// A command that is under way.
pub(crate) struct PendingAnswer {
    pub(crate) id: u64,
    what: String,
    answer: Receiver<Value>,
}

/// An error that an agent answered.
#[derive(Debug)]
pub(crate) struct AgentError {
    pub(crate) kind: String,
    pub(crate) message: String,
}

impl Agent {
    /// Starts an agent and connects it. `options` are further fields of `connect`.
    pub(crate) fn start(language: AgentLanguage, url: &str, options: Value) -> Self {
        let mut command = (language.command)().unwrap_or_else(|error| panic!("{error}"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let pipe = child.stdin.take();
        let stdout = child.stdout.take().expect("it is a pipe");
        let heard = Arc::new(Heard::default());
        let listener = heard.clone();
        thread::spawn(move || listener.listen(stdout));
        let agent = Self {
            language: language.name,
            child: Mutex::new(child),
            stdin: Mutex::new(AgentInput { pipe, last_id: 0 }),
            heard,
        };
        let ready = agent.event("ready", |_| true);
        assert_eq!(ready["language"], language.name);
        let mut connect = json!({ "url": url });
        connect.as_object_mut().expect("an object").extend(fields(options));
        agent.ask("connect", connect);
        agent
    }

    /// Sends a command.
    pub(crate) fn begin(&self, what: &str, arguments: Value) -> PendingAnswer {
        let mut stdin = self.stdin.lock().expect("nobody panics with it");
        stdin.last_id += 1;
        let (id, (sender, answer)) = (stdin.last_id, mpsc::channel());
        self.heard.answers.lock().expect("nobody panics with it").insert(id, sender);
        let mut line = json!({ "id": id, "do": what });
        line.as_object_mut().expect("an object").extend(fields(arguments));
        let pipe = stdin.pipe.as_mut().expect("its input is open");
        writeln!(pipe, "{line}").unwrap_or_else(|error| panic!("{}: {error}", self.language));
        PendingAnswer { id, what: format!("{}: {line}", self.language), answer }
    }

    /// Sends a command that has to succeed, and returns its answer.
    pub(crate) fn ask(&self, what: &str, arguments: Value) -> Value {
        self.begin(what, arguments).ok()
    }

    /// Sends a command that has to fail, and returns its error.
    pub(crate) fn refused(&self, what: &str, arguments: Value) -> AgentError {
        self.begin(what, arguments).error()
    }

    /// Waits for the first event of that name for which the condition holds.
    pub(crate) fn event(&self, name: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let mut events = self.heard.events.lock().expect("nobody panics with it");
        loop {
            if let Some(event) = events.iter().find(|event| event["event"] == name && is_it(event))
            {
                return event.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{}: no event {name}, only {events:?}", self.language);
            (events, _) =
                self.heard.more_events.wait_timeout(events, left).expect("nobody panics with it");
        }
    }

    /// Kills the process, and returns when it is gone.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().expect("nobody panics with it");
        child.kill().and_then(|()| child.wait()).expect("it is a child");
    }

    /// Ends its input, and returns when it has ended by itself, without a fault.
    pub(crate) fn end(&self) {
        self.stdin.lock().expect("nobody panics with it").pipe = None;
        let ended = self.child.lock().expect("nobody panics with it").wait().expect("a child");
        assert!(ended.success(), "{}: {ended}", self.language);
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Ok(child) = self.child.get_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Heard {
    fn listen(&self, stdout: impl Read) {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
                panic!("an agent said {line:?}: {error}");
            });
            match said["id"].as_u64() {
                Some(id) => {
                    let asked = self.answers.lock().expect("nobody panics with it").remove(&id);
                    // Who asked may not wait any more.
                    let _ = asked.map(|asked| asked.send(said));
                }
                None => {
                    self.events.lock().expect("nobody panics with it").push(said);
                    self.more_events.notify_all();
                }
            }
        }
        // Who waits for an answer finds out.
        self.answers.lock().expect("nobody panics with it").clear();
    }
}

impl PendingAnswer {
    fn answer(&self) -> Value {
        match self.answer.recv_timeout(PATIENCE) {
            Ok(answer) => answer,
            Err(error) => panic!("{}: {error}", self.what),
        }
    }

    pub(crate) fn ok(&self) -> Value {
        let answer = self.answer();
        assert!(answer.get("ok").is_some(), "{}: {answer}", self.what);
        answer["ok"].clone()
    }

    pub(crate) fn error(&self) -> AgentError {
        let answer = self.answer();
        let text = |field: &str| answer["error"][field].as_str().unwrap_or_default().to_owned();
        assert!(answer.get("error").is_some(), "{}: {answer}", self.what);
        AgentError { kind: text("kind"), message: text("message") }
    }

    /// Has it been answered by now?
    pub(crate) fn is_answered(&self) -> bool {
        !matches!(self.answer.try_recv(), Err(mpsc::TryRecvError::Empty))
    }
}

fn fields(value: Value) -> serde_json::Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("not an object: {other}"),
    }
}
