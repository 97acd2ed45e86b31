//! Random lives of a lock that is one node's part of a quorum. What its order promises is for the
//! whole quorum to show; here each step is sound, is said as it is heard, and can be repeated and
//! stored.

use proptest::prelude::*;
use taketurns_core::{
    AcquireRequest, Ask, Ballot, ClientId, Grant, Label, Lock, Now, Owner, Reply, Request, Step,
    Token, WakeEvent, WriteBack, limits,
};

use crate::properties::world::said_and_heard;

/// Which grant is meant.
#[derive(Clone, Debug)]
pub(crate) enum NamedGrant {
    /// The last one of that owner.
    Its,
    Number(u64),
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Pass(u64),
    Acquire {
        owner: u8,
        hint: u64,
        ticket: Option<u64>,
        yields: Option<NamedGrant>,
        waits: bool,
    },
    /// Without a ballot.
    Plain {
        owner: u8,
        waits: bool,
    },
    WriteBack {
        owner: u8,
        meant: NamedGrant,
        ahead: u64,
    },
    Release {
        owner: u8,
    },
    Refresh {
        client: u8,
    },
    Break {
        at_once: bool,
    },
    Reload,
}

fn meant() -> impl Strategy<Value = NamedGrant> {
    prop_oneof![5 => Just(NamedGrant::Its), 1 => prop_oneof![0..9_u64, Just(u64::MAX)].prop_map(NamedGrant::Number)]
}

fn op() -> impl Strategy<Value = Op> {
    let owner = || 0..8_u8;
    // Few, so that they meet; and where there is no room for more.
    let number = || prop_oneof![9 => 0..12_u64, 1 => limits::TOKEN_MAX - 1..limits::TOKEN_MAX + 2, 1 => Just(u64::MAX)];
    prop_oneof![
        3 => prop_oneof![0..300_u64, 300..4_000_u64].prop_map(Op::Pass),
        12 => (owner(), number(), prop::option::of(number()), prop::option::of(meant()), prop::bool::weighted(0.9))
            .prop_map(|(owner, hint, ticket, yields, waits)| Op::Acquire { owner, hint, ticket, yields, waits }),
        1 => (owner(), any::<bool>()).prop_map(|(owner, waits)| Op::Plain { owner, waits }),
        4 => (owner(), meant(), 0..40_u64)
            .prop_map(|(owner, meant, ahead)| Op::WriteBack { owner, meant, ahead }),
        4 => owner().prop_map(|owner| Op::Release { owner }),
        3 => (0..3_u8).prop_map(|client| Op::Refresh { client }),
        1 => any::<bool>().prop_map(|at_once| Op::Break { at_once }),
        1 => Just(Op::Reload),
    ]
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..200)
}

pub(crate) struct Node {
    lock: Lock,
    /// The same lock elsewhere.
    replica: Lock,
    now: Now,
    /// The number of each owner's last vote.
    votes: [u64; 8],
}

impl Node {
    pub(crate) fn new() -> Self {
        let now = Now { ms: 1_000, wall_us: 1_000_000 };
        Self { lock: Lock::new(), replica: Lock::new(), now, votes: [0; 8] }
    }

    pub(crate) fn act(&mut self, op: &Op) {
        match *op {
            Op::Pass(ms) => {
                self.now.ms += ms;
                self.now.wall_us += ms * 1_000;
            }
            Op::Acquire { owner, hint, ticket, ref yields, waits } => {
                let yields = yields.as_ref().map(|meant| self.number(owner, meant));
                self.acquire(owner, Some(Ballot { hint, ticket, yields }), waits);
            }
            Op::Plain { owner, waits } => self.acquire(owner, None, waits),
            Op::WriteBack { owner, ref meant, ahead } => {
                let number = self.number(owner, meant);
                let token = self.lock.last_token().map_or(0, Token::raw) + ahead;
                let write_back = Some(WriteBack { number, token });
                let request = Request::Renew {
                    owner: id(owner),
                    client: client(owner),
                    lease_ms: 2_000,
                    write_back,
                };
                self.apply(&request);
            }
            Op::Release { owner } => {
                self.apply(&Request::Release {
                    owner: id(owner),
                    bury_until_ms: 0,
                    last_used: None,
                });
            }
            Op::Refresh { client } => {
                let client = self::client(client);
                self.apply(&Request::Refresh { client, waiter_lease_ms: 700 });
            }
            Op::Break { at_once } => drop(self.apply(&Request::Break { token: None, at_once })),
            Op::Reload => self.lock = Lock::restore(self.lock.snapshot()).expect("a sound lock"),
        }
    }

    fn acquire(&mut self, owner: u8, ballot: Option<Ballot>, waits: bool) {
        let acquire = AcquireRequest {
            owner: id(owner),
            client: client(owner),
            ask: Ask::Mutex,
            at_least_ms: 0,
            lease_ms: 1_500,
            waiter_lease_ms: waits.then_some(700),
            not_after_ms: self.now.ms + 1,
            ballot,
            label: Label::default(),
        };
        let step = self.apply(&Request::Acquire(acquire));
        if let Reply::Granted(grant) = &step.reply {
            self.granted(id(owner), grant);
        }
    }

    fn number(&self, owner: u8, meant: &NamedGrant) -> u64 {
        match meant {
            NamedGrant::Its => self.votes[usize::from(owner)],
            NamedGrant::Number(number) => *number,
        }
    }

    fn granted(&mut self, owner: Owner, grant: &Grant) {
        let number = grant.vote.map_or(0, |vote| vote.number);
        self.votes[owner.expose() as usize] = number;
    }

    fn apply(&mut self, request: &Request) -> Step {
        let seen_ms = self.lock.seen_ms();
        let step = self.lock.apply(self.now, request);
        self.lock.audit().expect("a sound lock");
        said_and_heard(self.now, request, &step);
        if step.changed {
            self.replica.see(seen_ms);
            assert_eq!(
                self.replica.apply(self.now, request),
                step,
                "a repeated step does the same"
            );
            assert_eq!(self.replica, self.lock, "and leaves the same");
        }
        for wake in &step.wakes {
            match &wake.event {
                WakeEvent::Granted(grant) => self.granted(wake.owner, grant),
                WakeEvent::Inquired { number } => {
                    assert_eq!(self.votes[wake.owner.expose() as usize], *number, "its own grant");
                }
                _ => {}
            }
        }
        step
    }
}

fn id(owner: u8) -> Owner {
    Owner::from_bits(owner.into())
}

fn client(owner: u8) -> ClientId {
    ClientId::from_bits(u64::from(owner % 3))
}
