//! The Rust client as a client under test. It holds by a handle, so that it renews the lease only
//! when told to.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use taketurns::blocking::Wait;
use taketurns::{Connect, Error, ErrorKind, Guard, Handle, Locks};
use taketurns_servers::PATIENCE;

use crate::clients::NAME;
use crate::clients::party::{Answer, Ask, Party};

pub(crate) struct Rust {
    asks: Sender<Ask>,
    answers: Receiver<Answer>,
}

impl Rust {
    pub(crate) fn start(url: String) -> Self {
        let (asks, asked) = channel();
        let (answered, answers) = channel();
        thread::spawn(move || {
            // Long enough to keep its place on a busy machine.
            let connect = Connect::new(&url).waiter_lease(PATIENCE);
            let locks = connect.open().wait().expect("a connection");
            let mut handle = None;
            for ask in asked {
                let answer = match carry_out(&locks, &mut handle, ask) {
                    Ok(answer) => answer,
                    Err(error) => match error.kind() {
                        ErrorKind::Timeout | ErrorKind::NotHeld => Answer::No,
                        _ => Answer::Error(error.to_string()),
                    },
                };
                if answered.send(answer).is_err() {
                    return;
                }
            }
        });
        Self { asks, answers }
    }
}

impl Party for Rust {
    fn begin(&mut self, ask: Ask) {
        self.asks.send(ask).expect("it listens");
    }

    fn answer(&mut self) -> Answer {
        self.answers.recv_timeout(PATIENCE).expect("it answers")
    }

    /// It renews once more before it has a handle.
    fn short_ms(&self) -> u64 {
        3_000
    }
}

fn carry_out(locks: &Locks, handle: &mut Option<Handle>, ask: Ask) -> Result<Answer, Error> {
    let ms = Duration::from_millis;
    match ask {
        Ask::Try { lease_ms } => {
            let guard = locks.mutex(NAME).try_acquire().lease(ms(lease_ms)).wait()?;
            guard.map_or(Ok(Answer::No), |guard| granted(guard, handle))
        }
        Ask::Wait { lease_ms, wait_ms } => {
            let acquire = locks.mutex(NAME).acquire().lease(ms(lease_ms)).within(ms(wait_ms));
            granted(acquire.wait()?, handle)
        }
        Ask::Renew { lease_ms } => {
            locks.renew(handle.as_ref().expect("it was granted"), Some(ms(lease_ms))).wait()?;
            Ok(Answer::Done)
        }
        Ask::Release => {
            locks.release(handle.as_ref().expect("it was granted")).wait()?;
            Ok(Answer::Done)
        }
    }
}

fn granted(guard: Guard, handle: &mut Option<Handle>) -> Result<Answer, Error> {
    let handle = handle.insert(guard.into_handle().wait()?);
    Ok(Answer::Granted(handle.token().raw()))
}
