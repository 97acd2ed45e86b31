//! A connection that only pops from lists, whichever is pushed to first.

use std::sync::Arc;
use std::time::Duration;

use redis::{Value, cmd};

use super::ear::Ear;
use super::failure::Failure;
use super::opener::Opener;
use super::session::Session;

/// Beside a session, to the same server and as the same user.
pub(crate) struct Pops {
    ear: Ear,
    session: Arc<Session>,
}

impl Pops {
    pub(crate) async fn open(opener: &Opener, session: Arc<Session>) -> Result<Self, Failure> {
        let address = &session.link.address;
        let login = opener.config.credentials.read().map_err(Failure::Broken)?;
        let stream = opener.dialer.dial(address).await?;
        let timeout = opener.config.timeouts.response;
        let mut ear = Ear::open(stream, timeout, address, login.as_ref()).await?;
        if opener.config.db != 0 {
            ear.ask(address, cmd("SELECT").arg(opener.config.db), Duration::ZERO).await?;
        }
        Ok(Self { ear, session })
    }

    /// Is that still the server of the session?
    pub(crate) fn is_wanted(&self) -> bool {
        self.session.link.is_alive()
    }

    /// Waits for something in one of the lists, takes it out, and says in which it was. `None` if there
    /// is nothing for so long. The first list comes first.
    pub(crate) async fn pop(
        &mut self,
        lists: &[String],
        within: Duration,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let address = &self.session.link.address;
        let mut command = cmd("BLPOP");
        command.arg(lists).arg(within.as_secs_f64());
        let popped = self.ear.ask(address, &command, within).await?;
        Ok(match popped.as_sequence() {
            Some([Value::BulkString(list), _]) => Some(list.clone()),
            _ => None,
        })
    }

    /// Puts something into a list again, for others who pop from it: for a second.
    pub(crate) async fn push_back(&mut self, list: &str) -> Result<(), Failure> {
        let address = &self.session.link.address;
        for command in [cmd("RPUSH").arg(list).arg(1), cmd("PEXPIRE").arg(list).arg(1_000)] {
            self.ear.ask(address, command, Duration::ZERO).await?;
        }
        Ok(())
    }
}
