//! i: a majority of 3 and of 5 against one node.

use std::rc::Rc;

use taketurns::Connect;
use taketurns_servers::Server;

use super::pairs;
use super::{Contestant, Measure, Party, Plot, Work};
use crate::stage::{Driver, Stage, Way, Why, said};

/// As of [`pairs`], but what counts is the time.
const MEASURES: &[Measure] = &[pairs::MEASURES[1], pairs::MEASURES[0]];

pub(super) fn work(stage: &Rc<Stage>) -> Work {
    let mut contestants = Vec::new();
    for (way, one) in Way::BOTH.into_iter().zip(["one node, scripts", "one node, module"]) {
        for nodes in [1, 3, 5] {
            let stage = stage.clone();
            let name = match nodes {
                1 => one.to_owned(),
                _ => format!("quorum of {nodes}, {}", way.name()),
            };
            let time = stage.time(0.4, 1.5);
            let seconds = time.as_secs_f64() + 0.5;
            let run = move || {
                let servers = start(way, nodes)?;
                let url = match servers.as_slice() {
                    [one] => way.url(one),
                    all => {
                        let urls: Vec<String> = all.iter().map(|server| way.url(server)).collect();
                        format!("quorum:{}", urls.join(","))
                    }
                };
                stage.run(async move {
                    let locks = Driver::Thread.open(Connect::new(&url)).await?;
                    let values = pairs::ours(&locks, 1, time).await;
                    locks.close().await;
                    values
                })
            };
            contestants.push(Contestant::new(name, Party::Ours, seconds, run).against(one));
        }
    }
    Work {
        letter: "i",
        title: "Quorum against one node",
        about: "One task acquires and releases one lock over and over, on one node and on a majority of 3 \
                and of 5, all on this machine: with fewer cores than nodes, part of the ratio is theirs.",
        measures: MEASURES,
        contestants,
        rounds_max: usize::MAX,
        plot: Plot::Bars,
    }
}

fn start(way: Way, nodes: usize) -> Result<Vec<Server>, Why> {
    (0..nodes).map(|_| way.builder()?.start().map_err(said)).collect()
}
