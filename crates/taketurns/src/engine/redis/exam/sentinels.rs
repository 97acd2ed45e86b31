//! What Sentinels watch over: each of them, the master that they name, and those that follow it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Value, cmd};
use tokio::time::timeout;

use super::gather::{ExaminedKeys, ExaminedServer, ServerPart, look_at};
use super::judge::{ClockReference, judge};
use super::{followed, look_at_replicas};
use crate::doctor::{ALL, Check, Subject, list};
use crate::engine::redis::connection::connector::Connector;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::handshake::query::text;
use crate::engine::redis::handshake::requirements::Warning;
use crate::engine::redis::router::sentinel::Sentinels;
use crate::engine::redis::url::Address;
use crate::engine::redis::url::secret::Credentials;

/// For all questions to one of them together.
const WITHIN: Duration = Duration::from_secs(5);
/// Fewer can't agree once one is lost.
const SENTINELS_MIN: u64 = 3;

/// One of them.
struct Sentinel {
    address: Address,
    answer: Result<SentinelWord, Failure>,
}

/// What it says of the master.
struct SentinelWord {
    master: Address,
    /// How many there are by its count, itself included.
    sentinels: Option<u64>,
    /// Why they could not agree on another master, if so.
    no_quorum: Option<String>,
}

/// Gives the checks, and whether any of it answers.
pub(super) async fn examine(
    connector: &Connector,
    addresses: &[Address],
    master: &str,
    credentials: &Credentials,
) -> (Vec<Check>, bool) {
    let all = Sentinels::new(addresses.to_vec(), master.to_owned(), credentials.clone());
    let ask = |address: &Address| {
        let (all, address) = (&all, address.clone());
        let asking = async move {
            let late = || Err(Failure::Unreachable(format!("{address} does not answer in time")));
            let limit = connector.config.timeouts.stretch(WITHIN);
            let asked = timeout(limit, word(connector, all, &address, master, credentials));
            let answer = asked.await.unwrap_or_else(|_| late());
            Sentinel { address, answer }
        };
        Box::pin(asking) as Pin<Box<dyn Future<Output = Sentinel> + Send + '_>>
    };
    let found = join_all(addresses.iter().map(ask)).await;
    let mut reached = found.iter().any(|sentinel| sentinel.answer.is_ok());
    let mut checks = judge_sentinels(&found);
    if let Some(master) = master_of(&found) {
        let keys = ExaminedKeys { marker: Some(connector.config.marker_key()), registry: None };
        let master = look_at(connector, &master, ServerPart::Master, keys).await;
        reached |= master.answers.is_ok();
        let replicas = look_at_replicas(connector, std::slice::from_ref(&master)).await;
        for server in std::iter::once(&master).chain(&replicas) {
            checks.extend(judge(&connector.config, server, ClockReference::Ours));
            checks.extend(guarded(server));
        }
        checks.extend(followed(
            &master,
            &replicas,
            "REPLICAOF a server to it: there is none to fail over to",
        ));
    }
    (checks, reached)
}

async fn word(
    connector: &Connector,
    all: &Sentinels,
    address: &Address,
    master: &str,
    credentials: &Credentials,
) -> Result<SentinelWord, Failure> {
    let connection = connector.connect_plain(address, credentials).await?;
    let named = all.ask(&connection).await?;
    let ask = |what: &str| cmd("SENTINEL").arg(what).arg(master).take();
    let known = connection.send(&ask("MASTER")).await.ok();
    let quorum = connection.send(&ask("CKQUORUM")).await;
    let no_quorum = match quorum {
        Err(Failure::Broken(why)) if why.contains("NOQUORUM") => Some(why),
        _ => None,
    };
    let sentinels = known.and_then(|known| others(&known)).map(|others| others + 1);
    Ok(SentinelWord { master: named, sentinels, no_quorum })
}

/// How many others it knows, by what `SENTINEL MASTER` says.
fn others(known: &Value) -> Option<u64> {
    let mut pairs = known.as_map_iter()?;
    pairs.find_map(|(name, value)| {
        (text(name)? == "num-other-sentinels").then(|| text(value)?.parse().ok()).flatten()
    })
}

/// Whom most of them name.
fn master_of(sentinels: &[Sentinel]) -> Option<Address> {
    let named = || sentinels.iter().filter_map(|one| Some(&one.answer.as_ref().ok()?.master));
    let votes = |address: &&Address| named().filter(|other| other == address).count();
    named().max_by_key(votes).cloned()
}

fn judge_sentinels(sentinels: &[Sentinel]) -> Vec<Check> {
    let mut checks: Vec<Check> = sentinels.iter().map(reachable).collect();
    let words = || sentinels.iter().filter_map(|one| Some((one, one.answer.as_ref().ok()?)));
    let Some((_, first)) = words().next() else { return checks };
    checks.push(match words().all(|(_, word)| word.master == first.master) {
        true => Subject::Agreement.ok(ALL, format!("they name {} as the master", first.master)),
        false => {
            let named = words().map(|(one, word)| format!("{} names {}", one.address, word.master));
            Subject::Agreement.fail(
                ALL,
                format!("they disagree about the master: {}", list(named)),
                "if no fail-over is under way: SENTINEL RESET the master at those that are wrong",
            )
        }
    });
    // The one that knows of most is the one to believe: they forget none.
    let count = words().filter_map(|(_, word)| word.sentinels).max();
    let count = count.unwrap_or(sentinels.len() as u64).max(sentinels.len() as u64);
    checks.push(match words().find_map(|(_, word)| word.no_quorum.as_ref()) {
        Some(why) => Subject::Sentinels.fail(
            ALL,
            format!("they can't fail over: {why}"),
            "start those that are missing, or correct the quorum of `sentinel monitor`",
        ),
        None if count < SENTINELS_MIN => Subject::Sentinels.warn(
            ALL,
            format!("there are {count}: when one is lost, the others can't agree on a new master"),
            "run three or more, on machines that do not fail together",
        ),
        None => Subject::Sentinels.ok(ALL, format!("there are {count}, and they can fail over")),
    });
    checks
}

fn reachable(sentinel: &Sentinel) -> Check {
    match &sentinel.answer {
        Ok(_) => Subject::Reachable.ok(&sentinel.address, "it answers, a Sentinel"),
        Err(failure) => {
            let advice = match failure {
                Failure::Broken(_) => {
                    "correct what the URL says: the master's name, who is a Sentinel, and how to log in \
                     there (sentinel_password_file=)"
                }
                _ => "start this Sentinel, or correct host and port in the URL",
            };
            Subject::Reachable.fail(&sentinel.address, failure.clone().said(), advice)
        }
    }
}

/// Does a master that was cut off stop taking writes? Each of them may be the master.
fn guarded(server: &ExaminedServer) -> Option<Check> {
    let lag = server.answers.as_ref().ok()?.lag;
    Some(match lag {
        Some(lag) => Subject::MinReplicas.ok(
            &server.address,
            format!("as a master it stops taking writes {} s after its last replica", lag.as_secs()),
        ),
        None => Subject::MinReplicas.warn(
            &server.address,
            Warning::Unguarded.to_string(),
            "CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 10, on all servers and in their \
             files; for us to see it: +config|get",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn at(port: u16) -> Address {
        Address { host: "h".to_owned(), port }
    }

    fn one(port: u16, master: u16, sentinels: u64) -> Sentinel {
        let word = SentinelWord { master: at(master), sentinels: Some(sentinels), no_quorum: None };
        Sentinel { address: at(port), answer: Ok(word) }
    }

    fn down(port: u16) -> Sentinel {
        Sentinel { address: at(port), answer: Err(Failure::Unreachable("gone".to_owned())) }
    }

    fn levels(sentinels: &[Sentinel]) -> Vec<(&'static str, Level)> {
        let checks = judge_sentinels(sentinels);
        checks.iter().map(|check| (check.name, check.level)).collect()
    }

    #[test]
    fn three_that_agree_are_well() {
        let all = [one(1, 9, 3), one(2, 9, 3), one(3, 9, 3)];
        assert!(levels(&all).iter().all(|(_, level)| *level == Level::Ok));
        assert_eq!(master_of(&all), Some(at(9)));
    }

    #[test]
    fn those_who_disagree_are_named_and_most_are_believed() {
        let all = [one(1, 8, 3), one(2, 9, 3), one(3, 9, 3)];
        assert_eq!(master_of(&all), Some(at(9)));
        assert!(levels(&all).contains(&("agreement", Level::Fail)));
        let found = &judge_sentinels(&all)[3].found;
        assert!(found.contains("h:1 names h:8, h:2 names h:9"), "{found}");
    }

    #[test]
    fn two_are_too_few_and_one_that_is_down_is_named() {
        let found = levels(&[one(1, 9, 2), down(2)]);
        assert!(found.contains(&("reachable", Level::Fail)), "{found:?}");
        assert!(found.contains(&("sentinels", Level::Warn)), "{found:?}");
        // It knows of more than the URL.
        assert!(levels(&[one(1, 9, 3)]).contains(&("sentinels", Level::Ok)));
        assert_eq!(levels(&[down(1)]), [("reachable", Level::Fail)]);
        let strange = Failure::Broken("it knows no such master".to_owned());
        let strange = Sentinel { address: at(1), answer: Err(strange) };
        let advice = |sentinel| reachable(sentinel).advice.expect("one");
        assert!(advice(&strange).contains("the master's name"));
        assert!(advice(&down(1)).starts_with("start this Sentinel"));
        assert_eq!(master_of(&[down(1)]), None);
    }

    #[test]
    fn those_that_can_t_fail_over_say_so() {
        let mut lame = one(1, 9, 3);
        if let Ok(word) = &mut lame.answer {
            word.no_quorum = Some("NOQUORUM 1 usable".to_owned());
        }
        assert!(levels(&[lame, down(2), down(3)]).contains(&("sentinels", Level::Fail)));
    }
}
