//! A client under test: a process in another language that follows instructions.
//!
//! All use the same protocol: a command per line in, and a line of JSON out, as `redis-cli --json`
//! does by itself. This side remembers what the process was granted.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use taketurns_servers::{PATIENCE, Server, clients};

use crate::clients::KEY;
use crate::clients::rust::Rust;

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask {
    /// Takes the lock if it is free.
    Try {
        lease_ms: u64,
    },
    /// Waits for the lock, up to this time.
    Wait {
        lease_ms: u64,
        wait_ms: u64,
    },
    Renew {
        lease_ms: u64,
    },
    Release,
}

/// The outcome of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It holds the lock, with this token.
    Granted(u64),
    Done,
    /// Somebody else has the lock.
    No,
    Error(String),
}

pub(crate) trait Party {
    /// Starts an instruction, without waiting for its outcome.
    fn begin(&mut self, ask: Ask);

    fn answer(&mut self) -> Answer;

    /// Returns a lease that ends soon, but not before the client has answered.
    fn short_ms(&self) -> u64 {
        200
    }

    fn ask(&mut self, ask: Ask) -> Answer {
        self.begin(ask);
        self.answer()
    }
}

/// Starts one client of each kind, with its name.
pub(crate) fn one_of_each(server: &Server) -> Vec<(&'static str, Box<dyn Party>)> {
    let url = server.url();
    let python = clients::python(include_str!("programs/client.py"), [&url]).expect("redis-py");
    let node = clients::node(include_str!("programs/client.js"), [&url]).expect("ioredis");
    let mut cli = server.redis_cli();
    cli.arg("--json");
    vec![
        ("redis-cli", Box::new(Process::start(cli))),
        ("redis-py", Box::new(Process::start(python))),
        ("ioredis", Box::new(Process::start(node))),
        ("the Rust client", Box::new(Rust::start(url))),
    ]
}

/// A process behind pipes. Ends with this value.
pub(crate) struct Process {
    child: Child,
    words: ChildStdin,
    lines: Receiver<String>,
    /// Of the last grant.
    secret: u64,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("it is installed");
        let words = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        // On a thread: reading a pipe has no timeout.
        let (said, lines) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|l| said.send(l)));
        Self { child, words, lines, secret: 0 }
    }

    pub(crate) fn line(&mut self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("it answers")
    }
}

impl Party for Process {
    fn begin(&mut self, ask: Ask) {
        let secret = self.secret;
        let words = match ask {
            Ask::Try { lease_ms } => format!("FENCELOCK.ACQUIRE {KEY} {lease_ms} MS"),
            Ask::Wait { lease_ms, wait_ms } => {
                let (seconds, rest) = (wait_ms / 1_000, wait_ms % 1_000);
                format!("FENCELOCK.ACQUIRE {KEY} {lease_ms} MS WAIT {seconds}.{rest:03}")
            }
            Ask::Renew { lease_ms } => format!("FENCELOCK.RENEW {KEY} {secret} {lease_ms} MS"),
            Ask::Release => format!("FENCELOCK.RELEASE {KEY} {secret}"),
        };
        writeln!(self.words, "{words}").expect("it listens");
    }

    fn answer(&mut self) -> Answer {
        let line = self.line();
        if let Some(error) = line.strip_prefix("error:") {
            return Answer::Error(error.to_owned());
        }
        match serde_json::from_str(&line).expect("JSON") {
            Json::Nothing(()) => Answer::No,
            // redis-py's form of OK.
            Json::Done(true) => Answer::Done,
            Json::Text(text) if text == "OK" => Answer::Done,
            Json::Granted(secret, token) => {
                self.secret = secret;
                Answer::Granted(token)
            }
            other => panic!("what is {other:?}?"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug, serde::Deserialize)]
#[serde(untagged)]
enum Json {
    Nothing(()),
    Done(bool),
    Text(String),
    Granted(u64, u64),
}
