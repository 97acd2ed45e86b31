//! The judge beside a real lock: what it says of steps that the lock made.

use taketurns::ClientId;
use taketurns::engine::Now;
use taketurns_core::{Label, Lock};

use super::*;

/// One lock, and the judge of its node.
struct Trial {
    lock: Lock,
    judge: TermsJudge,
    name: Name,
}

/// Owners are clients of their own.
fn acquire(owner: u64, ask: Ask, at_least_ms: u64) -> Request {
    Request::Acquire(AcquireRequest {
        owner: Owner::from_bits(owner.into()),
        client: ClientId::from_bits(owner),
        ask,
        at_least_ms,
        lease_ms: 1_000,
        waiter_lease_ms: Some(10_000),
        not_after_ms: 1_000_000,
        ballot: None,
        label: Label::new("sim", "1").expect("a label"),
    })
}

fn renew(owner: u64, lease_ms: u64) -> Request {
    let (owner, client) = (Owner::from_bits(owner.into()), ClientId::from_bits(owner));
    Request::Renew { owner, client, lease_ms, write_back: None }
}

fn release(owner: u64) -> Request {
    let owner = Owner::from_bits(owner.into());
    Request::Release { owner, bury_until_ms: 0, last_used: None }
}

const BREAK: Request = Request::Break { token: None, at_once: true };

impl Trial {
    fn new() -> Self {
        let name = Name::new("l").expect("a name");
        Self { lock: Lock::new(), judge: TermsJudge::default(), name }
    }

    /// Lets the lock make a step, and returns its reply if the judge finds nothing wrong.
    fn step(&mut self, now_ms: u64, request: &Request) -> Result<Reply, String> {
        let step = self.lock.apply(Now { ms: now_ms, wall_us: now_ms * 1_000 }, request);
        self.judge.note(&self.name, now_ms, request, &step.reply, &step.wakes)?;
        Ok(step.reply)
    }

    fn steps(&mut self, steps: &[(u64, Request)]) {
        for (now_ms, request) in steps {
            self.step(*now_ms, request).expect("nothing is wrong");
        }
    }

    /// Does this owner wait for a reason, though nobody holds the lock?
    fn bars(&self, owner: u64) -> bool {
        self.judge.bars(&self.name, Owner::from_bits(owner.into()))
    }
}

/// The one that was broken was a holder whose rest the judge does not follow: one that keeps the lock, or a reader.
/// (Seed 91010227.)
#[test]
fn a_break_leaves_the_next_holder_its_rest() {
    for (broken, next) in
        [(Ask::Stay { tokens: 1 }, Ask::Mutex), (Ask::Mutex, Ask::Mutex), (Ask::Read, Ask::Write)]
    {
        let mut trial = Trial::new();
        trial.steps(&[
            (100, acquire(1, broken.clone(), 0)),
            (110, acquire(2, next.clone(), 500)),
            (120, BREAK),
            (130, renew(2, 1_000)),
            (140, release(2)),
        ]);
        let waits = trial.step(150, &acquire(3, next, 0));
        assert!(matches!(waits, Ok(Reply::Queued(_))), "after {broken:?}: {waits:?}");
        assert!(trial.bars(3), "after {broken:?}");
    }
}

/// The lease of the first one was over. So the step granted the second one the lock, and then broke it.
#[test]
fn a_break_ends_the_rest_of_a_holder_whom_the_same_step_granted_the_lock() {
    let mut trial = Trial::new();
    trial.steps(&[
        (100, acquire(1, Ask::Mutex, 0)),
        (110, acquire(2, Ask::Mutex, 5_000)),
        (1_200, Request::Break { token: None, at_once: false }),
        (1_210, release(2)),
    ]);
    assert!(!trial.bars(2));
    let free = trial.step(1_220, &acquire(3, Ask::Mutex, 0));
    assert!(matches!(free, Ok(Reply::Granted(_))), "{free:?}");
}
