//! One client's machine: tasks, timers and a clock that runs a little fast or slow.
//!
//! Tasks that are ready run in an order that is drawn, so all interleavings at their await points can
//! come up. Between any two of their steps the machine may be stopped or switched off.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use taketurns::engine::Open;
use taketurns::simulation::{self, Machine, MachineTask};

use crate::dice::SimDice;
use crate::net::{SimNetwork, SimStore};

/// The true time, which nobody in the simulation knows.
#[derive(Debug, Default)]
pub(crate) struct Time(AtomicU64);

impl Time {
    pub(crate) fn now_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, now_us: u64) {
        self.0.store(now_us, Ordering::Relaxed);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time on a clock that drifts by this many millionths.
pub(crate) fn drifted(us: u64, drift: i64) -> u64 {
    us.saturating_add_signed(us as i64 * drift / 1_000_000)
}

/// A machine with one client on it.
pub(crate) struct Host {
    pub(crate) number: usize,
    pub(crate) time: Arc<Time>,
    drift: i64,
    net: Arc<SimNetwork>,
    inner: Mutex<Inner>,
    ready: Arc<ReadyTasks>,
    me: Weak<Host>,
}

struct Inner {
    tasks: Vec<Option<MachineTask>>,
    free: Vec<usize>,
    /// Those of the tasks that are the simulation's own, and note what becomes of a guard.
    witnesses: BTreeSet<usize>,
    timers: BTreeMap<(u64, u64), Waker>,
    timers_made: u64,
    dice: SimDice,
    is_dead: bool,
    paused_until_us: u64,
    /// After a number of steps of its tasks, the machine is stopped for a time, or for good.
    strokes: Vec<(u64, Option<u64>)>,
    steps: u64,
}

/// Which tasks are to be polled. In the order of their numbers: in which order they were woken is not
/// the same in every run, since some of what wakes them draws its own random numbers.
#[derive(Default)]
struct ReadyTasks(Mutex<BTreeSet<usize>>);

struct TaskWaker {
    ready: Arc<ReadyTasks>,
    task: usize,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.ready.0).insert(self.task);
    }
}

/// What a machine did until it had nothing left to do for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    Idle,
    /// It stopped, for that long or for good.
    Stopped(Option<u64>),
}

impl Host {
    pub(crate) fn new(
        number: usize,
        time: Arc<Time>,
        drift: i64,
        net: Arc<SimNetwork>,
        dice: SimDice,
        strokes: Vec<(u64, Option<u64>)>,
    ) -> Arc<Self> {
        let inner = Mutex::new(Inner {
            tasks: Vec::new(),
            free: Vec::new(),
            witnesses: BTreeSet::new(),
            timers: BTreeMap::new(),
            timers_made: 0,
            dice,
            is_dead: false,
            paused_until_us: 0,
            strokes,
            steps: 0,
        });
        let ready = Arc::default();
        Arc::new_cyclic(|me| Self { number, time, drift, net, inner, ready, me: me.clone() })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// The true time, or a little later, at which its clock shows this.
    pub(crate) fn true_us(&self, local_us: u64) -> u64 {
        let mut at_us = drifted(local_us, -self.drift);
        while drifted(at_us, self.drift) < local_us {
            at_us += (local_us - drifted(at_us, self.drift)).max(1);
        }
        at_us
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.inner().is_dead
    }

    pub(crate) fn paused_until_us(&self) -> u64 {
        self.inner().paused_until_us
    }

    pub(crate) fn pause(&self, until_us: u64) {
        let mut inner = self.inner();
        inner.paused_until_us = inner.paused_until_us.max(until_us);
    }

    /// Nothing goes wrong with it any more.
    pub(crate) fn calm(&self) {
        let mut inner = self.inner();
        inner.strokes.clear();
        inner.paused_until_us = 0;
    }

    /// Runs a task of the simulation's own, which is asked once more when the machine is switched off.
    pub(crate) fn spawn_witness(&self, task: MachineTask) {
        if let Some(number) = self.add(task) {
            self.inner().witnesses.insert(number);
        }
    }

    /// The machine is about to be switched off: the witnesses note what has become of guards by now, for what is
    /// lost may have been given back already.
    pub(crate) fn ask_witnesses(self: &Arc<Self>) {
        let _here = simulation::enter(self.clone());
        let witnesses = std::mem::take(&mut self.inner().witnesses);
        for number in witnesses {
            let task = self.inner().tasks[number].take();
            if let Some(mut task) = task {
                let _ = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
        }
    }

    fn add(&self, task: MachineTask) -> Option<usize> {
        let mut inner = self.inner();
        if inner.is_dead {
            // Dropped once the lock is free: a task may have something to say when it goes.
            drop(inner);
            drop(task);
            return None;
        }
        let number = inner.free.pop().unwrap_or(inner.tasks.len());
        if number == inner.tasks.len() {
            inner.tasks.push(None);
        }
        inner.tasks[number] = Some(task);
        drop(inner);
        lock(&self.ready.0).insert(number);
        Some(number)
    }

    /// Everything on it is gone, without a word to anybody.
    pub(crate) fn die(self: &Arc<Self>) {
        let mut inner = self.inner();
        inner.is_dead = true;
        let tasks = std::mem::take(&mut inner.tasks);
        let timers = std::mem::take(&mut inner.timers);
        drop(inner);
        lock(&self.ready.0).clear();
        // What they leave to be done in the background is done by nobody.
        let _here = simulation::enter(self.clone());
        self.net.without_a_word(|| drop((tasks, timers)));
    }

    pub(crate) fn tasks(&self) -> usize {
        self.inner().tasks.iter().flatten().count()
    }

    pub(crate) fn has_work(&self) -> bool {
        let inner = self.inner();
        let stopped = inner.is_dead || inner.paused_until_us > self.time.now_us();
        !stopped && !lock(&self.ready.0).is_empty()
    }

    /// The true time at which it has to do something of its own accord.
    pub(crate) fn due_us(&self) -> Option<u64> {
        let inner = self.inner();
        if inner.is_dead {
            return None;
        }
        let timer = inner.timers.keys().next().map(|&(local_us, _)| self.true_us(local_us));
        let timer = if lock(&self.ready.0).is_empty() { timer } else { Some(0) };
        timer.map(|at_us| at_us.max(inner.paused_until_us))
    }

    /// Rings all timers that are due.
    pub(crate) fn ring(&self) {
        let now_us = self.now_us();
        let mut inner = self.inner();
        if inner.is_dead || inner.paused_until_us > self.time.now_us() {
            return;
        }
        let later = inner.timers.split_off(&(now_us + 1, 0));
        let due = std::mem::replace(&mut inner.timers, later);
        drop(inner);
        due.into_values().for_each(Waker::wake);
    }

    /// Polls whatever is ready, until nothing is.
    pub(crate) fn run(self: &Arc<Self>) -> RunEnd {
        let _here = simulation::enter(self.clone());
        loop {
            let (number, mut task) = {
                let mut inner = self.inner();
                let mut ready = lock(&self.ready.0);
                if inner.is_dead || ready.is_empty() {
                    return RunEnd::Idle;
                }
                let drawn = inner.dice.index(ready.len());
                let Some(number) = ready.iter().nth(drawn).copied() else { continue };
                ready.remove(&number);
                let Some(task) = inner.tasks.get_mut(number).and_then(Option::take) else {
                    continue;
                };
                (number, task)
            };
            let waker =
                Waker::from(Arc::new(TaskWaker { ready: self.ready.clone(), task: number }));
            let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
            let mut inner = self.inner();
            match polled {
                Poll::Pending => inner.tasks[number] = Some(task),
                Poll::Ready(()) => {
                    inner.free.push(number);
                    inner.witnesses.remove(&number);
                    drop(inner);
                    drop(task);
                    inner = self.inner();
                }
            }
            inner.steps += 1;
            let steps = inner.steps;
            if let Some(at) = inner.strokes.iter().position(|(at, _)| *at == steps) {
                return RunEnd::Stopped(inner.strokes.swap_remove(at).1);
            }
        }
    }
}

impl Machine for Host {
    fn now_us(&self) -> u64 {
        drifted(self.time.now_us(), self.drift)
    }

    fn sleep(&self, for_: Duration) -> MachineTask {
        let until_us = self.now_us().saturating_add(for_.as_micros() as u64);
        Box::pin(Sleep { host: self.me.clone(), until_us, key: None })
    }

    fn spawn(&self, task: MachineTask) {
        self.add(task);
    }

    fn random(&self) -> u64 {
        self.inner().dice.draw()
    }

    fn store(&self, name: &str) -> Option<Box<dyn Open>> {
        let node = name.parse().ok()?;
        let (net, host, machine) = (self.net.clone(), self.number, self.me.clone());
        Some(Box::new(SimStore { net, host, node, machine }))
    }
}

struct Sleep {
    host: Weak<Host>,
    until_us: u64,
    key: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(host) = self.host.upgrade() else { return Poll::Pending };
        if host.now_us() >= self.until_us {
            return Poll::Ready(());
        }
        let mut inner = host.inner();
        let key = self.key.unwrap_or_else(|| {
            inner.timers_made += 1;
            (self.until_us, inner.timers_made)
        });
        self.key = Some(key);
        inner.timers.insert(key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let (Some(key), Some(host)) = (self.key, self.host.upgrade()) {
            let timer = host.inner().timers.remove(&key);
            drop(timer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// A client lost its lock, gave it back and was killed before any of its tasks could be told. (Seed 7200071856.)
    #[test]
    fn a_witness_is_asked_once_more_before_the_machine_is_switched_off() {
        let net = SimNetwork::new(Duration::from_secs(1), Duration::from_secs(1));
        let host = Host::new(0, Arc::default(), 0, net, SimDice::new(0), Vec::new());
        let (is_lost, is_noted) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (lost, noted) = (is_lost.clone(), is_noted.clone());
        host.spawn_witness(Box::pin(async move {
            std::future::poll_fn(|_| match lost.load(Ordering::Relaxed) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            noted.store(true, Ordering::Relaxed);
        }));
        assert_eq!(host.run(), RunEnd::Idle);
        is_lost.store(true, Ordering::Relaxed);
        assert!(!is_noted.load(Ordering::Relaxed), "nobody has asked");
        host.ask_witnesses();
        host.die();
        assert!(is_noted.load(Ordering::Relaxed));
    }
}
