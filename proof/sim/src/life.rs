//! What clients do: they want locks, hold them, write under them, and let go, in all the ways there
//! are. These are real clients; only the machine under them is made up.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taketurns::simulation::{Machine, sleep};
use taketurns::{Acquire, Attempt, Begun, Connect, Error, Guard, Handle, Keep, Locks, Once};
use taketurns_history::{EventKind, HistoryAsk, HistoryEvent, HistoryLock, LockKind};
use tokio::sync::oneshot;

use crate::dice::SimDice;
use crate::machine::{Host, Time, lock};
use crate::plan::{Keepers, SimPlan};
use crate::resource::Resource;

/// Members that every pool has.
pub(crate) const MEMBERS: [&str; 2] = ["a", "b"];

/// What everybody notes.
pub(crate) struct SimLog {
    time: Arc<Time>,
    events: Mutex<Vec<HistoryEvent>>,
    ops: AtomicU64,
}

impl SimLog {
    pub(crate) fn new(time: Arc<Time>) -> Arc<Self> {
        Arc::new(Self { time, events: Mutex::default(), ops: AtomicU64::new(0) })
    }

    pub(crate) fn note(&self, what: EventKind) {
        let at_us = self.time.now_us();
        lock(&self.events).push(HistoryEvent { at_us, what });
    }

    pub(crate) fn take(&self) -> Vec<HistoryEvent> {
        std::mem::take(&mut lock(&self.events))
    }
}

/// One client.
#[derive(Clone)]
pub(crate) struct SimClient {
    pub(crate) host: Arc<Host>,
    pub(crate) plan: Arc<SimPlan>,
    pub(crate) log: Arc<SimLog>,
    pub(crate) resource: Arc<Resource>,
}

impl SimClient {
    /// All of it, from connecting to closing.
    pub(crate) async fn live(self, mut dice: SimDice) {
        let locks = self.connect().await;
        let (ended, mut all) = tokio::sync::mpsc::unbounded_channel::<()>();
        for _ in 0..self.plan.tasks {
            let (life, locks, dice, ended) =
                (self.clone(), locks.clone(), dice.apart(), ended.clone());
            self.host.spawn(Box::pin(async move {
                life.take_turns(locks, dice).await;
                drop(ended);
            }));
        }
        drop(ended);
        while all.recv().await.is_some() {}
        locks.close().await;
    }

    async fn connect(&self) -> Locks {
        let url = match self.plan.keepers {
            Keepers::Single | Keepers::Pair => "simulated:0".to_owned(),
            Keepers::Quorum(nodes) => {
                let nodes: Vec<String> =
                    (0..nodes).map(|node| format!("simulated:{node}")).collect();
                format!("quorum:{}", nodes.join(","))
            }
        };
        loop {
            let waiter_lease = Duration::from_millis(self.plan.waiter_lease_ms);
            let connect = Connect::new(&url).who("sim").waiter_lease(waiter_lease);
            if let Ok(locks) = connect.open().await
                && self.add_members(&locks).await.is_ok()
            {
                return locks;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn add_members(&self, locks: &Locks) -> Result<(), Error> {
        for HistoryLock { name, kind } in &self.plan.locks {
            if *kind == LockKind::Pool {
                for member in MEMBERS {
                    locks.pool(name).add(member).await?;
                }
            }
        }
        Ok(())
    }

    async fn take_turns(&self, locks: Locks, mut dice: SimDice) {
        for _ in 0..self.plan.turns {
            sleep(Duration::from_micros(dice.between(0, 1_000 * self.plan.gap_ms_max))).await;
            self.take_turn(&locks, &mut dice).await;
        }
    }

    async fn take_turn(&self, locks: &Locks, dice: &mut SimDice) {
        let kept = &self.plan.locks[dice.index(self.plan.locks.len())];
        // It may break the grant of a waiter that has not heard of it yet.
        if dice.chance(self.plan.breaks) {
            self.break_lock(locks, &kept.name).await;
        }
        if kept.kind == LockKind::Once && dice.chance(self.plan.undos) {
            let _ = self.once(locks, kept).undo().await;
        }
        let (mut wish, ask) = self.wish(locks, kept, dice);
        let op = self.log.ops.fetch_add(1, Ordering::Relaxed) + 1;
        let lease = Duration::from_millis(dice.between(100, self.plan.max_lease_ms));
        wish = wish.on(lease, op);
        let keep = match ask {
            HistoryAsk::Mutex if self.plan.keeps > 0 && dice.chance(self.plan.keeps) => {
                Some(Keep::UntilWanted)
            }
            HistoryAsk::Mutex if self.plan.local_turns > 1 && dice.chance(800) => {
                Some(Keep::Turns(self.plan.local_turns))
            }
            _ => None,
        };
        let is_exclusive = matches!(ask, HistoryAsk::Mutex | HistoryAsk::Write);
        if keep.is_none() && is_exclusive && dice.chance(self.plan.at_leasts) {
            wish =
                wish.at_least(Duration::from_millis(dice.between(10, self.plan.at_least_ms_max)));
        }
        if let Some(keep) = keep {
            // Those who share a grant have to agree on the lease.
            wish = wish.kept(Duration::from_millis(self.plan.max_lease_ms), keep);
        }
        // Either while it waits, or while the first messages are under way.
        let [long_us, short_us] = [2_000 * self.plan.waiter_lease_ms, 6 * self.plan.delay_us];
        let most_us = if dice.chance(500) { long_us } else { short_us };
        let after = Duration::from_micros(dice.between(0, most_us));
        let [tries, limits, cancels] = [self.plan.tries, self.plan.limits, self.plan.cancels];
        let roll = dice.between(0, 999);
        let waits = roll >= tries + limits;
        let (client, keeps) = (self.host.number as u32, keep.is_some());
        let (lock, asks) = (kept.name.clone(), ask.clone());
        // Work that was given up is refused to those who would wait as long as it takes.
        let endless = waits && (ask != HistoryAsk::Once || self.plan.attempts == 0);
        self.log.note(EventKind::Asked { op, client, lock, ask: asks, endless, keeps });
        let within = match roll {
            _ if roll < tries => Some(Duration::ZERO),
            _ if roll < tries + limits => Some(after),
            _ => None,
        };
        let dropped = async {
            if waits && dice.chance(cancels) {
                sleep(after).await
            } else {
                std::future::pending().await
            }
        };
        let outcome = tokio::select! {
            biased;
            () = dropped => None,
            outcome = wish.come_true(within) => Some(outcome),
        };
        match outcome {
            None => self.log.note(EventKind::Cancelled { op }),
            Some(Err(error)) => {
                self.log.note(EventKind::Failed { op, error: format!("{:?}", error.kind()) });
            }
            Some(Ok(Obtained::Done)) => self.log.note(EventKind::DoneBefore { op }),
            Some(Ok(Obtained::Guard(guard))) => {
                self.note_grant(op, &guard);
                self.hold(locks, op, &ask, guard, dice).await;
            }
            Some(Ok(Obtained::Attempt(attempt))) => {
                self.note_grant(op, &attempt);
                self.work(locks, op, attempt, dice).await;
            }
        }
    }

    fn note_grant(&self, op: u64, guard: &Guard) {
        let token = guard.token().fenced().map(|token| token.raw());
        let member = guard.member().map(|member| member.as_str().to_owned());
        let until_us = self.until_us(guard);
        self.log.note(EventKind::Granted { op, token, member, until_us });
    }

    fn once(&self, locks: &Locks, kept: &HistoryLock) -> Once {
        let remembered = Duration::from_millis(self.plan.remember_ms);
        let once = locks.once(&kept.name).remember_for(remembered);
        let once = once.pause(Duration::from_millis(self.plan.pause_ms));
        match self.plan.attempts {
            0 => once,
            attempts => once.attempts(attempts),
        }
    }

    fn wish(&self, locks: &Locks, kept: &HistoryLock, dice: &mut SimDice) -> (Wish, HistoryAsk) {
        if kept.kind == LockKind::Once {
            return (Wish::Once(self.once(locks, kept)), HistoryAsk::Once);
        }
        let (acquire, ask) = asked(locks, kept, dice);
        (Wish::Acquire(acquire), ask)
    }

    /// The true time at which a guard's own clock says that it is over.
    fn until_us(&self, guard: &Guard) -> u64 {
        self.host.true_us(self.host.now_us() + guard.left().as_micros() as u64)
    }

    async fn hold(
        &self,
        locks: &Locks,
        op: u64,
        ask: &HistoryAsk,
        guard: Guard,
        dice: &mut SimDice,
    ) {
        let mut told = self.watch(op, &guard);
        let mut guard = guard;
        if dice.chance(self.plan.handles) {
            // Until it is a guard again nobody asks it.
            guard = match self.carry(locks, op, guard).await {
                Ok(guard) => guard,
                Err(_) => return self.log.note(EventKind::Releases { op }),
            };
            told = self.watch(op, &guard);
        }
        let is_alone = !matches!(ask, HistoryAsk::Read | HistoryAsk::Permits(_));
        self.use_lock(locks, op, &guard, is_alone, dice).await;
        self.log.note(EventKind::Releases { op });
        drop(told);
        if dice.chance(self.plan.drops) {
            return drop(guard);
        }
        let released = guard.release().await;
        let error = released.err().map(|error| format!("{:?}", error.kind()));
        self.log.note(EventKind::Released { op, error });
    }

    /// An attempt at the work of a once.
    async fn work(&self, locks: &Locks, op: u64, attempt: Attempt, dice: &mut SimDice) {
        let told = self.watch(op, &attempt);
        self.use_lock(locks, op, &attempt, true, dice).await;
        self.log.note(EventKind::Releases { op });
        drop(told);
        let said =
            |ended: Result<(), Error>| ended.err().map(|error| format!("{:?}", error.kind()));
        if dice.chance(self.plan.fails) {
            if dice.chance(self.plan.drops) {
                return drop(attempt);
            }
            let error = said(attempt.fail().await);
            self.log.note(EventKind::Released { op, error });
        } else {
            let error = said(attempt.done().await);
            self.log.note(EventKind::Finished { op, error });
        }
    }

    /// What is done under a lock: time passes, the guard is asked, and something is written.
    async fn use_lock(
        &self,
        locks: &Locks,
        op: u64,
        guard: &Guard,
        is_alone: bool,
        dice: &mut SimDice,
    ) {
        let resource = format!("{}/{}", guard.name(), guard.member().map_or("", |m| m.as_str()));
        let read = guard
            .check()
            .ok()
            .filter(|_| is_alone)
            .map(|token| self.resource.read(&resource, token));
        let end_us = self.host.now_us() + 1_000 * dice.between(0, self.plan.hold_ms_max);
        // Such a holder hears of a loss from its guard's clock alone.
        let only_checks = dice.chance(250);
        loop {
            let left = Duration::from_micros(end_us.saturating_sub(self.host.now_us()));
            let pause = Duration::from_micros(dice.between(0, 300_000)).min(left);
            tokio::select! {
                biased;
                _ = guard.lost(), if !only_checks => break,
                () = sleep(pause) => {}
            }
            let until_us = guard.check().ok().map(|_| self.until_us(guard));
            self.log.note(EventKind::Checked { op, until_us });
            if until_us.is_none() || left.is_zero() {
                break;
            }
            if dice.chance(self.plan.breaks) {
                self.break_lock(locks, guard.name().as_str()).await;
            }
            if dice.chance(self.plan.breaks_now) {
                // Noted by the node: the request may be long under way, and nobody hear of it.
                let _ = locks.break_lock(guard.name().as_str()).at_once().await;
            }
        }
        self.ask_again(op, guard, dice).await;
        if let (Some(Ok(read)), Ok(token)) = (read, guard.check()) {
            let written = self.resource.send(op, &resource, token, read, dice);
            // A client that loses the lock while it writes does not know the outcome of the write.
            tokio::select! {
                biased;
                _ = written => {}
                _ = guard.lost() => {}
            }
        }
    }

    async fn break_lock(&self, locks: &Locks, lock: &str) {
        let asked_us = self.host.time.now_us();
        let broken = locks.break_lock(lock).await;
        if broken.is_ok_and(|broken| broken > 0) {
            self.log.note(EventKind::Broken { lock: lock.to_owned(), asked_us });
        }
    }

    /// A client that lost the lock now and then asks once more, to see that lost is final.
    async fn ask_again(&self, op: u64, guard: &Guard, dice: &mut SimDice) {
        if guard.is_held() || dice.chance(500) {
            return;
        }
        self.log.note(EventKind::Checked { op, until_us: None });
        sleep(Duration::from_micros(dice.between(0, 300_000))).await;
        let until_us = guard.check().ok().map(|_| self.until_us(guard));
        self.log.note(EventKind::Checked { op, until_us });
    }

    /// Notes when the guard says that it is lost, whatever its holder is about. Until the answer is
    /// dropped.
    fn watch(&self, op: u64, guard: &Guard) -> oneshot::Sender<Infallible> {
        let (watching, over) = oneshot::channel();
        let (lost, log) = (guard.lost(), self.log.clone());
        self.host.spawn_witness(Box::pin(async move {
            tokio::select! {
                biased;
                cause = lost => log.note(EventKind::Lost { op, cause: format!("{cause:?}") }),
                _ = over => {}
            }
        }));
        watching
    }

    async fn carry(&self, locks: &Locks, op: u64, guard: Guard) -> Result<Guard, Error> {
        let handle = guard.into_handle().await?;
        let text = handle.expose();
        let adopted = locks.adopt(handle).await;
        if adopted.is_err() {
            // Nobody else has it, and it would go on until its lease is over.
            self.log.note(EventKind::Releases { op });
            let _ = locks.release(&Handle::parse(&text)?).await;
        }
        adopted
    }
}

fn asked(locks: &Locks, kept: &HistoryLock, dice: &mut SimDice) -> (Acquire, HistoryAsk) {
    let HistoryLock { name, kind } = kept;
    match kind {
        LockKind::Mutex => (locks.mutex(name).acquire(), HistoryAsk::Mutex),
        LockKind::Rwlock if dice.chance(600) => (locks.rwlock(name).read(), HistoryAsk::Read),
        LockKind::Rwlock => (locks.rwlock(name).write(), HistoryAsk::Write),
        LockKind::Semaphore(permits) => {
            let take = dice.between(1, u64::from(*permits)) as u32;
            (locks.semaphore(name, *permits).acquire_many(take), HistoryAsk::Permits(take))
        }
        LockKind::Pool if dice.chance(500) => (locks.pool(name).any(), HistoryAsk::Any),
        LockKind::Pool => {
            let member = MEMBERS[dice.index(MEMBERS.len())];
            (locks.pool(name).member(member), HistoryAsk::Member(member.to_owned()))
        }
        LockKind::Once => unreachable!("a once is no acquire"),
    }
}

/// What a client wants.
enum Wish {
    Acquire(Acquire),
    Once(Once),
}

/// What a client has got.
enum Obtained {
    Guard(Guard),
    Attempt(Attempt),
    /// The work is done already.
    Done,
}

impl Wish {
    fn on(self, lease: Duration, op: u64) -> Self {
        match self {
            Self::Acquire(acquire) => Self::Acquire(acquire.lease(lease).why(op.to_string())),
            Self::Once(once) => Self::Once(once.lease(lease).why(op.to_string())),
        }
    }

    fn at_least(self, at_least: Duration) -> Self {
        match self {
            Self::Acquire(acquire) => Self::Acquire(acquire.at_least(at_least)),
            once => once,
        }
    }

    fn kept(self, lease: Duration, keep: Keep) -> Self {
        match self {
            Self::Acquire(acquire) => Self::Acquire(acquire.lease(lease).keep(keep)),
            once => once,
        }
    }

    async fn come_true(self, within: Option<Duration>) -> Result<Obtained, Error> {
        match self {
            Self::Acquire(acquire) => {
                let acquire = match within {
                    Some(within) => acquire.within(within),
                    None => acquire,
                };
                acquire.await.map(Obtained::Guard)
            }
            Self::Once(once) => {
                let once = match within {
                    Some(within) => once.within(within),
                    None => once,
                };
                Ok(match once.begin().await? {
                    Begun::Attempt(attempt) => Obtained::Attempt(attempt),
                    Begun::DoneBefore(_) => Obtained::Done,
                })
            }
        }
    }
}
