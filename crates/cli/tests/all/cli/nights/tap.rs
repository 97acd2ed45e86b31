//! The wire between one process and the server. At a given message the process is killed, and the message is lost: so
//! whatever the server had before it was carried out, and nothing after it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::plan::{KillPoint, Steps};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

/// A port for one process. It works as long as the process lives.
pub(super) struct Tap {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    kill: Option<KillPoint>,
    process: OnceLock<Pid>,
    /// Held while something passes, so that nothing does once the process was killed.
    passed: Mutex<Passed>,
}

#[derive(Default)]
struct Passed {
    requests: u64,
    replies: u64,
    killed: bool,
}

impl Tap {
    pub(super) fn start(server: u16, kill: Option<KillPoint>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared { kill, process: OnceLock::new(), passed: Mutex::default() });
        let all = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if all.is_over() {
                    return;
                }
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).expect("a server");
                for direction in [Direction::ToServer, Direction::ToClient] {
                    let (client, server) = (client.try_clone(), server.try_clone());
                    let (client, server) = (client.expect("a copy"), server.expect("a copy"));
                    let shared = all.clone();
                    thread::spawn(move || match direction {
                        Direction::ToServer => shared.pass(client, server, direction),
                        Direction::ToClient => shared.pass(server, client, direction),
                    });
                }
            }
        });
        Self { port, shared }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Whose wire it is.
    pub(super) fn is_of(&self, process: Pid) {
        self.shared.process.set(process).expect("one process");
    }

    pub(super) fn steps(&self) -> Steps {
        let passed = self.shared.passed();
        Steps { requests: passed.requests, replies: passed.replies }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.passed().killed = true;
        // Ends the thread that listens.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn passed(&self) -> std::sync::MutexGuard<'_, Passed> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.passed().killed
    }

    /// Passes messages on until either end is gone.
    fn pass(&self, mut from: TcpStream, mut to: TcpStream, direction: Direction) {
        let mut bytes = [0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            if !self.count(direction) || to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        for end in [from, to] {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Counts a message. `false` if it is the one at which the process is killed, or a later one.
    fn count(&self, direction: Direction) -> bool {
        let mut passed = self.passed();
        let point = match direction {
            Direction::ToServer => {
                passed.requests += 1;
                KillPoint::Request(passed.requests)
            }
            Direction::ToClient => {
                passed.replies += 1;
                KillPoint::Reply(passed.replies)
            }
        };
        if self.kill == Some(point) && !passed.killed {
            passed.killed = true;
            kill_process(*self.process.wait(), Signal::KILL).expect("it is there");
        }
        !passed.killed
    }
}
