//! Views: what people see of a lock. A view is computed, never stored, and viewing changes nothing.
//!
//! In JSON, as the module sends views, durations are whole milliseconds in fields whose names end
//! in `_ms`. (The JSON of `show --json` is in `json.rs` of the program.)

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::members::MemberState;
use super::{Completion, Lock};
use crate::{Ask, ClientId, Kind, Label, Member, Now, Token};

/// A lock at one instant. Owners are secrets and are not part of it. Engines start from its
/// default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct View {
    /// Its kind, or the kind it had when it was last used.
    pub kind: Kind,
    /// The last token issued.
    pub last_token: Option<Token>,
    /// The holders, in the order of their grants.
    pub holders: Vec<HolderView>,
    /// How many wait. `waiters` may show only the first of them; some of the others may be dead.
    pub waiting: usize,
    /// The waiters, in the order of their arrival.
    pub waiters: Vec<WaiterView>,
    /// The members, if it is a pool.
    pub members: Vec<MemberView>,
    /// What is remembered of the work, if it is a once.
    #[serde(default)]
    pub work: Option<WorkView>,
    /// How long its quarantine still lasts, if it is in one: nobody is granted the lock, because
    /// its store may have forgotten a holder.
    #[serde(rename = "quarantine_ms", default, with = "optional_millis")]
    pub quarantine_left: Option<Duration>,
}

/// A holder as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HolderView {
    /// Who holds it, and why.
    pub label: Label,
    /// The client that keeps it.
    pub client: ClientId,
    /// Its fencing token.
    pub token: Option<Token>,
    /// What it asked for.
    pub ask: Ask,
    /// Which member it has, if the lock is a pool.
    pub member: Option<Member>,
    /// How long it has held the lock.
    #[serde(rename = "held_ms", with = "millis")]
    pub held_for: Duration,
    /// How much of its lease is left unless it renews.
    #[serde(rename = "left_ms", with = "millis")]
    pub left: Duration,
    /// Broken: it can't be renewed any more.
    pub revoked: bool,
    /// How long nobody else can have what it takes, if its acquire set `at_least` and that is not over.
    #[serde(rename = "at_least_left_ms", default, with = "optional_millis")]
    pub at_least_left: Option<Duration>,
    /// It was released or lost, and stays only until that is over.
    #[serde(default)]
    pub resting: bool,
}

/// What a once remembers, as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkView {
    /// How many attempts failed; of work that is done, before it was.
    pub failed: u32,
    /// How long the first in line still waits because the last attempt failed.
    #[serde(rename = "retry_ms", default, with = "optional_millis")]
    pub retry_in: Option<Duration>,
    /// How long it is still remembered.
    #[serde(rename = "forgotten_ms", with = "millis")]
    pub forgotten_in: Duration,
    /// By whom and when the work was done, if it is.
    pub done: Option<Completion>,
}

impl WorkView {
    /// Returns a view of work with this number of failed attempts, which is forgotten after this time.
    pub fn new(failed: u32, forgotten_in: Duration, done: Option<Completion>) -> Self {
        Self { failed, retry_in: None, forgotten_in, done }
    }
}

/// A waiter as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WaiterView {
    /// Who waits, and why.
    pub label: Label,
    /// The client that waits.
    pub client: ClientId,
    /// What it asks for.
    pub ask: Ask,
    /// How long it has been waiting.
    #[serde(rename = "waited_ms", with = "millis")]
    pub waited_for: Duration,
}

/// A member of a pool as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemberView {
    /// Its name.
    pub name: Member,
    /// Whether somebody holds it.
    pub held: bool,
    /// It was removed while held, and goes when it is released.
    pub leaving: bool,
    /// Its last holder did not give it back in time. Only a store with `protocol=zmutex` reports
    /// this.
    #[serde(default)]
    pub stale: bool,
}

impl View {
    /// Returns whether nobody has used this lock. It may be listed all the same if it is in
    /// quarantine.
    pub fn is_blank(&self) -> bool {
        self.last_token.is_none()
            && self.holders.is_empty()
            && self.waiting == 0
            && self.members.is_empty()
            && self.work.is_none()
    }
}

impl HolderView {
    /// Returns a holder with default values in all other fields.
    pub fn new(label: Label, client: ClientId, ask: Ask) -> Self {
        Self {
            label,
            client,
            token: None,
            ask,
            member: None,
            held_for: Duration::ZERO,
            left: Duration::ZERO,
            revoked: false,
            at_least_left: None,
            resting: false,
        }
    }
}

impl WaiterView {
    /// Returns a waiter that has been waiting for this long.
    pub fn new(label: Label, client: ClientId, ask: Ask, waited_for: Duration) -> Self {
        Self { label, client, ask, waited_for }
    }
}

impl MemberView {
    /// Returns a free member.
    pub fn new(name: Member) -> Self {
        Self { name, held: false, leaving: false, stale: false }
    }
}

mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(whole(span))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }

    pub(super) fn whole(span: &Duration) -> u64 {
        u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
    }
}

mod optional_millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        span.as_ref().map(super::millis::whole).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}

/// Returns the label to show: without one, the number of the client's connection, if it is known.
fn shown(label: &Label, client: ClientId) -> Label {
    let numbered = |number: u64| Label::new(&format!("client {number}"), "").unwrap_or_default();
    match client.caller() {
        Some(number) if label.bytes() == 0 => numbered(number),
        _ => label.clone(),
    }
}

impl Lock {
    /// Returns a view of the lock with its first `waiters_max` live waiters. Expired holders are
    /// left out.
    pub fn view(&self, now: Now, waiters_max: usize) -> View {
        let mut holders: Vec<_> = self
            .holders
            .iter()
            .filter_map(|holder| holder.as_seen(now))
            .map(|holder| HolderView {
                label: shown(&holder.label, holder.client),
                client: holder.client,
                token: Some(holder.token),
                ask: holder.ask.clone(),
                member: holder.member.clone(),
                held_for: Duration::from_millis(now.ms.saturating_sub(holder.since_ms)),
                left: Duration::from_millis(
                    (holder.deadline_ms - now.ms).min(self.queue.lease_of(&holder)),
                ),
                revoked: holder.revoked,
                at_least_left: (holder.rests_until_ms() > now.ms)
                    .then(|| Duration::from_millis(holder.rests_until_ms() - now.ms)),
                resting: holder.resting,
            })
            .collect();
        holders.sort_by_key(|holder| holder.token);
        let live = || self.queue.iter().filter(|(_, waiter)| self.queue.is_live(waiter, now));
        let waiters = live()
            .take(waiters_max)
            .map(|(_, waiter)| WaiterView {
                label: shown(&waiter.label, waiter.client),
                client: waiter.client,
                ask: waiter.ask.clone(),
                waited_for: Duration::from_millis(now.ms.saturating_sub(waiter.since_ms)),
            })
            .collect();
        let held =
            |member: &Member| holders.iter().any(|holder| holder.member.as_ref() == Some(member));
        let members = self
            .members
            .iter()
            .map(|(member, state)| MemberView {
                name: member.clone(),
                held: held(member),
                leaving: matches!(state, MemberState::Held { leaving: true }),
                stale: false,
            })
            .collect();
        View {
            kind: self.kind,
            last_token: self.last_token(),
            waiting: live().count(),
            waiters,
            members,
            holders,
            work: self.work_view(now),
            quarantine_left: self
                .quarantined_until_ms(now)
                .map(|until_ms| Duration::from_millis(until_ms - now.ms)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_json_durations_are_whole_milliseconds() {
        let (label, client) = (Label::default(), ClientId::from_bits(1));
        let mut holder = HolderView::new(label.clone(), client, Ask::Mutex);
        (holder.held_for, holder.left) = (Duration::from_millis(12), Duration::from_secs(30));
        let waiter = WaiterView::new(label, client, Ask::Mutex, Duration::from_micros(3_999));
        let view = View {
            holders: vec![holder],
            waiters: vec![waiter],
            quarantine_left: Some(Duration::from_millis(7)),
            ..View::default()
        };
        let json = serde_json::to_value(&view).expect("a document");
        assert_eq!(
            (&json["holders"][0]["held_ms"], &json["holders"][0]["left_ms"]),
            (&12.into(), &30_000.into())
        );
        assert_eq!(
            (&json["waiters"][0]["waited_ms"], &json["quarantine_ms"]),
            (&3.into(), &7.into())
        );
        let read: View = serde_json::from_value(json).expect("a view");
        assert_eq!(read.holders, view.holders);
        assert_eq!(read.quarantine_left, view.quarantine_left);
        let idle = serde_json::to_value(View::default()).expect("a document");
        assert!(idle["quarantine_ms"].is_null());
        assert_eq!(serde_json::from_value::<View>(idle).expect("a view"), View::default());
    }
}
