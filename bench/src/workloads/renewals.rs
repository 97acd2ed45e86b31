//! g: 10 000 locks that are held and renewed.

use std::rc::Rc;

use super::{BARS, Contestant, ContestantGroup, Measure, Values, Workload, measure};
use crate::cpu::cpu_us;
use crate::setup::{BenchBackend, BenchError, BenchSetup, Helper, asked_of};

const MEASURES: &[Measure] = &[
    measure("client", "% of a core"),
    measure("server", "% of a core"),
    measure("commands", "1/s"),
];

pub(super) fn workload(setup: &Rc<BenchSetup>) -> Workload {
    let seconds = setup.pick(10.0, 20.0);
    let contestant = |backend: BenchBackend| {
        let setup = setup.clone();
        Contestant::new(backend.name(), ContestantGroup::Ours, seconds + 1.5, move || {
            run(&setup, backend)
        })
    };
    Workload {
        letter: "g",
        title: "10 000 held locks, renewed",
        about: "A separate process holds 10 000 locks with the default lease of 30 s, and renews \
                them every 10 s. Measured is the CPU time that client and server used, as the \
                kernel reports it, from when all locks are held and over a whole number of \
                renewals of each.",
        measures: MEASURES,
        contestants: BenchBackend::BOTH.map(contestant).into(),
        rounds_max: 2,
        pictures: BARS,
    }
}

fn run(setup: &BenchSetup, backend: BenchBackend) -> Result<Values, BenchError> {
    let time = setup.time(10.0, 20.0);
    let server = backend.start()?;
    let mut client = Helper::start("hold-many", &[&backend.url(&server)])?;
    if client.line()? != "held" {
        return Err("the client could not take all".to_owned());
    }
    let pids = [client.0.id(), server.pid().ok_or("the server ended")?];
    server.reset_stats();
    let before = pids.map(cpu_us);
    std::thread::sleep(time);
    let after = pids.map(cpu_us);
    let (commands, _) = asked_of(&server)?;
    let mut values = Vec::new();
    for (measure, (before, after)) in MEASURES.iter().zip(before.into_iter().zip(after)) {
        values.push((measure.name, (after? - before?) / time.as_secs_f64() / 1e4));
    }
    values.push((MEASURES[2].name, commands / time.as_secs_f64()));
    Ok(values)
}
