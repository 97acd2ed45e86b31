//! What a command runs under, and how that ends: a lock is released, an attempt at work is reported as done or failed.

use std::ops::Deref;

use taketurns::{Attempt, Error, Guard, Note};
use tokio::time::timeout;

use crate::exit::say;
use crate::signals::Signals;

/// A lock, or the right to do work that must be done once.
pub(crate) enum Held {
    Lock(Guard),
    Work {
        attempt: Attempt,
        /// The text that is recorded if the work gets done.
        result: Note,
    },
}

impl From<Guard> for Held {
    fn from(guard: Guard) -> Self {
        Self::Lock(guard)
    }
}

impl Deref for Held {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        match self {
            Self::Lock(guard) => guard,
            Self::Work { attempt, .. } => attempt,
        }
    }
}

/// What became of it. The user has seen a message, unless all went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldEnd {
    Ended,
    /// It was lost before the command ended by itself.
    Lost,
    /// The work is done, but the store did not confirm that it recorded this.
    Unconfirmed,
}

impl Held {
    /// Ends it after the command: `lost` if the command was ended for a lost lock.
    pub(crate) async fn end(self, succeeded: bool, lost: bool, signals: &mut Signals) -> HoldEnd {
        if !self.is_held() {
            if !lost {
                say(format_args!("lock {} was lost before the command ended", self.name()));
            }
            return HoldEnd::Lost;
        }
        match self.report(succeeded && !lost, signals).await {
            HoldEnd::Ended if lost => HoldEnd::Lost,
            end => end,
        }
    }

    /// Releases the lock, or reports the attempt. Stops waiting when the lease is over or a signal comes. `Lost` if the
    /// store no longer knew the holder: it lost its state, and may have granted the lock to another client.
    async fn report(self, succeeded: bool, signals: &mut Signals) -> HoldEnd {
        let (name, left) = (self.name().clone(), self.left());
        let is_work = matches!(self, Self::Work { .. });
        let problem = match signals.unless("", timeout(left, self.send(succeeded))).await {
            Ok(Ok(Ok(()))) => return HoldEnd::Ended,
            Ok(Ok(Err(Error::NotHeld { .. } | Error::Lost { .. }))) => {
                say(format_args!(
                    "lock {name} was lost before the command ended: the store no longer knows the \
                     holder{}",
                    if is_work && succeeded { ", so the work is not recorded as done" } else { "" }
                ));
                return HoldEnd::Lost;
            }
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) => "the store did not answer".to_owned(),
            Err(_) => "interrupted".to_owned(),
        };
        match (is_work, succeeded) {
            (false, _) => say(format_args!(
                "lock {name} could not be released ({problem}); it becomes free when its lease ends"
            )),
            (true, false) => say(format_args!(
                "{name}: the failure could not be recorded ({problem}); the next attempt can begin when \
                 the lease ends"
            )),
            (true, true) => {
                say(format_args!(
                    "{name}: the command succeeded, but the store did not confirm that it is recorded as \
                     done ({problem}); if it is not, it runs again"
                ));
                return HoldEnd::Unconfirmed;
            }
        }
        HoldEnd::Ended
    }

    async fn send(self, succeeded: bool) -> Result<(), Error> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Work { attempt, result } if succeeded => attempt.done_with(result.as_str()).await,
            Self::Work { attempt, .. } => attempt.fail().await,
        }
    }
}
