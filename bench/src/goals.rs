//! The goals, one entry per cell of the table, and whether a run reached them.

use GoalReference::{BestLibrary, Itself, One, Over};

use crate::peers::{OURS_IN_NODE, OURS_IN_PYTHON};
use crate::results::{Results, WorkloadResult};
use crate::setup::BenchBackend;
use crate::stats::{Rounds, Spread, present, ratios};
use crate::workloads::ContestantGroup;

/// A row of the table. `{}` stands for the way, `scripts` or `module`, if there is a goal for each.
#[derive(Clone, Copy, Debug)]
struct Goal {
    name: &'static str,
    workload: &'static str,
    measure: &'static str,
    of: &'static str,
    against: GoalReference,
    /// For the scripts and the module, or one for both.
    goals: &'static [f64],
    at_least: bool,
}

/// What it is divided by, in the same round.
#[derive(Clone, Copy, Debug)]
enum GoalReference {
    /// Another contestant.
    One(&'static str),
    /// The largest of all other libraries on Redis.
    BestLibrary,
    /// Nothing: the figure itself counts.
    Itself,
    /// Nothing, but what this one needs is taken off.
    Over(&'static str),
}

const PAIRS: &str = "pairs per second";
const PAIR: &str = "time of a pair";
const HOP: &str = "one PUBLISH hop";
pub(crate) const TURNS: &str = "hand-overs to another client";
pub(crate) const SHARES: &str = "longest wait in fair shares";
const KEYED: &str = "keyed tokio mutex";

const GOALS: &[Goal] = &[
    at_most("hand-over against one PUBLISH hop", ["c", "p50", "{}, 2"], One(HOP), &[1.8, 1.4]),
    at_most(
        "hand-over with 10 000 waiters against 2",
        ["c", "p50", "{}, 10000"],
        One("{}, 2"),
        &[1.1, 1.1],
    ),
    at_most(
        "16 clients: idle gap against PostgreSQL's lock",
        ["d", "idle gap p50", "{}"],
        One("postgres"),
        &[1.15, 0.9],
    ),
    at_least(
        "16 clients: hand-overs against the best Redis library",
        ["d", TURNS, "{}"],
        BestLibrary,
        &[4.0, 4.0],
    ),
    at_least(
        "16 clients: hand-overs against etcd's lock",
        ["d", TURNS, "{}"],
        One("etcd"),
        &[4.0, 4.0],
    ),
    at_least(
        "Python, 16 clients: hand-overs against the best Redis library",
        ["d", TURNS, OURS_IN_PYTHON],
        BestLibrary,
        &[4.0],
    ),
    at_least(
        "Python, one task: pairs/s against redis-py",
        ["a", PAIRS, OURS_IN_PYTHON],
        One("redis-py"),
        &[1.0],
    ),
    at_least(
        "Python, one task: pairs/s against python-redis-lock",
        ["a", PAIRS, OURS_IN_PYTHON],
        One("python-redis-lock"),
        &[1.0],
    ),
    at_least(
        "16 clients: hand-overs of the PostgreSQL engine against the server's own locks",
        ["d", TURNS, "PostgreSQL engine"],
        One("postgres"),
        &[0.8],
    ),
    at_least(
        "16 clients: the same with synchronous commit",
        ["d", TURNS, "PostgreSQL engine, synchronous commit"],
        One("postgres"),
        &[0.6],
    ),
    at_least(
        "Node, one task: pairs/s against node-redlock",
        ["a", PAIRS, OURS_IN_NODE],
        One("redlock"),
        &[1.0],
    ),
    at_least(
        "Node, one task: pairs/s against redis-semaphore",
        ["a", PAIRS, OURS_IN_NODE],
        One("redis-semaphore"),
        &[1.0],
    ),
    at_least(
        "Node, 16 clients: hand-overs against the best Redis library",
        ["d", TURNS, OURS_IN_NODE],
        BestLibrary,
        &[4.0],
    ),
    at_most("16 clients: longest wait in fair shares", ["d", SHARES, "{}"], Itself, &[1.25, 1.25]),
    at_least("one task: pairs/s against the floor", ["a", PAIRS, "{}"], One("floor"), &[0.9, 1.0]),
    at_least(
        "64 tasks: pairs/s against the floor",
        ["b", PAIRS, "{}"],
        One("floor"),
        &[0.72, 1.15],
    ),
    at_most(
        "64 tasks: server's CPU per pair against the floor's",
        ["b", "server's CPU per pair", "{}"],
        One("floor"),
        &[3.2, 1.0],
    ),
    at_most(
        "64 tasks: client's CPU per pair against the floor's",
        ["b", "client's CPU per pair", "{}"],
        One("floor"),
        &[1.2, 1.2],
    ),
    at_least(
        "one task that keeps the lock until it is wanted: pairs/s against the floor",
        ["n", PAIRS, "{}, kept until wanted, one task"],
        One("floor, one task"),
        &[40.0, 40.0],
    ),
    at_most(
        "quorum of 5: time of a pair against one node",
        ["i", PAIR, "quorum of 5, {}"],
        One("one node, {}"),
        &[2.0, 1.6],
    ),
    at_most("file: time of a pair, µs", ["k", PAIR, "file engine"], Itself, &[80.0]),
    at_most(
        "file: hand-over between processes against flock(2)",
        ["k", "hand-over p50", "file engine"],
        One("flock(2)"),
        &[9.0],
    ),
    at_most(
        "file: `taketurns run` over `flock`, ms",
        ["m", "start to end", "taketurns run"],
        Over("flock"),
        &[2.5],
    ),
    at_most("memory: pair against a keyed mutex", ["l", PAIR, "memory engine"], One(KEYED), &[5.0]),
    at_most(
        "memory: turn of 16 tasks against a keyed mutex",
        ["l", "turn of 16 tasks", "memory engine"],
        One(KEYED),
        &[12.0],
    ),
    at_most(
        "memory: the same with local turns",
        ["l", "turn of 16 tasks", "memory engine, local turns"],
        One(KEYED),
        &[6.0],
    ),
];

const fn at_least(
    name: &'static str,
    [workload, measure, of]: [&'static str; 3],
    against: GoalReference,
    goals: &'static [f64],
) -> Goal {
    Goal { name, workload, measure, of, against, goals, at_least: true }
}

const fn at_most(
    name: &'static str,
    place: [&'static str; 3],
    against: GoalReference,
    goals: &'static [f64],
) -> Goal {
    Goal { at_least: false, ..at_least(name, place, against, goals) }
}

/// A goal, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GoalResult {
    pub(crate) name: String,
    pub(crate) goal: f64,
    /// Or at most.
    pub(crate) at_least: bool,
    /// `None` if what it takes was not run.
    pub(crate) ratio: Option<Spread>,
}

impl GoalResult {
    /// By the median, as it is shown: to two digits after the point.
    pub(crate) fn met(&self) -> Option<bool> {
        let median = (self.ratio?.median * 100.0).round() / 100.0;
        Some(if self.at_least { median >= self.goal } else { median <= self.goal })
    }
}

/// The goals of the workloads that were run.
pub(crate) fn reached(results: &Results) -> Vec<GoalResult> {
    let judged = GOALS.iter().filter_map(|goal| Some(goal.judge(results.workload(goal.workload)?)));
    judged.flatten().collect()
}

impl Goal {
    /// One for each way, or the only one.
    fn judge(&self, workload: &WorkloadResult) -> Vec<GoalResult> {
        let ways = BenchBackend::BOTH.map(BenchBackend::name);
        let cells = self.goals.iter().zip(ways);
        let reached = |(&goal, backend): (&f64, &str)| {
            let name = match self.goals {
                [_] => self.name.to_owned(),
                _ => format!("{}, {backend}", self.name),
            };
            GoalResult { name, goal, at_least: self.at_least, ratio: self.ratio(workload, backend) }
        };
        cells.map(reached).collect()
    }

    fn ratio(&self, workload: &WorkloadResult, backend: &str) -> Option<Spread> {
        let rounds = |name: &str| {
            let row = workload.row(&name.replace("{}", backend))?;
            Some(row.rounds(self.measure))
        };
        let ours = rounds(self.of)?;
        let values = match self.against {
            One(name) => ratios(ours, rounds(name)?),
            BestLibrary => ratios(ours, &self.best_library(workload)),
            Itself => present(ours),
            Over(name) => {
                let both = ours.iter().zip(rounds(name)?);
                both.filter_map(|(ours, other)| Some((*ours)? - (*other)?)).collect()
            }
        };
        Spread::of(&values)
    }

    fn best_library(&self, workload: &WorkloadResult) -> Rounds {
        let libraries = workload.rows.iter().filter(|row| row.party == ContestantGroup::Library);
        let libraries: Vec<&[Option<f64>]> =
            libraries.map(|row| row.rounds(self.measure)).collect();
        let rounds = libraries.iter().map(|rounds| rounds.len()).max().unwrap_or(0);
        let best = |round: usize| {
            let values = libraries.iter().filter_map(|rounds| *rounds.get(round)?);
            values.reduce(f64::max)
        };
        (0..rounds).map(best).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::done;

    fn spread_of(against: GoalReference) -> Option<Spread> {
        let workload = done(
            "a",
            &[
                ("ours", ContestantGroup::Ours, &[10.0, 20.0, 30.0]),
                ("one", ContestantGroup::Library, &[5.0, 1.0, 1.0]),
                ("two", ContestantGroup::Library, &[1.0, 2.0, 1.0]),
                ("etcd", ContestantGroup::Other, &[100.0, 100.0, 100.0]),
            ],
        );
        at_least("", ["a", "rate", "ours"], against, &[1.0]).ratio(&workload, "scripts")
    }

    #[test]
    fn the_best_library_is_the_best_of_each_round_and_no_other_store() {
        let best = spread_of(BestLibrary).expect("there are libraries");
        assert_eq!(best, Spread { median: 10.0, min: 2.0, max: 30.0 });
        assert_eq!(spread_of(One("etcd")).map(|spread| spread.median), Some(0.2));
        assert_eq!(spread_of(Over("one")).map(|spread| spread.median), Some(19.0));
        assert_eq!(spread_of(Itself).map(|spread| spread.max), Some(30.0));
        assert_eq!(spread_of(One("nobody")), None);
    }

    #[test]
    fn a_goal_is_met_from_its_own_side() {
        let met = |median: f64, goal: f64, at_least: bool| {
            let ratio = Some(Spread { median, min: 0.0, max: 9.0 });
            GoalResult { name: String::new(), goal, at_least, ratio }.met()
        };
        assert_eq!((met(0.95, 0.95, true), met(0.94, 0.95, true)), (Some(true), Some(false)));
        assert_eq!((met(1.2, 1.2, false), met(1.21, 1.2, false)), (Some(true), Some(false)));
        assert_eq!(met(2.004, 2.0, false), Some(true), "as it is shown");
        let none = GoalResult { name: String::new(), goal: 1.0, at_least: true, ratio: None };
        assert_eq!(none.met(), None, "what was not run is neither");
    }

    #[test]
    fn only_works_that_were_run_have_goals() {
        let rows: [(&str, ContestantGroup, &[f64]); 1] =
            [("floor", ContestantGroup::Floor, &[1.0])];
        let results = Results { workloads: vec![done("a", &rows)] };
        let names: Vec<String> = reached(&results).into_iter().map(|goal| goal.name).collect();
        assert_eq!(
            names,
            [
                "Python, one task: pairs/s against redis-py",
                "Python, one task: pairs/s against python-redis-lock",
                "Node, one task: pairs/s against node-redlock",
                "Node, one task: pairs/s against redis-semaphore",
                "one task: pairs/s against the floor, scripts",
                "one task: pairs/s against the floor, module",
            ]
        );
    }
}
