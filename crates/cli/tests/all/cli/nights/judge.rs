//! What a night may look like, and the sums of many. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::plan::KillPoint;

/// What happened, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The work of a machine began, under a token.
    Began { machine: usize, token: u64 },
    /// The work of a machine was over.
    Worked { machine: usize, token: u64 },
    /// A process was killed.
    Killed { machine: usize },
    /// A process ended by itself, with this code.
    Exited { machine: usize, code: i32 },
    /// The store was seen to say that the work is done, under this token.
    Done { token: u64 },
}

#[derive(Debug, Default)]
pub(super) struct NightRecord {
    pub(super) events: Vec<Event>,
    /// Where those were to be killed that were.
    pub(super) killed_at: BTreeMap<usize, KillPoint>,
}

/// How far a process was when it was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    BeforeWork,
    InWork,
    /// It had done the work, which the store never learnt.
    BeforeDone,
    /// The store knew that the work is done, and the process did not know that.
    AfterDone,
}

#[derive(Debug, Default)]
pub(super) struct Sums {
    nights: u64,
    done: u64,
    /// Nights on which every machine was down or killed, and the work was not done.
    nobody_lived: u64,
    processes: u64,
    killed: BTreeMap<Phase, u64>,
    points: BTreeSet<KillPoint>,
    repeats: u64,
}

impl Sums {
    /// Adds a night, or says what must not be so.
    pub(super) fn add(&mut self, record: &NightRecord) -> Result<(), String> {
        let events = &record.events;
        let done = done(events)?;
        no_two_at_work(events)?;
        for event in events {
            match *event {
                Event::Exited { machine, code } => {
                    self.processes += 1;
                    if code != 0 {
                        return Err(format!("machine {machine} lived, and exited with {code}"));
                    }
                    if done.is_none() {
                        return Err(format!("machine {machine} lived, and the work is not done"));
                    }
                }
                Event::Began { machine, token } if done.is_some_and(|done| token > done) => {
                    return Err(format!("machine {machine} began though the work was done"));
                }
                Event::Worked { machine, token }
                    if done != Some(token) && !events.contains(&Event::Killed { machine }) =>
                {
                    return Err(format!(
                        "machine {machine} worked and lived, and it doesn't count"
                    ));
                }
                Event::Killed { machine } => {
                    self.processes += 1;
                    *self.killed.entry(phase(events, machine, done)).or_default() += 1;
                }
                _ => {}
            }
        }
        let worked = events.iter().filter(|event| matches!(event, Event::Worked { .. })).count();
        if done.is_some() && worked == 0 {
            return Err("the work counts as done, and nobody did it".to_owned());
        }
        self.nights += 1;
        self.done += u64::from(done.is_some());
        self.nobody_lived += u64::from(done.is_none());
        self.repeats += worked.saturating_sub(1) as u64;
        self.points.extend(record.killed_at.values());
        Ok(())
    }

    pub(super) fn was_killed_at(&self, point: KillPoint) -> bool {
        self.points.contains(&point)
    }

    /// Is there something of each sort?
    pub(super) fn has_everything(&self) -> bool {
        self.killed.len() == 4 && self.repeats > 0 && self.done > 0
    }
}

/// The token under which the work was done. Once it is, that may not change.
fn done(events: &[Event]) -> Result<Option<u64>, String> {
    let mut tokens = events.iter().filter_map(|event| match event {
        Event::Done { token } => Some(*token),
        _ => None,
    });
    let first = tokens.next();
    match tokens.find(|token| Some(*token) != first) {
        Some(other) => {
            Err(format!("the work was done under token {first:?}, and then under {other}"))
        }
        None => Ok(first),
    }
}

fn no_two_at_work(events: &[Event]) -> Result<(), String> {
    let mut at_work = None;
    for event in events {
        match *event {
            Event::Began { machine, .. } => {
                if let Some(other) = at_work.replace(machine) {
                    return Err(format!(
                        "machine {machine} began while machine {other} was at work"
                    ));
                }
            }
            Event::Worked { machine, .. }
            | Event::Killed { machine }
            | Event::Exited { machine, .. }
                if at_work == Some(machine) =>
            {
                at_work = None;
            }
            _ => {}
        }
    }
    Ok(())
}

fn phase(events: &[Event], machine: usize, done: Option<u64>) -> Phase {
    let mut phase = Phase::BeforeWork;
    for event in events {
        match *event {
            Event::Began { machine: its, .. } if its == machine => phase = Phase::InWork,
            Event::Worked { machine: its, token } if its == machine => {
                phase = if done == Some(token) { Phase::AfterDone } else { Phase::BeforeDone };
            }
            _ => {}
        }
    }
    phase
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let killed = |phase| self.killed.get(&phase).copied().unwrap_or(0);
        write!(
            f,
            "{} nights, {} done, {} on which nobody lived; {} processes: {} were killed before \
             their work, {} during it, {} between it and its record, {} after its record; work was \
             repeated {} times",
            self.nights,
            self.done,
            self.nobody_lived,
            self.processes,
            killed(Phase::BeforeWork),
            killed(Phase::InWork),
            killed(Phase::BeforeDone),
            killed(Phase::AfterDone),
            self.repeats,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Event::*;
    use super::*;

    fn judged(events: &[Event]) -> Result<(), String> {
        Sums::default().add(&NightRecord { events: events.to_vec(), ..NightRecord::default() })
    }

    #[test]
    fn a_night_with_a_repeat_after_a_kill_is_as_it_should_be() {
        let night = [
            Began { machine: 0, token: 5 },
            Worked { machine: 0, token: 5 },
            Killed { machine: 0 },
            Began { machine: 1, token: 7 },
            Worked { machine: 1, token: 7 },
            Done { token: 7 },
            Exited { machine: 1, code: 0 },
            Exited { machine: 2, code: 0 },
        ];
        let mut sums = Sums::default();
        sums.add(&NightRecord { events: night.into(), ..NightRecord::default() }).unwrap();
        assert_eq!((sums.done, sums.repeats, sums.processes), (1, 1, 3));
        assert_eq!(sums.killed, BTreeMap::from([(Phase::BeforeDone, 1)]));
        assert_eq!(judged(&[Began { machine: 0, token: 5 }, Killed { machine: 0 }]), Ok(()));
    }

    #[test]
    fn what_must_not_be_is_told() {
        let (began, worked) = (Began { machine: 0, token: 5 }, Worked { machine: 0, token: 5 });
        let (done, lived) = (Done { token: 5 }, Exited { machine: 0, code: 0 });
        let cases: [(&[Event], &str); 7] = [
            (&[lived], "lived, and the work is not done"),
            (&[began, worked, done, Exited { machine: 0, code: 75 }], "exited with 75"),
            (&[began, worked, done, Began { machine: 1, token: 6 }], "though the work was done"),
            (&[began, Began { machine: 1, token: 6 }], "while machine 0 was at work"),
            (&[began, worked, lived, Done { token: 9 }], "it doesn't count"),
            (&[began, worked, done, Done { token: 6 }], "and then under 6"),
            (&[done], "nobody did it"),
        ];
        for (events, expected) in cases {
            let why = judged(events).expect_err(expected);
            assert!(why.contains(expected), "{why}");
        }
    }
}
