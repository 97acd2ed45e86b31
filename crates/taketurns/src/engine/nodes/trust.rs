//! Which nodes may have forgotten what they knew? To one who comes new, a server that was restarted empty
//! looks like one that was never used; the other nodes tell them apart.

use std::time::Duration;

use taketurns_core::quorum::majority;
use tokio::sync::mpsc;

use super::super::redis::MarkerSighting;
use super::node::next;
use super::url::{NodeUrl, Opener};
use crate::runtime::{Runtime, sleep};

/// For how long the slow are waited for once a majority was seen.
const GRACE: Duration = Duration::from_secs(1);

/// A marker that is older is not of the first day.
const FIRST_DAY: Duration = Duration::from_secs(10);

/// How often those are looked at that others may be about to use for the first time, and how long after
/// each other.
const LOOKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// What is known of all nodes before any of them is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trust {
    /// A node that knows nothing was never used. Else it has forgotten.
    pub(crate) is_first_day: bool,
    /// The longest lease that it may have forgotten.
    pub(crate) longest: Duration,
}

/// What day it is in the life of a quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Day {
    /// None has been used. All have to be seen for that: whoever is missing may know better.
    First,
    /// Some have been used just now, so somebody may be about to use the others.
    Beginning,
    Later,
}

/// Looks at all nodes, and changes nothing.
pub(crate) async fn look_around(urls: &[NodeUrl]) -> Trust {
    let mut found = look(urls).await;
    for _ in 1..LOOKS {
        if day(&found, urls.len()) != Day::Beginning {
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
        is_first_day: day(&found, urls.len()) == Day::First,
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
                Ok(Opener::Redis(redis)) => redis.peek().await,
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
        MarkerSighting::Marker { age, in_quarantine, .. } => *in_quarantine || *age > FIRST_DAY,
        MarkerSighting::Nothing => false,
    }
}

fn day(found: &[MarkerSighting], nodes: usize) -> Day {
    let blank = found.iter().filter(|seen| **seen == MarkerSighting::Nothing).count();
    match blank {
        _ if found.len() < nodes => Day::Later,
        _ if found.iter().any(is_old) => Day::Later,
        0 => Day::Later,
        _ if blank == found.len() => Day::First,
        _ => Day::Beginning,
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
    fn it_is_the_first_day_if_all_were_seen_and_none_was_used() {
        assert_eq!(day(&[MarkerSighting::Nothing; 3], 3), Day::First);
        assert_eq!(day(&[MarkerSighting::Nothing; 2], 3), Day::Later, "the others may be old");
        let (young, old) = (marker(9, false), marker(11, false));
        assert_eq!(
            day(&[MarkerSighting::Nothing, MarkerSighting::Nothing, young], 3),
            Day::Beginning
        );
        assert_eq!(day(&[MarkerSighting::Nothing, young, old], 3), Day::Later);
        assert_eq!(day(&[MarkerSighting::Nothing, young, marker(1, true)], 3), Day::Later);
        assert_eq!(day(&[young; 3], 3), Day::Later, "none that one could be wrong about");
    }
}
