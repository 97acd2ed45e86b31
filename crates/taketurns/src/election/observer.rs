//! [`Observer`]: watches who leads, without taking part.

use std::time::Duration;

use taketurns_core::{ClientId, HolderView, Token};

use super::Election;
use crate::Error;
use crate::clock::{local_us, micros};
use crate::runtime::sleep_until_us;
use crate::telling::target;

/// The default poll interval.
const EVERY_DEFAULT: Duration = Duration::from_secs(1);
/// The shortest poll interval.
const EVERY_MIN: Duration = Duration::from_millis(10);

/// Watches who leads. A store sends no events to clients that only watch, so an observer polls: each poll is one
/// read-only request for one lock.
///
/// ```
/// # use taketurns::blocking::Wait;
/// # async {
/// # let locks = taketurns::connect("memory:").await?;
/// let election = locks.election("scheduler");
/// let mut observer = election.observe();
/// assert_eq!(observer.changed().await?, None); // the first call: nobody leads
/// let leadership = election.campaign().why("node-1").await?;
/// let leader = observer.changed().await?.expect("somebody leads");
/// assert_eq!(leader.token, Some(leadership.token()));
/// # Ok::<(), taketurns::Error>(()) }.wait().unwrap();
/// ```
#[derive(Debug)]
pub struct Observer {
    election: Election,
    every: Duration,
    /// The local time of the next poll.
    due_us: u64,
    seen: Sightings,
}

impl Observer {
    pub(super) fn new(election: Election) -> Self {
        Self { election, every: EVERY_DEFAULT, due_us: 0, seen: Sightings::default() }
    }

    /// Sets the poll interval, which is how late a change may be noticed. At least 10 ms. Default: 1 s.
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every.max(EVERY_MIN);
        self
    }

    /// Resolves when the leader is another than the last call returned, or when nobody leads any more; the first call
    /// resolves at once. Tokens increase from one leader to the next. A leader that comes and goes between two polls is
    /// not noticed. While the store can't be reached, this waits.
    ///
    /// # Errors
    /// As [`Election::leader`], except that an unreachable store is not an error.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    pub async fn changed(&mut self) -> Result<Option<HolderView>, Error> {
        let client = self.election.0.locks.shared.client.clone();
        client.entered(self.look_out()).await
    }

    async fn look_out(&mut self) -> Result<Option<HolderView>, Error> {
        loop {
            sleep_until_us(self.due_us).await;
            self.due_us = local_us().saturating_add(micros(self.every));
            match self.election.leader().await {
                Ok(leader) if self.seen.is_news(leader.as_ref()) => return Ok(leader),
                Ok(_) => {}
                Err(error) if error.is_retryable() => {
                    tracing::debug!(target: target::ELECTION, %error, "who leads could not be seen");
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What an observer has returned so far.
#[derive(Debug, Default)]
struct Sightings {
    /// The last leader, if there was one at all.
    last: Option<Option<(Option<Token>, ClientId)>>,
    newest: Option<Token>,
}

impl Sightings {
    /// Returns whether this is another leader than before. A smaller token than one already seen comes from a stale
    /// replica and is no news.
    fn is_news(&mut self, leader: Option<&HolderView>) -> bool {
        let token = leader.and_then(|leader| leader.token);
        if token.is_some() && token < self.newest {
            return false;
        }
        self.newest = self.newest.max(token);
        let turn = leader.map(|leader| (leader.token, leader.client));
        self.last.replace(turn) != Some(turn)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use taketurns_core::{Ask, Label};

    use super::*;

    pub(crate) fn holder(token: u64) -> HolderView {
        let label = Label::new("a:1 p", "why").expect("a label");
        let mut holder = HolderView::new(label, ClientId::from_bits(1), Ask::Mutex);
        holder.token = Some(Token::from_raw(token));
        holder.held_for = Duration::from_millis(1_500);
        holder.left = Duration::from_secs(20);
        holder
    }

    #[test]
    fn only_another_leader_is_news() {
        let mut seen = Sightings::default();
        assert!(seen.is_news(None), "how it is, the first time");
        assert!(!seen.is_news(None));
        assert!(seen.is_news(Some(&holder(7))));
        let mut later = holder(7);
        later.held_for = Duration::from_secs(9);
        assert!(!seen.is_news(Some(&later)), "it goes on leading");
        assert!(seen.is_news(Some(&holder(9))));
        assert!(!seen.is_news(Some(&holder(8))), "the store is behind");
        assert!(!seen.is_news(Some(&holder(9))), "and has caught up");
        assert!(seen.is_news(None));
        assert!(seen.is_news(Some(&holder(10))));
    }

    #[test]
    fn leaders_without_tokens_are_told_apart_by_their_clients() {
        let of = |client| {
            let mut holder = holder(7);
            (holder.token, holder.client) = (None, ClientId::from_bits(client));
            holder
        };
        let mut seen = Sightings::default();
        assert!(seen.is_news(Some(&of(1))));
        assert!(!seen.is_news(Some(&of(1))));
        assert!(seen.is_news(Some(&of(2))));
    }
}
