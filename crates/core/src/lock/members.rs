//! The members of a pool: which are free, since when, and which have yet to be offered to waiters.
//!
//! ```text
//!   add, release: at the end                                  taken by a newcomer: the first
//!   ───────────► 7 6 5 │ 3 1 ──────────────────────────────────────────────────────────────► held
//!                 │  ▲ offered so far                                                         ▲
//!                 └──┴─ offered to its line and wanted ───────────────────────────────────────┘
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::lazy_box::StaticDefault;
use crate::Member;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum MemberState {
    /// Nobody has it. The smallest number has been free for longest.
    Free(u64),
    Held {
        /// Removed while held: goes when it is released.
        leaving: bool,
    },
}

/// All members of a pool. Invariant: `free` names exactly the members in state `Free`, by their
/// number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Members {
    all: BTreeMap<Member, MemberState>,
    free: BTreeMap<u64, Member>,
    next_free: u64,
    /// Members with this number or a larger one have yet to be offered to waiters. No waiter wanted
    /// the others.
    offered: u64,
}

impl StaticDefault for Members {
    fn static_default() -> &'static Self {
        static BLANK: Members =
            Members { all: BTreeMap::new(), free: BTreeMap::new(), next_free: 0, offered: 0 };
        &BLANK
    }
}

impl Members {
    /// Rebuilds the members from their states. `None` if two are free since the same moment.
    pub(super) fn restore(
        states: Vec<(Member, MemberState)>,
        next_free: u64,
        offered: u64,
    ) -> Option<Self> {
        let mut members = Self { next_free, offered, ..Self::default() };
        for (member, state) in states {
            if let MemberState::Free(since) = state
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

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Member, MemberState)> {
        self.all.iter().map(|(member, &state)| (member, state))
    }

    pub(super) fn next_free(&self) -> u64 {
        self.next_free
    }

    pub(super) fn offered(&self) -> u64 {
        self.offered
    }

    /// Returns the first member that has yet to be offered.
    pub(super) fn to_offer(&self) -> Option<&Member> {
        self.free.range(self.offered..).next().map(|(_, member)| member)
    }

    /// Records that no waiter wants the first member on offer.
    pub(super) fn not_wanted(&mut self) {
        if let Some((&since, _)) = self.free.range(self.offered..).next() {
            self.offered = since + 1;
        }
    }

    /// Offers all free members again, because a new waiter was not there when they were offered.
    pub(super) fn offer_again(&mut self) {
        self.offered = 0;
    }

    /// Returns whether a newcomer may take it: not before it was offered to the waiters.
    pub(super) fn is_free(&self, member: &Member) -> bool {
        matches!(self.all.get(member), Some(&MemberState::Free(since)) if since < self.offered)
    }

    /// Returns the member free for longest that a newcomer may take.
    pub(super) fn free_longest(&self) -> Option<&Member> {
        self.free.range(..self.offered).next().map(|(_, member)| member)
    }

    /// Adds a member. Returns true if it was not there, or was about to leave.
    pub(super) fn add(&mut self, member: &Member) -> bool {
        match self.all.get_mut(member) {
            None => {
                self.free_again(member);
                true
            }
            Some(MemberState::Held { leaving }) => std::mem::take(leaving),
            Some(MemberState::Free(_)) => false,
        }
    }

    /// Removes a member. Returns true if it was there and not about to leave already.
    pub(super) fn remove(&mut self, member: &Member) -> bool {
        match self.all.get_mut(member) {
            None => false,
            Some(MemberState::Held { leaving }) => !std::mem::replace(leaving, true),
            Some(MemberState::Free(since)) => {
                self.free.remove(since);
                self.all.remove(member);
                true
            }
        }
    }

    pub(super) fn hold(&mut self, member: &Member) {
        let held = MemberState::Held { leaving: false };
        if let Some(MemberState::Free(since)) = self.all.insert(member.clone(), held) {
            self.free.remove(&since);
        }
    }

    /// Frees a member after its holder is gone.
    pub(super) fn give_back(&mut self, member: &Member) {
        if matches!(self.all.get(member), Some(MemberState::Held { leaving: true })) {
            self.all.remove(member);
        } else {
            self.free_again(member);
        }
    }

    fn free_again(&mut self, member: &Member) {
        self.all.insert(member.clone(), MemberState::Free(self.next_free));
        self.free.insert(self.next_free, member.clone());
        self.next_free += 1;
    }
}
