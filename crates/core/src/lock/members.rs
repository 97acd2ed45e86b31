//! The members of a pool: which are free, since when, and which have yet to be offered.
//!
//! ```text
//!          add, release                 nobody wants it
//!   ─────────────────────► unsettled ─────────────────────► free
//!                              │  offered to its line           │
//!                              └───────────► held ◄─────────────┘ taken by a newcomer
//! ```

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::Member;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum State {
    /// Freed, and not yet offered to those who wait.
    Unsettled,
    /// Offered, wanted by nobody. The number says since when: the smallest is free for longest.
    Free(u64),
    Held {
        /// Removed while held: goes at its release.
        leaving: bool,
    },
}

/// Invariant: `free` and `unsettled` name exactly the members in that state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Members {
    all: BTreeMap<Member, State>,
    free: BTreeMap<u64, Member>,
    unsettled: VecDeque<Member>,
    next_free: u64,
}

impl Members {
    /// Builds them again from their states. `None` if two are free since the same moment.
    pub(super) fn restore(
        states: Vec<(Member, State)>,
        unsettled: VecDeque<Member>,
        next_free: u64,
    ) -> Option<Self> {
        let mut members = Self { unsettled, next_free, ..Self::default() };
        for (member, state) in states {
            if let State::Free(since) = state
                && members.free.insert(since, member.clone()).is_some()
            {
                return None;
            }
            members.all.insert(member, state);
        }
        Some(members)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn contains(&self, member: &Member) -> bool {
        self.all.contains_key(member)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Member, State)> {
        self.all.iter().map(|(member, &state)| (member, state))
    }

    pub(super) fn unsettled(&self) -> &VecDeque<Member> {
        &self.unsettled
    }

    pub(super) fn next_free(&self) -> u64 {
        self.next_free
    }

    pub(super) fn is_free(&self, member: &Member) -> bool {
        matches!(self.all.get(member), Some(State::Free(_)))
    }

    /// The member free for longest.
    pub(super) fn free_longest(&self) -> Option<&Member> {
        self.free.values().next()
    }

    /// True if it was not there, or was about to leave.
    pub(super) fn add(&mut self, member: &Member) -> bool {
        match self.all.get_mut(member) {
            None => {
                self.free_again(member);
                true
            }
            Some(State::Held { leaving }) => std::mem::take(leaving),
            Some(_) => false,
        }
    }

    /// True if it was there, and was not about to leave.
    pub(super) fn remove(&mut self, member: &Member) -> bool {
        match self.all.get_mut(member) {
            None => false,
            Some(State::Held { leaving }) => !std::mem::replace(leaving, true),
            Some(_) => {
                self.take_from_lists(member);
                self.all.remove(member);
                true
            }
        }
    }

    pub(super) fn hold(&mut self, member: &Member) {
        self.take_from_lists(member);
        self.all.insert(member.clone(), State::Held { leaving: false });
    }

    /// Its holder is gone.
    pub(super) fn give_back(&mut self, member: &Member) {
        if matches!(self.all.get(member), Some(State::Held { leaving: true })) {
            self.all.remove(member);
        } else {
            self.free_again(member);
        }
    }

    /// Nobody wants the first of the unsettled: it is free.
    pub(super) fn settle_first(&mut self) {
        if let Some(member) = self.unsettled.pop_front() {
            self.all.insert(member.clone(), State::Free(self.next_free));
            self.free.insert(self.next_free, member);
            self.next_free += 1;
        }
    }

    fn free_again(&mut self, member: &Member) {
        self.all.insert(member.clone(), State::Unsettled);
        self.unsettled.push_back(member.clone());
    }

    fn take_from_lists(&mut self, member: &Member) {
        match self.all.get(member) {
            Some(State::Free(since)) => {
                self.free.remove(since);
            }
            Some(State::Unsettled) => self.unsettled.retain(|other| other != member),
            _ => {}
        }
    }
}
