//! What can happen to a lock and to its clients. Small numbers that the world resolves against what
//! there is, so that a life stays meaningful while it is shrunk.

use proptest::prelude::*;
use taketurns_core::{Ask, Kind, Member};

/// How many clients there are.
pub(crate) const CLIENTS: usize = 4;
/// How many members a pool may have.
const MEMBERS: usize = 3;
/// No lease in these lives is longer.
pub(crate) const LEASE_MS_MAX: u64 = 5_000;

/// One thing that happens. An `at` picks one of those there are.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Time passes.
    Pass(u64),
    /// The clock is set back.
    SetBack(u64),
    /// A client asks. `under_way`: the request is not delivered yet.
    Acquire { client: usize, want: WantedLock, lease_ms: u64, waits: bool, under_way: bool },
    /// A copy of a request gets under way: a retry, or old bytes.
    Double { at: usize },
    /// A request that was under way is delivered, however late.
    Deliver { at: usize },
    /// A client gives up what it asked for, whatever has become of it.
    Release { at: usize },
    /// A client refreshes its places.
    Refresh { client: usize, reply_lost: bool },
    /// A client renews what it knows that it holds.
    Renew { at: usize, lease_ms: u64 },
    /// Somebody breaks one holder, or all.
    Break { at: Option<usize>, at_once: bool },
    /// A client dies, and a new one takes its number.
    Die { client: usize, noticed: bool },
    /// The semaphore gets another size.
    Resize(u32),
    /// A member is added to the pool.
    Add(Member),
    /// A member is removed from the pool.
    Remove(Member),
    /// Somebody takes the lock for another kind.
    Mistake,
    /// Wake-ups are lost from now on, or no longer.
    LoseWakes(bool),
    /// The lock is stored and read back.
    Reload,
    /// Old bytes: a refresh, renewal or release is delivered once more, and nobody hears the answer.
    Replay { at: usize },
    /// Nothing but time.
    Tick,
}

/// What a client asks for; how many permits there are is known when it asks.
#[derive(Clone, Debug)]
pub(crate) enum WantedLock {
    This(Ask),
    Permits(u32),
}

pub(crate) fn members() -> impl Iterator<Item = Member> {
    (0..MEMBERS).map(|n| Member::new(&format!("m{n}")).expect("a name"))
}

pub(crate) fn ops(kind: Kind) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(kind), 1..80)
}

fn op(kind: Kind) -> BoxedStrategy<Op> {
    let at = || 0..16_usize;
    let client = || 0..CLIENTS;
    let lease = || prop::sample::select(vec![10, 300, 1_000, LEASE_MS_MAX]);
    let common = prop_oneof![
        6 => prop_oneof![0..150_u64, 150..1_000_u64, 1_000..8_000_u64].prop_map(Op::Pass),
        1 => prop_oneof![1..50_u64, 50..20_000_u64].prop_map(Op::SetBack),
        12 => (client(), want(kind), lease(), any::<bool>(), prop::bool::weighted(0.2)).prop_map(
            |(client, want, lease_ms, impatient, under_way)| Op::Acquire {
                client, want, lease_ms, waits: !impatient, under_way
            }
        ),
        2 => at().prop_map(|at| Op::Double { at }),
        4 => at().prop_map(|at| Op::Deliver { at }),
        8 => at().prop_map(|at| Op::Release { at }),
        6 => (client(), prop::bool::weighted(0.2))
            .prop_map(|(client, reply_lost)| Op::Refresh { client, reply_lost }),
        4 => (at(), lease()).prop_map(|(at, lease_ms)| Op::Renew { at, lease_ms }),
        1 => (prop::option::of(at()), any::<bool>())
            .prop_map(|(at, at_once)| Op::Break { at, at_once }),
        1 => (client(), any::<bool>()).prop_map(|(client, noticed)| Op::Die { client, noticed }),
        1 => Just(Op::Mistake),
        1 => any::<bool>().prop_map(Op::LoseWakes),
        1 => Just(Op::Reload),
        2 => (0..64_usize).prop_map(|at| Op::Replay { at }),
        2 => Just(Op::Tick),
    ];
    let member = prop::sample::select(members().collect::<Vec<_>>());
    match kind {
        Kind::Pool => prop_oneof![
            10 => common,
            2 => member.clone().prop_map(Op::Add),
            1 => member.prop_map(Op::Remove),
        ]
        .boxed(),
        Kind::Semaphore { .. } => prop_oneof![
            20 => common,
            1 => (1..6_u32).prop_map(Op::Resize),
        ]
        .boxed(),
        _ => common.boxed(),
    }
}

fn want(kind: Kind) -> BoxedStrategy<WantedLock> {
    let member = prop::sample::select(members().collect::<Vec<_>>());
    match kind {
        Kind::Mutex => prop_oneof![
            4 => Just(WantedLock::This(Ask::Mutex)),
            1 => prop_oneof![1..9_u32, Just(10_000)]
                .prop_map(|tokens| WantedLock::This(Ask::Turns { tokens })),
            2 => prop_oneof![1..9_u32, Just(10_000)]
                .prop_map(|tokens| WantedLock::This(Ask::Stay { tokens })),
        ]
        .boxed(),
        Kind::RwLock => {
            prop_oneof![2 => Just(WantedLock::This(Ask::Read)), 1 => Just(WantedLock::This(Ask::Write))].boxed()
        }
        Kind::Semaphore { .. } => (1..5_u32).prop_map(WantedLock::Permits).boxed(),
        Kind::Pool => prop_oneof![
            Just(WantedLock::This(Ask::Any)),
            member.prop_map(|member| WantedLock::This(Ask::Member(member))),
        ]
        .boxed(),
        Kind::Once => unreachable!("it has properties of its own"),
    }
}
