//! Releases: sent to every node until each has answered, or until it can't matter any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use taketurns_core::session::Backoff;
use taketurns_core::{Name, Owner};
use tokio::sync::mpsc;

use super::super::{EngineError, Reply, Request};
use super::node::lock;
use super::tally::ReplyTally;
use super::{ARRIVES_WITHIN_MS, NodeCalls, NodeListener, NodeSet, handle_answer_effects};
use crate::clock::local_us;
use crate::random;
use crate::runtime::sleep;

/// For how long the outcome of a release is kept for one who could not be told: longer than any pause
/// between two tries.
const ASKED_AGAIN_WITHIN: Duration = Duration::from_secs(3);

/// Closing the client waits until all of these are dropped.
pub(crate) type CloseGuard = Option<mpsc::Sender<()>>;

impl NodeSet {
    pub(crate) fn close_guard(&self) -> CloseGuard {
        lock(&self.busy).clone()
    }

    /// Is this owner being released?
    pub(crate) fn is_releasing(&self, owner: Owner) -> bool {
        lock(&self.releasing).contains_key(&owner)
    }

    /// What the nodes say to its release, if it is being released.
    pub(crate) fn release_under_way(&self, owner: Owner) -> Option<Arc<ReplyTally>> {
        lock(&self.releasing).get(&owner).cloned()
    }

    /// What the nodes say to a release comes to.
    pub(crate) async fn released(&self, tally: &ReplyTally) -> Result<Reply, EngineError> {
        tally.want();
        let replies = self.most(tally).await?;
        // Once claimed it was released before, and some nodes have yet to hear it.
        let is_ours = tally.claim();
        let any = |wanted: Reply| is_ours && replies.contains(&wanted);
        Ok(match (any(Reply::Released), any(Reply::Left)) {
            (true, _) => Reply::Released,
            (false, true) => Reply::Left,
            (false, false) => Reply::NotHeld,
        })
    }

    /// Sleeps on the client's runtime, on whichever task polls. `None` if that runtime has ended.
    fn pause(&self, for_: Duration) -> impl Future<Output = Option<()>> + Send + use<> {
        self.runtime.spawn(sleep(for_))
    }

    /// Until when an acquire that is sent to this node now may arrive, by the node's clock.
    pub(crate) fn arrives_by_ms(&self, node: usize) -> u64 {
        self.all[node].clock_ms(local_us()).unwrap_or(0) + ARRIVES_WITHIN_MS
    }
}

/// Releases an owner on all nodes, each with the time for which its tombstone lasts there. Returns where their replies
/// are counted, and the calls, which begin when they are polled.
pub(crate) fn release<D: NodeListener>(
    driver: &Arc<D>,
    owner: Owner,
    name: &Name,
    bury_until_ms: Vec<u64>,
    lasts_ms: u64,
) -> (Arc<ReplyTally>, NodeCalls) {
    let nodes = driver.nodes();
    let tally = ReplyTally::new(nodes.count());
    let left = Arc::new(AtomicUsize::new(bury_until_ms.len()));
    lock(&nodes.releasing).insert(owner, tally.clone());
    let until_us = local_us() + lasts_ms * 1_000;
    let call = |(node, bury_until_ms): (usize, u64)| {
        let request = Request::Release { owner, bury_until_ms, last_used: None };
        let (driver, name) = (driver.clone(), name.clone());
        let (tally, left, busy) = (tally.clone(), left.clone(), nodes.close_guard());
        async move {
            let record = |answer| tally.record(node, answer);
            tell(&driver, &name, node, request, until_us, busy, record).await;
            if left.fetch_sub(1, Ordering::AcqRel) > 1 {
                return;
            }
            if tally.is_wanted() {
                // Told that too few could be reached, and about to ask again.
                driver.nodes().pause(ASKED_AGAIN_WITHIN).await;
            }
            lock(&driver.nodes().releasing).remove(&owner);
        }
    };
    let calls = NodeCalls::new(nodes, bury_until_ms.into_iter().enumerate().map(call));
    (tally, calls)
}

/// Sends a request to one node until it answers. Closing the client waits for the first try.
pub(crate) async fn tell<D: NodeListener>(
    driver: &Arc<D>,
    name: &Name,
    node: usize,
    request: Request,
    until_us: u64,
    mut busy: CloseGuard,
    record: impl Fn(Result<Reply, EngineError>),
) {
    let nodes = driver.nodes();
    let mut backoff = Backoff::default();
    loop {
        let answer = nodes.all[node].call(name, request.clone()).await;
        if let Ok(answer) = &answer {
            handle_answer_effects(driver, name, node, answer);
        }
        let is_over = answer.is_ok() || local_us() >= until_us;
        record(answer.map(|answer| answer.reply));
        if is_over {
            return drop(busy);
        }
        // Closing the client does not wait for a node that is down.
        busy = None;
        let pause_us = backoff.pause_us(random::bits64());
        if nodes.pause(Duration::from_micros(pause_us)).await.is_none() {
            return;
        }
    }
}
