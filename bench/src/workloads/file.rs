//! k: the file engine against flock, as a system call and as a program.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::cold::{finish, taketurns};
use super::{
    BARS, Contestant, ContestantGroup, Measure, RoundFn, Values, Workload, measure, pairs,
};
use crate::setup::{BenchError, BenchSetup, Helper, open, said};
use crate::turns::{LoggedTurn, judge};

const MEASURES: &[Measure] = &[
    measure("hand-over p50", "µs"),
    measure(pairs::PAIR, "µs"),
    measure(pairs::CLIENT, "µs"),
    measure("a run, two in turn", "ms"),
];
const FLOCK: &str = "flock(2)";

pub(super) fn workload(setup: &Rc<BenchSetup>) -> Workload {
    let time = setup.time(0.8, 2.0);
    let seconds = time.as_secs_f64();
    let with = |run: fn(&BenchSetup, Duration) -> Result<Values, BenchError>| -> RoundFn {
        let setup = setup.clone();
        Box::new(move || run(&setup, time))
    };
    let contestants = vec![
        Contestant::new(FLOCK, ContestantGroup::Floor, seconds * 2.0, with(system_call)),
        Contestant::new("file engine", ContestantGroup::Ours, seconds * 2.5, with(engine))
            .against(FLOCK),
        Contestant::new("flock(1)", ContestantGroup::Floor, seconds, with(flock_program)),
        Contestant::new("taketurns run", ContestantGroup::Ours, seconds, with(our_program)),
    ];
    Workload {
        letter: "k",
        title: "Processes on one machine",
        about: "Two processes take turns on one lock. Each holds it for a millisecond and pauses \
                for half of one, so that the other gets it. The hand-over is from the call of \
                release to the other's grant. A pair is acquire and release without contention. \
                All files are on the same disk. The programs run `true` under one lock, two at a \
                time.",
        measures: MEASURES,
        contestants,
        rounds_max: usize::MAX,
        pictures: BARS,
    }
}

fn system_call(setup: &BenchSetup, time: Duration) -> Result<Values, BenchError> {
    let path = setup.path("flock");
    let hand_over = hand_over("turns-of-flock", &path, time)?;
    let file = std::fs::File::create(&path).map_err(said)?;
    let (begun, mut pairs) = (Instant::now(), 0_u32);
    while begun.elapsed() < time / 2 {
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).map_err(said)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::Unlock).map_err(said)?;
        pairs += 1;
    }
    let pair_us = begun.elapsed().as_secs_f64() * 1e6 / f64::from(pairs);
    Ok(vec![(MEASURES[0].name, hand_over), (MEASURES[1].name, pair_us)])
}

fn engine(setup: &BenchSetup, time: Duration) -> Result<Values, BenchError> {
    let path = setup.path("locks");
    let hand_over = hand_over("turns-of-file", &path, time)?;
    let url = format!("file:{}", path.display());
    let pair = setup.run(async move {
        let locks = open(&url).await?;
        let pair = pairs::ours(&locks, 1, time / 2).await;
        locks.close().await;
        pair
    })?;
    Ok(pair.into_iter().chain([(MEASURES[0].name, hand_over)]).collect())
}

/// Two processes of this part, on one file.
fn hand_over(part: &str, path: &Path, time: Duration) -> Result<f64, BenchError> {
    let (path, seconds) = (path.display().to_string(), time.as_secs_f64().to_string());
    let start = |client: &str| Helper::start(part, &[&path, client, &seconds]);
    let mut log: Vec<LoggedTurn> = Vec::new();
    let mut both = [start("0")?, start("1")?];
    for process in &mut both {
        let text = process.rest()?;
        for line in text.lines() {
            log.push(LoggedTurn::parse(line)?);
        }
    }
    Ok(judge(&log, 2)?.gap_us)
}

fn flock_program(setup: &BenchSetup, time: Duration) -> Result<Values, BenchError> {
    let path = setup.path("flock");
    two_at_a_time(time, || {
        let mut command = Command::new("flock");
        command.arg(&path).arg("true");
        command
    })
}

fn our_program(setup: &BenchSetup, time: Duration) -> Result<Values, BenchError> {
    let path = setup.path("locks");
    let program = taketurns()?;
    two_at_a_time(time, || {
        let mut command = Command::new(&program);
        command.arg("--store").arg(format!("file:{}", path.display()));
        command.args(["run", "turns", "--", "true"]);
        command
    })
}

fn two_at_a_time(
    time: Duration,
    command: impl Fn() -> Command + Sync,
) -> Result<Values, BenchError> {
    let begun = Instant::now();
    let repeat = || {
        let mut runs = 0_u32;
        while begun.elapsed() < time {
            finish(&mut command())?;
            runs += 1;
        }
        Ok::<_, BenchError>(runs)
    };
    let runs = std::thread::scope(|scope| {
        let both = [scope.spawn(repeat), scope.spawn(repeat)];
        both.map(|one| one.join().unwrap_or_else(|_| Err("it panicked".to_owned())))
    });
    let [one, other] = runs;
    let ms = begun.elapsed().as_secs_f64() * 1e3 / f64::from(one? + other?);
    Ok(vec![(MEASURES[3].name, ms)])
}
