//! Is a quorum fit to hold locks? Each node is examined like a single server; this judges all nodes together.

use std::future::Future;
use std::pin::Pin;

use futures_util::future::join_all;
use taketurns_core::quorum::majority;

use super::super::redis::{ClockReference, ExaminedNode};
use super::membership::{Membership, NAME};
use super::url::{NodeList, NodeOpener, NodeUrl};
use crate::Error;
use crate::doctor::{ALL, Check, Report, Subject, list};

/// The facts about a node that matter to the other nodes.
#[derive(Clone, Debug, Default)]
struct NodeFacts {
    place: String,
    reached: bool,
    run: Option<String>,
    ahead_ms: Option<i64>,
    members: Option<Vec<String>>,
}

/// Looks at the nodes of what follows `quorum:`.
pub(crate) async fn examine(urls: &str) -> Result<Report, Error> {
    let members = NodeList::parse(urls).map_err(Error::InvalidUrl)?;
    let looks = members.nodes.iter().map(|url| {
        Box::pin(examine_node(url)) as Pin<Box<dyn Future<Output = NodeExam> + Send + '_>>
    });
    let nodes = join_all(looks).await;
    let facts: Vec<NodeFacts> =
        members.nodes.iter().zip(&nodes).map(|(url, node)| node.facts(url)).collect();
    let against = median(&facts).map_or(ClockReference::Ours, ClockReference::Median);
    let mut checks: Vec<Check> = nodes.iter().flat_map(|node| node.judge(against)).collect();
    checks.extend(judge_together(&facts, &members.fingerprint));
    checks.extend(nodes.iter().find_map(NodeExam::wire));
    let places: Vec<&str> = nodes.iter().map(NodeExam::store).collect();
    let store = format!("quorum:{}", places.join(","));
    Ok(Report::new(store, facts.iter().any(|node| node.reached), checks))
}

/// One node.
enum NodeExam {
    Server {
        store: String,
        node: Box<ExaminedNode>,
    },
    /// It was not to be looked at, for this reason.
    Not {
        store: String,
        why: String,
    },
    InProcess {
        store: String,
    },
}

async fn examine_node(url: &NodeUrl) -> NodeExam {
    let store = url.place.clone();
    match url.opener() {
        Ok(NodeOpener::Redis(redis)) => {
            let store = redis.place();
            match redis.examine(NAME).await {
                Ok(node) => NodeExam::Server { store, node: Box::new(node) },
                Err(why) => NodeExam::Not { store, why },
            }
        }
        Ok(_) => NodeExam::InProcess { store },
        Err(why) => NodeExam::Not { store, why },
    }
}

impl NodeExam {
    fn store(&self) -> &str {
        match self {
            Self::Server { store, .. } | Self::Not { store, .. } | Self::InProcess { store } => {
                store
            }
        }
    }

    fn facts(&self, url: &NodeUrl) -> NodeFacts {
        let place = url.place.clone();
        match self {
            Self::Server { node, .. } => NodeFacts {
                place,
                reached: node.is_reached(),
                run: node.run().map(str::to_owned),
                ahead_ms: node.ahead_ms(),
                members: node.members().map(<[String]>::to_vec),
            },
            Self::Not { .. } => NodeFacts { place, ..NodeFacts::default() },
            Self::InProcess { .. } => NodeFacts { place, reached: true, ..NodeFacts::default() },
        }
    }

    fn judge(&self, against: ClockReference) -> Vec<Check> {
        match self {
            Self::Server { node, .. } => node.judge(against),
            Self::Not { store, why } => {
                vec![Subject::Reachable.fail(store, why, "correct the URL of this node")]
            }
            Self::InProcess { store } => {
                vec![Subject::Reachable.ok(store, "in this process, and gone with it")]
            }
        }
    }

    fn wire(&self) -> Option<Check> {
        match self {
            Self::Server { node, .. } => node.wire(),
            _ => None,
        }
    }
}

/// Of the clocks that were seen, the one in the middle.
fn median(facts: &[NodeFacts]) -> Option<i64> {
    let mut ahead: Vec<i64> = facts.iter().filter_map(|node| node.ahead_ms).collect();
    ahead.sort_unstable();
    ahead.get(ahead.len().saturating_sub(1) / 2).copied()
}

/// What no node can say by itself. They are in the order of their addresses.
fn judge_together(facts: &[NodeFacts], fingerprint: &str) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for (number, node) in facts.iter().enumerate() {
        let of = facts.len();
        let membership = Membership { number: number + 1, of, fingerprint: fingerprint.to_owned() };
        checks.extend(belonging(node, &membership));
        checks.extend(identity(node, &facts[..number]));
    }
    checks.push(count(facts.len()));
    let (there, needed) = (facts.iter().filter(|node| node.reached).count(), majority(facts.len()));
    let missing = list(facts.iter().filter(|node| !node.reached).map(|node| &node.place));
    checks.push(match there {
        there if there == facts.len() => {
            Subject::Majority.ok(ALL, format!("all {there} nodes answer, {needed} are needed"))
        }
        there if there >= needed => Subject::Majority.warn(
            ALL,
            format!(
                "{there} of {} nodes answer, {needed} are needed; missing: {missing}",
                facts.len()
            ),
            "bring the missing back before another goes",
        ),
        there => Subject::Majority.fail(
            ALL,
            format!(
                "{there} of {} nodes answer, {needed} are needed; missing: {missing}",
                facts.len()
            ),
            "bring them back: nothing is granted or renewed without a majority",
        ),
    });
    checks
}

/// Does the node belong to this quorum, by what is written there?
fn belonging(node: &NodeFacts, membership: &Membership) -> Option<Check> {
    let (written, ours) = (node.members.as_ref()?, membership.member());
    Some(match written.iter().find(|member| **member != ours) {
        Some(other) => Subject::Membership.fail(
            &node.place,
            membership.refuse(&node.place, other),
            format!("if that is over: taketurns --store NODE pool rm {NAME} \"{other}\""),
        ),
        None if written.is_empty() => {
            Subject::Membership.ok(&node.place, "it belongs to no quorum yet")
        }
        None => Subject::Membership.ok(&node.place, format!("it is {ours}, of this quorum")),
    })
}

/// Two names for one server would be two votes.
fn identity(node: &NodeFacts, before: &[NodeFacts]) -> Option<Check> {
    let run = node.run.as_ref()?;
    let same = before.iter().find(|other| other.run.as_ref() == Some(run));
    Some(match same {
        None => Subject::Identity.ok(&node.place, "a server that no other node is"),
        Some(other) => Subject::Identity.fail(
            &node.place,
            format!("it is the same server as {}", other.place),
            "name another server instead: one can't have two votes",
        ),
    })
}

fn count(nodes: usize) -> Check {
    let spare = nodes - majority(nodes);
    let found = format!("{nodes}; {spare} may fail");
    if nodes % 2 == 1 {
        return Subject::Nodes.ok(ALL, found);
    }
    let advice = "take one away, or add one: an odd number survives as much with one node less";
    Subject::Nodes.warn(ALL, format!("{found}, as many as of {}", nodes - 1), advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn node(name: &str) -> NodeFacts {
        NodeFacts {
            place: name.to_owned(),
            reached: true,
            run: Some(name.to_owned()),
            ahead_ms: Some(0),
            members: Some(Vec::new()),
        }
    }

    fn worst(facts: &[NodeFacts]) -> Vec<Check> {
        let mut checks = judge_together(facts, "f00d");
        checks.retain(|check| check.level > Level::Ok);
        checks
    }

    #[test]
    fn three_that_answer_are_well_also_if_they_belong_here() {
        let mut facts = ["a", "b", "c"].map(node);
        assert_eq!(worst(&facts), []);
        facts[1].members = Some(vec!["node 2 of 3, f00d".to_owned()]);
        assert_eq!(worst(&facts), []);
        // What can't be read is not judged.
        facts[2].members = None;
        assert_eq!(worst(&facts), []);
    }

    #[test]
    fn a_node_that_is_down_is_named_and_two_of_three_are_too_many() {
        let mut facts = ["a", "b", "c"].map(node);
        facts[2] = NodeFacts { place: "c".to_owned(), ..NodeFacts::default() };
        let [only] = &worst(&facts)[..] else { panic!("{:?}", worst(&facts)) };
        assert_eq!((only.name, only.level), ("majority", Level::Warn));
        assert!(only.found.ends_with("missing: c"), "{only:?}");
        facts[1] = NodeFacts { place: "b".to_owned(), ..NodeFacts::default() };
        assert_eq!(worst(&facts)[0].level, Level::Fail);
    }

    #[test]
    fn a_foreign_membership_is_a_mistake_and_so_is_another_place_in_this_one() {
        let mut facts = ["a", "b", "c"].map(node);
        facts[0].members = Some(vec!["node 1 of 3, beef".to_owned()]);
        facts[1].members = Some(vec!["node 1 of 3, f00d".to_owned()]);
        let [one, other] = &worst(&facts)[..] else { panic!("{:?}", worst(&facts)) };
        assert_eq!((one.name, one.level), ("membership", Level::Fail));
        assert!(one.found.contains("belongs to another quorum"), "{one:?}");
        assert!(other.found.contains("is another node of this quorum, too"), "{other:?}");
    }

    #[test]
    fn one_server_by_two_names_is_a_mistake() {
        let mut facts = ["a", "b", "c"].map(node);
        facts[2].run = facts[0].run.clone();
        let [only] = &worst(&facts)[..] else { panic!("{:?}", worst(&facts)) };
        assert_eq!((only.name, only.level, only.node.as_str()), ("identity", Level::Fail, "c"));
        assert!(only.found.contains("same server as a"), "{only:?}");
    }

    #[test]
    fn an_even_number_is_one_too_many() {
        let facts = ["a", "b", "c", "d"].map(node);
        let [only] = &worst(&facts)[..] else { panic!("{:?}", worst(&facts)) };
        assert_eq!((only.name, only.level), ("nodes", Level::Warn));
        assert!(only.found.contains("4; 1 may fail, as many as of 3"), "{only:?}");
    }

    #[test]
    fn the_median_is_that_of_the_clocks_that_were_seen() {
        let with = |ahead_ms| NodeFacts { ahead_ms, ..NodeFacts::default() };
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[with(Some(5)), with(None), with(Some(-3)), with(Some(9))]), Some(5));
        assert_eq!(median(&[with(Some(5)), with(Some(1))]), Some(1));
    }
}
