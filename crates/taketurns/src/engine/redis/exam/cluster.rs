//! A Cluster: who has which slots, every master, and those that follow them.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use redis::cmd;
use tokio::time::timeout;

use super::gather::{ExaminedKeys, ExaminedServer, ServerPart};
use super::judge::{ClockReference, judge};
use super::{followed, look_at_all, look_at_replicas};
use crate::doctor::{ALL, Check, Subject, list};
use crate::engine::redis::connection::connector::Connector;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::handshake::facts::field;
use crate::engine::redis::handshake::query::text;
use crate::engine::redis::router::slot_map::marker_key_in;
use crate::engine::redis::router::slots::{self, Range, SLOTS};
use crate::engine::redis::url::Address;

/// For all questions to one seed together.
const WITHIN: Duration = Duration::from_secs(5);

/// What a node knows of the Cluster.
struct ExaminedMap {
    ranges: Vec<Range>,
    /// `cluster_state`, if we may ask.
    state: Option<String>,
}

/// Gives the checks, and whether any of it answers.
pub(super) async fn examine(connector: &Connector, seeds: &[Address]) -> (Vec<Check>, bool) {
    let ask = |seed: &Address| {
        let seed = seed.clone();
        let asking = async move {
            let late = || Err(Failure::Unreachable(format!("{seed} does not answer in time")));
            timeout(connector.config.timeouts.stretch(WITHIN), map(connector, &seed))
                .await
                .unwrap_or_else(|_| late())
        };
        Box::pin(asking) as Pin<Box<dyn Future<Output = Result<ExaminedMap, Failure>> + Send + '_>>
    };
    let maps = join_all(seeds.iter().map(ask)).await;
    let map = maps.into_iter().flatten().find(|map| !map.ranges.is_empty());
    let masters = map.as_ref().map(|map| masters(&map.ranges)).unwrap_or_default();
    let prefix = &connector.config.prefix;
    let mut wanted: Vec<_> = masters
        .iter()
        .map(|(address, lowest)| {
            let keys =
                ExaminedKeys { marker: Some(marker_key_in(prefix, *lowest)), registry: None };
            (address.clone(), ServerPart::Master, keys)
        })
        .collect();
    if wanted.is_empty() {
        // There is no Cluster to see: what the seeds are instead, they say themselves.
        wanted = seeds
            .iter()
            .map(|seed| (seed.clone(), ServerPart::Alone, ExaminedKeys::default()))
            .collect();
    }
    let servers = look_at_all(connector, wanted).await;
    let replicas = look_at_replicas(connector, &servers).await;
    let all = || servers.iter().chain(&replicas);
    let mut checks: Vec<Check> =
        all().flat_map(|server| judge(&connector.config, server, ClockReference::Ours)).collect();
    let others = seeds.iter().filter(|seed| !all().any(|server| server.address == **seed));
    let others =
        others.map(|seed| (seed.clone(), ServerPart::Replica, ExaminedKeys::default())).collect();
    let others: Vec<ExaminedServer> = look_at_all(connector, others).await;
    checks.extend(
        others
            .iter()
            .filter(|seed| seed.answers.is_err())
            .flat_map(|seed| judge(&connector.config, seed, ClockReference::Ours)),
    );
    if let Some(map) = &map {
        let alone = "CLUSTER REPLICATE a server to it: without one its slots are lost with it";
        checks.extend(servers.iter().flat_map(|master| followed(master, &replicas, alone)));
        checks.extend(judge_map(map));
    }
    let reached = all().chain(&others).any(|server| server.answers.is_ok());
    (checks, reached)
}

async fn map(connector: &Connector, seed: &Address) -> Result<ExaminedMap, Failure> {
    let login = connector.config.credentials.read().map_err(Failure::Broken)?;
    let connection = connector.log_in(seed, 0, login.as_ref()).await?;
    let reply = connection.send(cmd("CLUSTER").arg("SLOTS")).await?;
    let ranges = slots::parse(&reply, &seed.host).unwrap_or_default();
    let info = connection.send(cmd("CLUSTER").arg("INFO")).await.ok();
    let state = info.and_then(|info| text(&info));
    let state = state.and_then(|info| Some(field(&info, "cluster_state")?.to_owned()));
    connection.close();
    Ok(ExaminedMap { ranges, state })
}

/// Each master once, with the lowest of its slots.
fn masters(ranges: &[Range]) -> Vec<(Address, u16)> {
    let mut masters: Vec<(Address, u16)> = Vec::new();
    for range in ranges {
        match masters.iter_mut().find(|(address, _)| *address == range.master) {
            Some((_, lowest)) => *lowest = range.first.min(*lowest),
            None => masters.push((range.master.clone(), range.first)),
        }
    }
    masters
}

fn judge_map(map: &ExaminedMap) -> Vec<Check> {
    let mut is_served = vec![false; usize::from(SLOTS)];
    for range in &map.ranges {
        is_served[usize::from(range.first)..=usize::from(range.last)].fill(true);
    }
    let lost: Vec<usize> = (0..is_served.len()).filter(|slot| !is_served[*slot]).collect();
    let slots = match lost.as_slice() {
        [] => {
            let masters = masters(&map.ranges).len();
            Subject::Slots.ok(ALL, format!("all {SLOTS} are served, by {masters} masters"))
        }
        lost => Subject::Slots.fail(
            ALL,
            format!(
                "{} of {SLOTS} are served by nobody, the first is {}",
                lost.len(),
                list(&lost[..1])
            ),
            "bring the masters back that had them, or redis-cli --cluster fix",
        ),
    };
    let state = match map.state.as_deref() {
        None => None,
        Some("ok") => Some(Subject::State.ok(ALL, "ok")),
        Some(state) => Some(Subject::State.fail(
            ALL,
            format!("cluster_state is {state}: it answers no requests"),
            "see CLUSTER INFO and CLUSTER NODES: slots without a master, or too few masters?",
        )),
    };
    std::iter::once(slots).chain(state).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn range(first: u16, last: u16, port: u16) -> Range {
        Range { first, last, master: Address { host: "h".to_owned(), port } }
    }

    fn judged(ranges: Vec<Range>, state: Option<&str>) -> Vec<(&'static str, Level, String)> {
        let checks = judge_map(&ExaminedMap { ranges, state: state.map(str::to_owned) });
        checks.into_iter().map(|check| (check.name, check.level, check.found)).collect()
    }

    #[test]
    fn a_whole_cluster_is_well() {
        let judged = judged(vec![range(0, 99, 1), range(100, 16_383, 2)], Some("ok"));
        assert_eq!(judged[0].1, Level::Ok);
        assert!(judged[0].2.contains("by 2 masters"), "{judged:?}");
        assert_eq!((judged[1].0, judged[1].1), ("state", Level::Ok));
    }

    #[test]
    fn slots_without_a_master_are_counted_and_unknown_states_left_out() {
        let judged = judged(vec![range(0, 99, 1), range(110, 16_383, 2)], None);
        assert_eq!(judged.len(), 1);
        assert_eq!(judged[0].1, Level::Fail);
        assert!(judged[0].2.starts_with("10 of 16384 are served by nobody, the first is 100"));
    }

    #[test]
    fn a_cluster_that_is_down_says_so() {
        let judged = judged(vec![range(0, 16_383, 1)], Some("fail"));
        assert_eq!((judged[1].0, judged[1].1), ("state", Level::Fail));
    }

    #[test]
    fn a_master_is_known_by_the_lowest_of_its_slots() {
        let ranges = [range(50, 60, 1), range(10, 20, 2), range(0, 5, 1)];
        let lowest: Vec<u16> = masters(&ranges).into_iter().map(|(_, lowest)| lowest).collect();
        assert_eq!(lowest, [0, 10]);
    }
}
