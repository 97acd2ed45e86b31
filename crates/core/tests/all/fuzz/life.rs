//! Locks and requests as they may be, drawn.

use taketurns_core::{
    AcquireRequest, Ask, AttemptEnd, Ballot, ClientId, Label, Lock, Member, Note, Now, OnceTerms,
    Owner, Request, Token, WriteBack,
};
use taketurns_servers::fuzz::Dice;

/// When lives begin. Far enough from zero that a clock can be set back.
pub(crate) const START: Now = Now { ms: 1_000_000, wall_us: 1_790_000_000_000_000 };

const MEMBERS: [&str; 3] = ["a", "b-2", "ü c"];

/// How many kinds there are: those of core, and a mutex with a ballot.
pub(crate) const KINDS: usize = 6;

/// A random request to a lock of one of these kinds.
pub(crate) fn request(dice: &mut Dice, kind: usize) -> Request {
    let (owner, client) = (owner(dice), client(dice));
    // Sometimes it is taken for another kind.
    let kind = if dice.percent(3) { dice.below(KINDS) } else { kind };
    match dice.below(20) {
        0..9 => Request::Acquire(AcquireRequest {
            owner,
            client,
            ask: ask(dice, kind),
            at_least_ms: *dice.pick(&[&0, &0, &0, &700]),
            lease_ms: *dice.pick(&[&10, &300, &5_000, &86_400_000]),
            waiter_lease_ms: *dice.pick(&[&None, &Some(300), &Some(3_000)]),
            not_after_ms: *dice.pick(&[&u64::MAX, &u64::MAX, &(START.ms + 500)]),
            ballot: (kind == 4).then(|| ballot(dice)),
            label: Label::new("who", dice.pick(&["", "why"])).expect("a label"),
        }),
        9..12 => {
            let used = |dice: &mut Dice| Token::from_raw(START.wall_us + dice.any() % 10);
            let last_used = dice.percent(30).then(|| used(dice));
            let bury_until_ms = *dice.pick(&[&0, &0, &(START.ms + 2_000)]);
            Request::Release { owner, bury_until_ms, last_used }
        }
        12..14 => {
            let number = START.wall_us + dice.any() % 10;
            let write_back = dice.percent(20).then(|| WriteBack { number, token: number + 1 });
            Request::Renew { owner, client, lease_ms: 1_000, write_back }
        }
        14..16 => Request::Refresh { client, waiter_lease_ms: 3_000 },
        16 => {
            let token = dice.percent(50).then(|| Token::from_raw(START.wall_us + dice.any() % 10));
            Request::Break { token, at_once: dice.percent(50) }
        }
        17 | 18 if kind == 5 => Request::Finish {
            owner,
            token: Token::from_raw(START.wall_us + dice.any() % 10),
            end: match dice.below(2) {
                0 => AttemptEnd::Failed,
                _ => AttemptEnd::Done(Note::new(dice.pick(&["", "3 tables"])).expect("a note")),
            },
            bury_until_ms: *dice.pick(&[&0, &0, &(START.ms + 2_000)]),
        },
        19 if kind == 5 => Request::Undo,
        18 if kind == 2 => Request::Resize { permits: dice.below(5) as u32 },
        17 => Request::ClientGone { client },
        18 if kind == 3 => Request::PoolRemove { member: member(dice) },
        19 if kind == 3 => Request::PoolAdd { member: member(dice) },
        _ => Request::Tick,
    }
}

fn owner(dice: &mut Dice) -> Owner {
    Owner::from_bits(dice.below(12) as u128 + 1)
}

fn client(dice: &mut Dice) -> ClientId {
    let bits = dice.below(4) as u64;
    match dice.below(8) {
        0 => ClientId::of_connection(bits, dice.percent(50)),
        1 => ClientId::of_caller(bits),
        _ => ClientId::of_program(bits),
    }
}

fn member(dice: &mut Dice) -> Member {
    Member::new(dice.pick(&MEMBERS)).expect("a name")
}

fn ask(dice: &mut Dice, kind: usize) -> Ask {
    match kind {
        1 if dice.percent(60) => Ask::Read,
        1 => Ask::Write,
        2 => Ask::Permits { take: dice.below(3) as u32 + 1, of: 3 },
        3 if dice.percent(50) => Ask::Any,
        3 => Ask::Member(member(dice)),
        5 => Ask::Once(OnceTerms {
            keep_ms: *dice.pick(&[&1_000, &60_000, &86_400_000]),
            offset_ms: dice.percent(30).then_some(500),
            attempts: dice.below(3) as u32,
            pause_ms: *dice.pick(&[&0, &0, &2_000]),
        }),
        _ if dice.percent(20) => Ask::Turns { tokens: *dice.pick(&[&1, &3, &9, &10_000]) },
        _ if dice.percent(20) => Ask::Stay { tokens: *dice.pick(&[&1, &3, &9, &10_000]) },
        _ => Ask::Mutex,
    }
}

fn ballot(dice: &mut Dice) -> Ballot {
    let mut number = || dice.any() % 20 + 1;
    let hint = START.wall_us + number();
    let (ticket, yields) = (number(), number());
    Ballot {
        hint,
        ticket: dice.percent(30).then_some(hint + ticket),
        yields: dice.percent(10).then_some(START.wall_us + yields),
    }
}

/// Lets things happen to a lock, in order and in time.
pub(crate) fn go_on(dice: &mut Dice, lock: &mut Lock, now: &mut Now, kind: usize, steps: usize) {
    for _ in 0..steps {
        let request = request(dice, kind);
        lock.apply(*now, &request);
        if let Err(corrupt) = lock.audit() {
            panic!("{corrupt} after {request:?}");
        }
        match dice.below(10) {
            0 => now.ms = now.ms.saturating_sub(300),
            at => now.ms += [0, 0, 0, 1, 20, 100, 300, 1_000, 4_000, 9_000][at],
        }
        // Sometimes the wall clock goes on with the other one, so that what a once remembers is forgotten.
        now.wall_us += if kind == 5 { *dice.pick(&[&1, &1, &2_000_000]) } else { 1 };
    }
}

/// A lock that has seen something, and the time that it is.
pub(crate) fn lived(dice: &mut Dice, kind: usize) -> (Lock, Now) {
    let (mut lock, mut now) = (Lock::new(), START);
    if kind == 3 {
        lock.apply(now, &Request::PoolAdd { member: member(dice) });
    }
    let steps = dice.below(30);
    go_on(dice, &mut lock, &mut now, kind, steps);
    if dice.percent(10) {
        lock.quarantine(now.ms + 5_000);
    }
    (lock, now)
}
