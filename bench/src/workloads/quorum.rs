//! i: a majority of 3 and of 5 against one node.

use std::rc::Rc;

use taketurns_servers::Server;

use super::pairs;
use super::{BARS, Contestant, ContestantGroup, Measure, Workload, measure};
use crate::setup::{BenchBackend, BenchError, BenchSetup, open};

const MEASURES: &[Measure] = &[measure(pairs::PAIR, "µs"), measure(pairs::CLIENT, "µs").compared()];

pub(super) fn workload(setup: &Rc<BenchSetup>) -> Workload {
    let mut contestants = Vec::new();
    for (backend, one) in
        BenchBackend::BOTH.into_iter().zip(["one node, scripts", "one node, module"])
    {
        for nodes in [1, 3, 5] {
            let setup = setup.clone();
            let name = match nodes {
                1 => one.to_owned(),
                _ => format!("quorum of {nodes}, {}", backend.name()),
            };
            let time = setup.time(0.4, 1.5);
            let seconds = time.as_secs_f64() + 0.5;
            let run = move || {
                let servers = start(backend, nodes)?;
                let url = match servers.as_slice() {
                    [one] => backend.url(one),
                    all => {
                        let urls: Vec<String> =
                            all.iter().map(|server| backend.url(server)).collect();
                        format!("quorum:{}", urls.join(","))
                    }
                };
                setup.run(async move {
                    let locks = open(&url).await?;
                    let values = pairs::ours(&locks, 1, time).await;
                    locks.close().await;
                    values
                })
            };
            contestants
                .push(Contestant::new(name, ContestantGroup::Ours, seconds, run).against(one));
        }
    }
    Workload {
        letter: "i",
        title: "Quorum against one node",
        about: "One task acquires and releases one lock over and over, on one node and on a \
                majority of 3 and of 5. All nodes are on this machine: with fewer cores than \
                nodes, the shared cores are part of the ratio.",
        measures: MEASURES,
        contestants,
        rounds_max: usize::MAX,
        pictures: BARS,
    }
}

fn start(backend: BenchBackend, nodes: usize) -> Result<Vec<Server>, BenchError> {
    (0..nodes).map(|_| backend.start()).collect()
}
