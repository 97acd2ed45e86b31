//! What people see of a lock, by the script and by core: the same, whatever has run out since the
//! last step and whatever was restarted meanwhile.

use redis::Value;
use taketurns_core::{Lock, Now, View};
use taketurns_servers::resp::ServerReply;

use super::super::view;
use super::KEY;

/// More waiters than there ever are.
pub(super) const ALL: usize = 1_000;

/// The view just before a request.
pub(super) struct ViewBefore {
    waiters_max: usize,
    /// With all waiters that are alive.
    view: Option<View>,
}

impl ViewBefore {
    /// What core shows, once it is in the quarantine that it is in by now.
    pub(super) fn of(lock: &Lock, is_new: bool, now: Now, waiters_max: usize) -> Self {
        let view = lock.view(now, usize::MAX);
        let is_anything = !is_new || view.quarantine_left.is_some();
        Self { waiters_max, view: is_anything.then_some(view) }
    }

    pub(super) fn words(&self, sha: &str, now: Now) -> Vec<Vec<u8>> {
        let (waiters_max, now_us) = (self.waiters_max.to_string(), now.wall_us.to_string());
        ["EVALSHA", sha, "2", KEY, &now_us, &waiters_max]
            .map(|word| word.as_bytes().to_vec())
            .into()
    }

    /// The script looks at the first places only, and can't know of the dead behind them.
    pub(super) fn compare(&self, shown: &ServerReply) -> Result<(), String> {
        let shown = view::read(&value(shown)).ok_or_else(|| format!("no view: {shown}"))?;
        let mut expected = self.view.clone();
        if self.waiters_max < ALL
            && let (Some(shown), Some(expected)) = (&shown, &mut expected)
        {
            expected.waiters.truncate(shown.waiters.len().min(self.waiters_max));
            expected.waiting = expected.waiting.max(shown.waiting);
        }
        (shown == expected).then_some(()).ok_or_else(|| format!("{shown:#?}, not {expected:#?}"))
    }
}

/// What a client of the library would have been given.
fn value(reply: &ServerReply) -> Value {
    match reply {
        ServerReply::Simple(text) | ServerReply::Error(text) => Value::SimpleString(text.clone()),
        ServerReply::Int(number) => Value::Int(*number),
        ServerReply::Bulk(bytes) => Value::BulkString(bytes.clone()),
        ServerReply::Nil => Value::Nil,
        ServerReply::Array(all) => Value::Array(all.iter().map(value).collect()),
    }
}
