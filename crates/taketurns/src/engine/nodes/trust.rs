//! Which nodes may have lost their state? To a new client, a server that was restarted empty looks like one
//! that was never used; the markers of the other nodes tell them apart.

use std::time::Duration;

use taketurns_core::quorum::majority;
use tokio::sync::mpsc;

use super::super::redis::MarkerSighting;
use super::node::next;
use super::url::{NodeOpener, NodeUrl};
use crate::runtime::{Runtime, sleep};

/// For how long the slow are waited for once a majority was seen.
const GRACE: Duration = Duration::from_secs(1);

/// A marker that is older than this belongs to a quorum in use.
const STARTING_FOR: Duration = Duration::from_secs(10);

/// How often a quorum that other clients may be starting right now is looked at, and with which pause.
const LOOKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// What is known of all nodes before any of them is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trust {
    /// The quorum is new: a node without a marker was never used. Otherwise such a node has lost its state.
    pub(crate) is_unused: bool,
    /// The longest lease that it may have forgotten.
    pub(crate) longest: Duration,
}

/// How old a quorum is, by the markers of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuorumAge {
    /// No node has a marker. All nodes have to be seen for that: a missing one may have one.
    Unused,
    /// Some markers are fresh, so another client may be about to set the others.
    Starting,
    InUse,
}

/// Looks at all nodes, and changes nothing.
pub(crate) async fn inspect_nodes(urls: &[NodeUrl]) -> Trust {
    let mut found = look(urls).await;
    for _ in 1..LOOKS {
        if age(&found, urls.len()) != QuorumAge::Starting {
            break;
        }
        sleep(PAUSE).await;
        found = look(urls).await;
    }
    let max_lease = |seen: &MarkerSighting| match seen {
        MarkerSighting::Marker { max_lease, .. } => *max_lease,
        MarkerSighting::Nothing => Duration::ZERO,
    };
    Trust {
        is_unused: age(&found, urls.len()) == QuorumAge::Unused,
        longest: found.iter().map(max_lease).max().unwrap_or_default(),
    }
}

async fn look(urls: &[NodeUrl]) -> Vec<MarkerSighting> {
    let (sender, mut seen) = mpsc::unbounded_channel();
    let runtime = Runtime::current();
    for url in urls {
        let (url, sender) = (url.clone(), sender.clone());
        runtime.spawn(async move {
            let _ = sender.send(match url.opener() {
                Ok(NodeOpener::Redis(redis)) => redis.peek().await,
                _ => Ok(MarkerSighting::Nothing),
            });
        });
    }
    drop(sender);
    let mut found = Vec::new();
    loop {
        let is_majority = found.len() >= majority(urls.len());
        if is_majority && found.iter().any(is_old) {
            // What the slow could add would change nothing.
            return found;
        }
        match next(&mut seen, is_majority.then_some(GRACE)).await {
            Some(Ok(seen)) => found.push(seen),
            Some(Err(_)) => {}
            None => return found,
        }
    }
}

fn is_old(seen: &MarkerSighting) -> bool {
    match seen {
        MarkerSighting::Marker { age, in_quarantine, .. } => *in_quarantine || *age > STARTING_FOR,
        MarkerSighting::Nothing => false,
    }
}

fn age(found: &[MarkerSighting], nodes: usize) -> QuorumAge {
    let blank = found.iter().filter(|seen| **seen == MarkerSighting::Nothing).count();
    match blank {
        _ if found.len() < nodes => QuorumAge::InUse,
        _ if found.iter().any(is_old) => QuorumAge::InUse,
        0 => QuorumAge::InUse,
        _ if blank == found.len() => QuorumAge::Unused,
        _ => QuorumAge::Starting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(age_s: u64, in_quarantine: bool) -> MarkerSighting {
        let age = Duration::from_secs(age_s);
        MarkerSighting::Marker { age, in_quarantine, max_lease: age }
    }

    #[test]
    fn a_quorum_is_unused_if_all_nodes_were_seen_and_none_has_a_marker() {
        assert_eq!(age(&[MarkerSighting::Nothing; 3], 3), QuorumAge::Unused);
        assert_eq!(
            age(&[MarkerSighting::Nothing; 2], 3),
            QuorumAge::InUse,
            "the others may be old"
        );
        let (young, old) = (marker(9, false), marker(11, false));
        assert_eq!(
            age(&[MarkerSighting::Nothing, MarkerSighting::Nothing, young], 3),
            QuorumAge::Starting
        );
        assert_eq!(age(&[MarkerSighting::Nothing, young, old], 3), QuorumAge::InUse);
        assert_eq!(age(&[MarkerSighting::Nothing, young, marker(1, true)], 3), QuorumAge::InUse);
        assert_eq!(age(&[young; 3], 3), QuorumAge::InUse, "none that one could be wrong about");
    }
}
