//! [`Observer`]: who leads, for those who have no part in it.

use std::time::Duration;

use taketurns_core::{ClientId, HolderView, Kind, Name, Token, View};

use super::Election;
use crate::client::sleep_until_us;
use crate::clock::{local_us, micros};
use crate::{Error, ErrorKind};

/// How often an observer looks.
const EVERY_DEFAULT: Duration = Duration::from_secs(1);
/// No observer looks more often.
const EVERY_MIN: Duration = Duration::from_millis(10);
/// Who leads, as everybody can see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// Who it is: host, process and program, unless it calls itself otherwise.
    pub who: String,
    /// Why it leads, if it said so.
    pub why: String,
    /// Its fencing token. `None` only from a store whose wire has no room for one.
    pub token: Option<Token>,
    /// Which client it is, as in [`Locks::client_id`](crate::Locks::client_id).
    pub client: ClientId,
    /// For how long it has been leading.
    pub led_for: Duration,
    /// For how long it will lead without renewal.
    pub left: Duration,
}

impl Leader {
    /// Who leads, as a view of its lock has it.
    pub(super) fn of(name: &Name, view: &View) -> Result<Option<Self>, Error> {
        if view.kind != Kind::Mutex && !view.holders.is_empty() {
            return Err(Error::KindMismatch { lock: name.clone(), is: view.kind });
        }
        // One that was broken knows that it leads no more.
        let leads = |holder: &&HolderView| !holder.revoked;
        Ok(view.holders.iter().find(leads).map(|holder| Self {
            who: holder.label.who().to_owned(),
            why: holder.label.why().to_owned(),
            token: holder.token,
            client: holder.client,
            led_for: holder.held_for,
            left: holder.left,
        }))
    }
}

/// Watches who leads. A store pushes nothing to whoever only watches, so it looks every so often: that is
/// one request each, which changes nothing and shows one lock.
///
/// ```
/// # fn main() -> Result<(), taketurns::Error> {
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let locks = taketurns::connect("memory:").await?;
/// let election = locks.election("scheduler");
/// let mut observer = election.observe();
/// assert_eq!(observer.changed().await?, None); // first, how it is
/// let leadership = election.campaign().why("node-1").await?;
/// let leader = observer.changed().await?.expect("somebody leads");
/// assert_eq!(leader.token, leadership.token());
/// # Ok(()) }) }
/// ```
#[derive(Debug)]
pub struct Observer {
    election: Election,
    every: Duration,
    /// The local time of the next look.
    due_us: u64,
    seen: Sightings,
}

impl Observer {
    pub(super) fn new(election: Election) -> Self {
        Self { election, every: EVERY_DEFAULT, due_us: 0, seen: Sightings::default() }
    }

    /// How often it looks, which is how late it may be. From 10 ms on. Default: 1 s.
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every.max(EVERY_MIN);
        self
    }

    /// Resolves when somebody else leads than it told last, or nobody any more; the first time at once,
    /// with how it is. Tokens increase from one leader to the next. A leader that comes and goes between
    /// two looks is not seen. While the store can't be reached it waits. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// As [`Election::leader`], but for a store that can't be reached.
    pub async fn changed(&mut self) -> Result<Option<Leader>, Error> {
        let client = self.election.locks.shared.client.clone();
        client.entered(self.look_out()).await
    }

    async fn look_out(&mut self) -> Result<Option<Leader>, Error> {
        loop {
            sleep_until_us(self.due_us).await;
            self.due_us = local_us().saturating_add(micros(self.every));
            match self.election.leader().await {
                Ok(leader) if self.seen.is_news(leader.as_ref()) => return Ok(leader),
                Ok(_) => {}
                Err(error) if passes(&error) => {
                    tracing::debug!(%error, "who leads could not be seen");
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Is it a failure that a look a little later may not have?
fn passes(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::NoQuorum | ErrorKind::Indeterminate)
}

/// What an observer was told.
#[derive(Debug, Default)]
struct Sightings {
    /// Whose turn was seen last, if anybody's.
    last: Option<Option<(Option<Token>, ClientId)>>,
    newest: Option<Token>,
}

impl Sightings {
    /// Is it another leader than before? One with a smaller token than one that was seen is from a store
    /// that is behind, and is no news.
    fn is_news(&mut self, leader: Option<&Leader>) -> bool {
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
mod tests {
    use taketurns_core::{Ask, Label};

    use super::*;

    fn holder(token: u64) -> HolderView {
        let label = Label::new("a:1 p", "why").expect("a label");
        let mut holder = HolderView::new(label, ClientId::from_bits(1), Ask::Mutex);
        holder.token = Some(Token::from_raw(token));
        holder.held_for = Duration::from_millis(1_500);
        holder.left = Duration::from_secs(20);
        holder
    }

    fn held_by(holder: HolderView) -> View {
        let mut view = View::default();
        view.holders = vec![holder];
        view
    }

    fn leader_of(view: &View) -> Result<Option<Leader>, Error> {
        Leader::of(&Name::new("l").expect("a name"), view)
    }

    fn leader(token: u64) -> Leader {
        leader_of(&held_by(holder(token))).expect("a mutex").expect("held")
    }

    #[test]
    fn whoever_holds_the_mutex_leads_unless_it_was_broken() {
        let seen = leader(7);
        assert_eq!((seen.who.as_str(), seen.why.as_str()), ("a:1 p", "why"));
        assert_eq!(seen.token, Some(Token::from_raw(7)));
        assert_eq!((seen.led_for.as_millis(), seen.left.as_millis()), (1_500, 20_000));
        let mut view = held_by(holder(7));
        view.holders[0].revoked = true;
        assert_eq!(leader_of(&view).expect("a mutex"), None);
        view.holders.push(holder(9));
        assert_eq!(leader_of(&view).expect("a mutex"), Some(leader(9)));
        assert_eq!(leader_of(&View::default()).expect("nobody"), None);
    }

    #[test]
    fn a_lock_of_another_kind_has_no_leader() {
        let mut view = held_by(holder(7));
        view.kind = Kind::RwLock;
        let error = leader_of(&view).expect_err("no mutex");
        assert_eq!(error.kind(), ErrorKind::KindMismatch);
    }

    #[test]
    fn only_another_leader_is_news() {
        let mut seen = Sightings::default();
        assert!(seen.is_news(None), "how it is, the first time");
        assert!(!seen.is_news(None));
        assert!(seen.is_news(Some(&leader(7))));
        let later = Leader { led_for: Duration::from_secs(9), ..leader(7) };
        assert!(!seen.is_news(Some(&later)), "it goes on leading");
        assert!(seen.is_news(Some(&leader(9))));
        assert!(!seen.is_news(Some(&leader(8))), "the store is behind");
        assert!(!seen.is_news(Some(&leader(9))), "and has caught up");
        assert!(seen.is_news(None));
        assert!(seen.is_news(Some(&leader(10))));
    }

    #[test]
    fn leaders_without_tokens_are_told_apart_by_their_clients() {
        let of = |client| {
            let client = ClientId::from_bits(client);
            Leader { token: None, client, ..leader(7) }
        };
        let mut seen = Sightings::default();
        assert!(seen.is_news(Some(&of(1))));
        assert!(!seen.is_news(Some(&of(1))));
        assert!(seen.is_news(Some(&of(2))));
    }
}
