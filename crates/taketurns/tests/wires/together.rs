//! Ours and strangers on the same names: never two holders, everybody has turns, and no other key is
//! touched. `WIRES_SECONDS=60` for longer than is good for every day.

use std::sync::Arc;
use std::time::{Duration, Instant};

use taketurns_servers::foreign::{Config, Foreign, Kind};
use taketurns_servers::turns::{Turn, Turns, check, least_turns};
use taketurns_servers::{Flavor, Server, on_both};

use super::turns::turn;
use super::*;

/// For how long.
pub(crate) fn seconds() -> f64 {
    let text = std::env::var("WIRES_SECONDS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(8.0)
}

const LOCKS: [&str; 2] = ["orders", "invoices/7"];

/// What strangers keep beside the locks, and nobody may touch.
const BYSTANDERS: [&str; 4] = ["orders2", "lock:other", "tt", "invoices"];

fn put_bystanders(server: &Server) {
    for key in BYSTANDERS {
        assert!(server.cli(&["SET", key, "mine"]).is_ok());
    }
}

/// They are as they were, and of the locks nothing is left but what one may keep.
fn are_untouched(server: &Server, left_over: &[&str]) {
    for key in BYSTANDERS {
        assert_eq!(server.cli(&["GET", key]).text(), Some("mine"), "{key}");
        assert_eq!(server.cli(&["TTL", key]).int(), Some(-1), "{key}");
    }
    let others: Vec<String> = foreign_keys(server)
        .into_iter()
        .filter(|key| !BYSTANDERS.contains(&key.as_str()))
        .filter(|key| !left_over.iter().any(|pattern| key.starts_with(pattern)))
        .collect();
    assert_eq!(others, [""; 0], "left behind");
}

/// Eight of ours, each with a connection of its own.
pub(crate) struct Ours<'a> {
    pub(crate) who: &'a str,
    pub(crate) url: &'a str,
    pub(crate) locks: &'a [&'a str],
    /// What they take of a lock.
    pub(crate) take: fn(&Locks, &str) -> Acquire,
    /// When they begin and end.
    pub(crate) from: f64,
    pub(crate) until: f64,
}

impl Ours<'_> {
    pub(crate) fn everyone(&self) -> Vec<String> {
        (0..8).map(|number| format!("{}-{number}", self.who)).collect()
    }

    /// They take turns all the time.
    pub(crate) async fn turns(&self, began: Instant) -> Vec<Turn> {
        let at = |seconds| began + Duration::from_secs_f64(seconds);
        let (from, until, take) = (at(self.from), at(self.until), self.take);
        tokio::time::sleep_until(from.into()).await;
        let noted = Arc::new(Turns::default());
        let mut clients = Vec::new();
        for (number, who) in self.everyone().into_iter().enumerate() {
            let client = soon("connecting", taketurns::connect(self.url)).await.expect("a server");
            let noted = noted.clone();
            let names: Vec<String> = self.locks.iter().map(ToString::to_string).collect();
            clients.push(tokio::spawn(async move {
                let mut round = number;
                while Instant::now() < until {
                    let acquire = take(&client, &names[round % names.len()]).lease(TTL);
                    let guard = soon("an acquire", acquire).await.expect("the lock");
                    round += 1;
                    let hold = Duration::from_millis(round as u64 % 11);
                    turn(guard, &who, hold, &noted).await.expect("held");
                    tokio::time::sleep(Duration::from_millis(round as u64 % 7)).await;
                }
                client.close().await;
            }));
        }
        for client in clients {
            client.await.expect("no panic");
        }
        noted.all()
    }
}

pub(crate) const TTL: Duration = Duration::from_secs(5);

/// Everybody was alone, and everybody had turns.
pub(crate) fn went_well(turns: &[Turn], everyone: impl IntoIterator<Item = String>) {
    check(turns);
    let (who, least) = least_turns(turns, everyone);
    let of_ours = turns.iter().filter(|turn| !turn.who.starts_with("theirs")).count();
    println!("{} turns, {of_ours} of ours; the fewest: {least}, by {who}", turns.len());
    assert!(least > 0, "{who} had no turn among {}", turns.len());
}

/// Ours and these strangers on one server, or on the nodes of one quorum.
pub(crate) fn together(kind: Kind, servers: &[Server], url: &str) {
    let seconds = seconds();
    let urls = servers.iter().map(Server::url);
    let config = Config {
        seconds,
        clients: 8,
        locks: LOCKS.map(str::to_owned).into(),
        ttl_ms: TTL.as_millis() as u64,
        ..Config::new("theirs", urls)
    };
    servers.iter().for_each(put_bystanders);
    let foreign = Foreign::start(kind, &config).expect("a program");
    let take = |locks: &Locks, name: &str| locks.mutex(name).acquire();
    let ours = Ours { who: "ours", url, locks: &LOCKS, take, from: 0.0, until: seconds };
    let mut turns = block_on(ours.turns(Instant::now()));
    turns.extend(foreign.turns().expect("nobody lost a lock before its time"));
    went_well(&turns, ours.everyone().into_iter().chain(config.everyone()));
    servers.iter().for_each(|server| are_untouched(server, &[]));
}

fn on_one(kind: Kind, flavor: Flavor) {
    let server = Server::start(flavor).expect("a server");
    let url = format!("{}?protocol=plain&unfenced=ok", server.url());
    together(kind, &[server], &url);
}

/// Five servers of both flavors, and Redlock over all of them.
fn on_five(kind: Kind) {
    use Flavor::{Redis, Valkey};
    let flavors = [Redis, Valkey, Redis, Valkey, Redis];
    let servers = flavors.map(|flavor| Server::start(flavor).expect("a server"));
    let urls = servers.iter().map(|server| format!("{}?protocol=plain&unfenced=ok", server.url()));
    let url = format!("quorum:{}", urls.collect::<Vec<_>>().join(","));
    together(kind, &servers, &url);
}

#[test]
fn on_five_servers_with_redlock_py() {
    on_five(Kind::RedlockPy);
}

#[test]
fn on_five_servers_with_node_redlock() {
    on_five(Kind::RedlockJs);
}

on_both! {
    fn with_redis_py(flavor: Flavor) {
        on_one(Kind::Plain, flavor);
    }

    fn with_redlock_py(flavor: Flavor) {
        on_one(Kind::RedlockPy, flavor);
    }

    fn with_node_redlock(flavor: Flavor) {
        on_one(Kind::RedlockJs, flavor);
    }
}
