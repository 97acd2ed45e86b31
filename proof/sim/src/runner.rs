//! Runs seeds, on all cores, and makes the first that fails as small as it will go.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use taketurns_history::{EventKind, Guarantee, HistoryEvent, check};

use crate::machine::lock;
use crate::plan::{Keepers, SimPlan};
use crate::stall;
use crate::world::{LifeOutcome, SimWorld};

/// What came of many seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub seeds: u64,
    /// Acquires that were asked for.
    pub acquires: u64,
    /// Of these, how many were granted.
    pub grants: u64,
    /// Requests that nodes carried out.
    pub requests: u64,
    /// Events in all histories.
    pub events: u64,
    /// What went wrong, and how often. Of messages it is not counted.
    pub faults: BTreeMap<String, u64>,
    /// Seeds by what kept the locks.
    pub keepers: BTreeMap<&'static str, u64>,
    /// Writes that undid another's, at a resource that does not look at tokens.
    pub hurt: u64,
    /// Writes that the fence refused.
    pub refused: u64,
    /// What can't be, but is not promised either.
    pub excused: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        let Self { seeds, acquires, grants, requests, events, hurt, refused, excused, .. } = other;
        let ours = [
            (&mut self.seeds, seeds),
            (&mut self.acquires, acquires),
            (&mut self.grants, grants),
            (&mut self.requests, requests),
            (&mut self.events, events),
            (&mut self.hurt, hurt),
            (&mut self.refused, refused),
            (&mut self.excused, excused),
        ];
        ours.into_iter().for_each(|(sum, more)| *sum += more);
        for (kind, times) in other.faults {
            *self.faults.entry(kind).or_default() += times;
        }
        for (keepers, times) in other.keepers {
            *self.keepers.entry(keepers).or_default() += times;
        }
    }

    fn of(plan: &SimPlan, outcome: &LifeOutcome) -> Self {
        let mut sum = Self { seeds: 1, requests: outcome.requests, ..Self::default() };
        sum.events = outcome.events.len() as u64;
        let keepers = match plan.keepers {
            Keepers::Single => "single node",
            Keepers::Pair => "fail-over pair",
            Keepers::Quorum(3) => "quorum of 3",
            Keepers::Quorum(_) => "quorum of 5",
        };
        sum.keepers.insert(keepers, 1);
        let mut fault = |kind: &str| *sum.faults.entry(kind.to_owned()).or_default() += 1;
        for event in &outcome.events {
            match &event.what {
                EventKind::Asked { .. } => sum.acquires += 1,
                EventKind::Granted { .. } => sum.grants += 1,
                EventKind::Fault { kind, .. } => fault(kind),
                EventKind::Paused { .. } => fault("client paused"),
                EventKind::Died { .. } => fault("client died"),
                EventKind::Cancelled { .. } => fault("acquire dropped"),
                EventKind::Wrote { fenced: false, stale: true, .. } => sum.hurt += 1,
                EventKind::Wrote { fenced: true, accepted: false, .. } => sum.refused += 1,
                _ => {}
            }
        }
        sum
    }
}

/// A seed that can't be.
#[derive(Clone, Debug)]
pub struct FailedSeed {
    /// Which.
    pub seed: u64,
    /// What was promised; nothing if a lock contradicted itself or clients went round in circles.
    pub guarantee: Option<Guarantee>,
    /// What is wrong, in words.
    pub what: String,
    plan: SimPlan,
}

impl FailedSeed {
    /// The whole story of the smallest life that fails like this one.
    pub fn story(&self) -> String {
        let plan = smallest(self.plan.clone(), self.guarantee);
        let outcome = SimWorld::new(plan.clone(), true).live();
        let mut story = format!("{plan:#?}\n");
        let mut events = outcome.events.iter().peekable();
        for line in &outcome.story {
            let at_us = line.trim_start().split(' ').next().and_then(|at_us| at_us.parse().ok());
            while let Some(event) = events.next_if(|event| Some(event.at_us) < at_us) {
                let _ = writeln!(story, "{:>9} {:?}", event.at_us, event.what);
            }
            let _ = writeln!(story, "{line}");
        }
        for event in events {
            let _ = writeln!(story, "{:>9} {:?}", event.at_us, event.what);
        }
        for what in judge(&plan, &outcome).1 {
            let _ = writeln!(story, "{}", what.1);
        }
        story
    }
}

/// What happened in the life of one seed.
pub fn history(seed: u64) -> Vec<HistoryEvent> {
    SimWorld::new(SimPlan::new(seed), false).live().events
}

/// What is wrong: which promise, if it is one, and in words.
type Complaint = (Option<Guarantee>, String);

/// Lives one life.
fn live(plan: &SimPlan) -> (Sum, Vec<Complaint>) {
    let outcome = SimWorld::new(plan.clone(), false).live();
    let mut sum = Sum::of(plan, &outcome);
    let (excused, wrong) = judge(plan, &outcome);
    sum.excused = excused;
    (sum, wrong)
}

/// How much can't be but is excused, and what is not.
fn judge(plan: &SimPlan, outcome: &LifeOutcome) -> (u64, Vec<Complaint>) {
    let mut wrong: Vec<Complaint> =
        outcome.broken.iter().map(|what| (None, what.clone())).collect();
    // A refresh would find what a wake-up has not told. Here every one is heard, and none is needed.
    let stall = stall::longest(&outcome.events).filter(|_| plan.is_smooth);
    if let Some(stall) = stall.filter(|stall| stall.us() > plan.third_us() * 3 / 4) {
        wrong.push((Some(Guarantee::G4), stall.to_string()));
    }
    let found = check(&outcome.events);
    let all = found.len();
    let broken = found.into_iter().filter(|violation| violation.excused_by.is_none());
    let broken: Vec<Complaint> =
        broken.map(|violation| (Some(violation.guarantee), violation.to_string())).collect();
    let excused = (all - broken.len()) as u64;
    wrong.extend(broken);
    (excused, wrong)
}

fn smallest(mut plan: SimPlan, guarantee: Option<Guarantee>) -> SimPlan {
    let fails_alike = |plan: &SimPlan| live(plan).1.iter().any(|(broken, _)| *broken == guarantee);
    while let Some(simpler) = plan.simpler().into_iter().find(fails_alike) {
        plan = simpler;
    }
    plan
}

/// Lives the lives of these seeds, and tells now and then how many are done. Stops at one that fails:
/// of several the lowest.
///
/// # Errors
/// If one fails.
pub fn run(
    seeds: std::ops::Range<u64>,
    threads: usize,
    progress: impl Fn(&Sum) + Sync,
) -> Result<Sum, Box<FailedSeed>> {
    let next = AtomicU64::new(seeds.start);
    let sum = Mutex::new(Sum::default());
    let failed: Mutex<Option<Box<FailedSeed>>> = Mutex::new(None);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_over = lock(&failed).as_ref().is_some_and(|failure| failure.seed < seed);
            if seed >= seeds.end || is_over {
                return;
            }
            let plan = SimPlan::new(seed);
            let (of_seed, wrong) = live(&plan);
            if let Some((guarantee, what)) = wrong.into_iter().next() {
                let mut failed = lock(&failed);
                if failed.as_ref().is_none_or(|failure| failure.seed > seed) {
                    *failed = Some(Box::new(FailedSeed { seed, guarantee, what, plan }));
                }
                continue;
            }
            let mut sum = lock(&sum);
            sum.add(of_seed);
            progress(&sum);
        }
    };
    std::thread::scope(|scope| {
        (0..threads.max(1)).for_each(|_| drop(scope.spawn(work)));
    });
    let failed = lock(&failed).take();
    match failed {
        Some(failure) => Err(failure),
        None => Ok(lock(&sum).clone()),
    }
}
