//! Calls about the work of a once.

use napi_derive::napi;
use taketurns::Error;

use super::{Binding, Held};
use crate::options::{AcquireSettings, OnceObject};
use crate::outcome::{Answer, Outcome};

#[napi]
impl Binding {
    /// Waits until the work is done, or until it is this client's turn to attempt it.
    #[napi]
    pub fn begin(
        &self,
        id: i64,
        client: i64,
        once: OnceObject,
        settings: Option<AcquireSettings>,
    ) -> Option<Answer> {
        self.with(id, client, |locks| {
            let once = settings.unwrap_or_default().on_once(once.of(locks));
            let begun = once.begin();
            async { Outcome::of(begun.await, |begun| Outcome::Begun(Some(begun))) }
        })
    }

    /// Attempts the work if nobody else does.
    #[napi]
    pub fn try_begin(
        &self,
        id: i64,
        client: i64,
        once: OnceObject,
        settings: Option<AcquireSettings>,
    ) -> Option<Answer> {
        self.with(id, client, |locks| {
            let once = settings.unwrap_or_default().on_once(once.of(locks));
            let begun = once.try_begin();
            async { Outcome::of(begun.await, Outcome::Begun) }
        })
    }

    /// Records that the work of an attempt is done.
    #[napi]
    pub fn done(&self, id: i64, guard: i64, result: String) -> Option<Answer> {
        let Some(Held::Work(attempt)) = self.take(guard) else {
            return Some(Answer::failed(&Error::Closed));
        };
        let done = attempt.done_with(&result);
        self.start(id, async { Outcome::of(done.await, |()| Outcome::Done) })
    }

    /// Reads by whom and when the work was done.
    #[napi]
    pub fn completion(&self, id: i64, client: i64, name: String) -> Option<Answer> {
        self.with(id, client, |locks| {
            let once = locks.once(name);
            async move { Outcome::of(once.completion().await, Outcome::Completion) }
        })
    }

    /// Forgets that the work was done, and how often it failed.
    #[napi]
    pub fn undo(&self, id: i64, client: i64, name: String) -> Option<Answer> {
        self.with(id, client, |locks| {
            let once = locks.once(name);
            async move { Outcome::of(once.undo().await, Outcome::Changed) }
        })
    }
}
