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

fn work() -> Ask {
    Ask::Once(OnceTerms { keep_ms: 2_000, offset_ms: None, attempts: 3, pause_ms: 0 })
}

fn fail(owner: u64, reply: Result<Reply, String>) -> Request {
    let Ok(
        Reply::Granted(Grant { token: Some(token), .. })
        | Reply::Renewed(Grant { token: Some(token), .. }),
    ) = reply
    else {
        panic!("{owner} is not granted the lock: {reply:?}");
    };
    let owner = Owner::from_bits(owner.into());
    Request::Finish { owner, token, end: AttemptEnd::Failed, bury_until_ms: 0 }
}

/// One attempt has failed. The clock is set back by 600 while the second one works, at 1 500.
fn set_back_in_the_second_attempt() -> Trial {
    let mut trial = Trial::new();
    let first = trial.step(1_000, &acquire(1, work(), 0));
    trial.steps(&[
        (1_100, fail(1, first)),
        (1_200, acquire(2, work(), 0)),
        (1_500, renew(2, 2_000)),
        (900, acquire(3, work(), 0)),
    ]);
    trial
}

/// When the lease of the second attempt ends, the first one would be forgotten if there were no second one. (Seed
/// 92019447.)
#[test]
fn an_attempt_whose_lease_ended_after_the_clock_was_set_back_counts() {
    let mut trial = set_back_in_the_second_attempt();
    // Until 2 900: its whole lease, from the time to which the clock was set.
    let waits = trial.step(2_899, &renew(3, 1_000));
    assert_eq!(waits, Ok(Reply::NotHeld));
    let third = trial.step(3_200, &renew(3, 1_000));
    trial.step(3_300, &fail(3, third)).expect("nothing is wrong");
    let given_up = trial.step(3_400, &acquire(4, work(), 0));
    assert_eq!(given_up, Ok(Reply::Refused(Refusal::Exhausted { failed: 3 })));
    // The third one is the last that there can have been.
    trial.step(5_300, &acquire(5, work(), 0)).expect("all is forgotten");
}

#[test]
fn no_failure_is_unsure_for_longer_than_it_can_be_remembered() {
    let exhausted = Reply::Refused(Refusal::Exhausted { failed: 3 });
    let judged_at = |now_ms| {
        let mut trial = set_back_in_the_second_attempt();
        let asks = acquire(4, work(), 0);
        trial.judge.note(&trial.name, now_ms, &asks, &exhausted, &[])
    };
    // By 3 500 the lease was over, as it was before the clock was set back.
    assert_eq!(judged_at(5_499), Ok(()));
    let found = judged_at(5_500).expect_err("all is forgotten");
    assert_eq!(found, "G8: l was given up after 3 attempts, and 0 failed");
}

#[test]
fn a_clock_that_was_set_back_excuses_no_lock_that_stays_free() {
    let mut trial = Trial::new();
    trial.steps(&[
        (1_000, acquire(1, Ask::Mutex, 0)),
        (1_100, release(1)),
        (900, acquire(2, Ask::Mutex, 0)),
        (1_000, release(2)),
    ]);
    assert!(!trial.bars(2));
}

#[test]
fn a_rest_ends_after_its_time_though_the_clock_is_set_back() {
    let mut trial = Trial::new();
    trial.steps(&[
        (1_000, acquire(1, Ask::Mutex, 500)),
        (1_100, release(1)),
        (800, acquire(2, Ask::Mutex, 0)),
        (1_299, renew(2, 1_000)),
    ]);
    assert!(trial.bars(2));
    assert!(matches!(trial.step(1_300, &renew(2, 1_000)), Ok(Reply::Renewed(_))));
}
