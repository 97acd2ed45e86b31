//! Counts the answers of all nodes to one request until a majority has answered.

use std::collections::BTreeMap;

use taketurns_core::Reply;
use taketurns_core::quorum::majority;
use tokio::sync::watch;

use super::super::EngineError;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex, lock};

/// The answers so far. Several may wait for the outcome.
pub(crate) struct ReplyTally {
    nodes: usize,
    state: Mutex<TallyState>,
    wanted: AtomicBool,
    claimed: AtomicBool,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct TallyState {
    replies: BTreeMap<usize, Reply>,
    /// Why the last try with a node failed that has not answered.
    troubles: NodeTroubles,
}

/// What is wrong with which node.
pub(crate) type NodeTroubles = BTreeMap<usize, String>;

impl ReplyTally {
    pub(crate) fn new(nodes: usize) -> Arc<Self> {
        Arc::new(Self {
            nodes,
            state: Mutex::default(),
            wanted: AtomicBool::new(false),
            claimed: AtomicBool::new(false),
            changed: watch::channel(()).0,
        })
    }

    /// A node answered, or could not be reached this time.
    pub(crate) fn record(&self, node: usize, answer: Result<Reply, EngineError>) {
        let mut state = lock(&self.state);
        match answer {
            Ok(reply) => {
                state.troubles.remove(&node);
                state.replies.insert(node, reply);
            }
            Err(error) => {
                state.troubles.insert(node, error.to_string());
            }
        }
        drop(state);
        self.changed.send_replace(());
    }

    /// Somebody wants to know the outcome.
    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Does somebody want to know the outcome who does not yet?
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && !self.claimed.load(Ordering::Relaxed)
    }

    /// Returns true for the first caller only: the change was made for one.
    pub(crate) fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::Relaxed)
    }

    /// Returns the replies of a majority, or the troubles once too many nodes are unreachable for
    /// one.
    pub(crate) async fn most(&self) -> Result<Vec<Reply>, NodeTroubles> {
        let (mut changed, needed) = (self.changed.subscribe(), majority(self.nodes));
        loop {
            {
                let state = lock(&self.state);
                if state.replies.len() >= needed {
                    return Ok(state.replies.values().cloned().collect());
                }
                if state.troubles.len() > self.nodes - needed {
                    return Err(state.troubles.clone());
                }
            }
            // The sender is ours, so this never fails.
            let _ = changed.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down() -> Result<Reply, EngineError> {
        Err(EngineError::Unreachable("it is down".to_owned()))
    }

    #[tokio::test]
    async fn a_majority_of_answers_is_enough_and_too_many_failures_are_too() {
        let tally = ReplyTally::new(3);
        tally.record(0, Ok(Reply::Released));
        tally.record(1, down());
        tally.record(1, down());
        tally.record(2, Ok(Reply::NotHeld));
        assert_eq!(tally.most().await, Ok(vec![Reply::Released, Reply::NotHeld]));
        let tally = ReplyTally::new(3);
        tally.record(0, down());
        tally.record(1, down());
        assert_eq!(tally.most().await.map_err(|troubles| troubles.len()), Err(2));
        // One that answers after all is no trouble.
        tally.record(1, Ok(Reply::Left));
        tally.record(2, Ok(Reply::Left));
        assert_eq!(tally.most().await, Ok(vec![Reply::Left, Reply::Left]));
    }
}
