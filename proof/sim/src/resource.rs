//! What the locks guard: one that looks at tokens and one that does not. Writes are under way for a
//! while, and may arrive when their writer holds nothing any more.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Mutex;

use taketurns::Token;
use taketurns::fence::{Fence, StaleToken};
use taketurns_history::EventKind;
use tokio::sync::oneshot;

use crate::dice::SimDice;
use crate::machine::lock;

/// How often each was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Versions {
    fenced: u64,
    unfenced: u64,
}

/// A write on its way.
#[derive(Debug)]
pub(crate) struct PendingWrite {
    pub(crate) op: u64,
    resource: String,
    token: Token,
    read: Versions,
    /// How long it takes, out of a thousand of the longest.
    pub(crate) delay: u64,
    /// Dropped when it has arrived.
    _arrived: oneshot::Sender<Infallible>,
}

#[derive(Default)]
pub(crate) struct Resource {
    fence: Fence,
    versions: Mutex<BTreeMap<String, Versions>>,
    outbox: Mutex<Vec<PendingWrite>>,
}

impl Resource {
    /// The fence sees the token: nobody older writes from now on.
    pub(crate) fn read(&self, resource: &str, token: Token) -> Result<Versions, StaleToken> {
        self.fence.write(resource, token, || {
            lock(&self.versions).get(resource).copied().unwrap_or_default()
        })
    }

    /// Sends a write. The answer resolves, one way or another, when it has arrived.
    pub(crate) fn send(
        &self,
        op: u64,
        resource: &str,
        token: Token,
        read: Versions,
        dice: &mut SimDice,
    ) -> oneshot::Receiver<Infallible> {
        let delay = if dice.chance(800) { dice.between(0, 20) } else { dice.between(0, 1_000) };
        let (_arrived, written) = oneshot::channel();
        let resource = resource.to_owned();
        lock(&self.outbox).push(PendingWrite { op, resource, token, read, delay, _arrived });
        written
    }

    pub(crate) fn outbox(&self) -> Vec<PendingWrite> {
        std::mem::take(&mut lock(&self.outbox))
    }

    /// It arrives: what became of it at each of the two.
    pub(crate) fn arrives(&self, write: PendingWrite) -> [EventKind; 2] {
        let PendingWrite { op, resource, token, read, .. } = write;
        let mut versions = lock(&self.versions);
        let now = versions.entry(resource.clone()).or_default();
        let stale = now.unfenced != read.unfenced;
        now.unfenced += 1;
        let unfenced = EventKind::Wrote { op, fenced: false, accepted: true, stale };
        let stale = now.fenced != read.fenced;
        let accepted = self.fence.write(&resource, token, || now.fenced += 1).is_ok();
        [unfenced, EventKind::Wrote { op, fenced: true, accepted, stale }]
    }
}
