//! Ours and foreign clients on the same names: never two holders, everybody has turns, and no other key is
//! touched. `FOREIGN_SECONDS=60` for longer than is good for every day.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use taketurns_servers::foreign::{ForeignClients, ForeignConfig, ForeignKind};
use taketurns_servers::turns::{TurnLog, TurnRecord, check, least_turns};
use taketurns_servers::{Flavor, Server, on_both};

use super::*;
use crate::support::turns::turn;

/// For how long.
pub(crate) fn seconds() -> f64 {
    let text = std::env::var("FOREIGN_SECONDS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(2.0)
}

const LOCKS: [&str; 2] = ["orders", "invoices/7"];

/// What foreign clients keep beside the locks, and nobody may touch.
const BYSTANDERS: [&str; 4] = ["orders2", "lock:other", "tt", "invoices"];

fn put_bystanders(server: &Server) {
    for key in BYSTANDERS {
        assert!(server.cli(&["SET", key, "mine"]).is_ok());
    }
}

/// Of the locks.
fn nothing(_key: &str) -> bool {
    false
}

/// They are as they were, and of the locks nothing is left but what may stay.
fn are_untouched(server: &Server, may_stay: fn(&str) -> bool) {
    for key in BYSTANDERS {
        assert_eq!(server.cli(&["GET", key]).text(), Some("mine"), "{key}");
        assert_eq!(server.cli(&["TTL", key]).int(), Some(-1), "{key}");
    }
    let others: Vec<String> = foreign_keys(server)
        .into_iter()
        .filter(|key| !BYSTANDERS.contains(&key.as_str()))
        .filter(|key| !may_stay(key))
        .collect();
    assert_eq!(others, [""; 0], "left behind");
}

/// Eight of ours, each with a connection of its own.
pub(crate) struct OurClients<'a> {
    pub(crate) who: &'a str,
    pub(crate) url: &'a str,
    pub(crate) locks: &'a [&'a str],
    /// What they take of a lock.
    pub(crate) take: fn(&Locks, &str) -> Acquire,
}

/// It has come to an end.
pub(crate) type EndFlag = Arc<AtomicBool>;

/// Something that ends after so long.
pub(crate) async fn after(seconds: f64, ends: &EndFlag) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    ends.store(true, Ordering::Relaxed);
}

impl OurClients<'_> {
    pub(crate) fn everyone(&self) -> Vec<String> {
        (0..8).map(|number| format!("{}-{number}", self.who)).collect()
    }

    /// They take turns all the time until it ends, and each at least one.
    pub(crate) async fn turns(&self, ends: &EndFlag) -> Vec<TurnRecord> {
        let take = self.take;
        let noted = Arc::new(TurnLog::default());
        let mut clients = Vec::new();
        for (number, who) in self.everyone().into_iter().enumerate() {
            // What is handed over is held for this long at first.
            let connect = Connect::new(self.url).waiter_lease(TTL);
            let client = soon("connecting", connect.open()).await.expect("a server");
            let (noted, ends) = (noted.clone(), ends.clone());
            let names: Vec<String> = self.locks.iter().map(ToString::to_string).collect();
            clients.push(tokio::spawn(async move {
                let mut round = number;
                // Once, however late it begins.
                loop {
                    let acquire = take(&client, &names[round % names.len()]).lease(TTL);
                    let guard = soon("an acquire", acquire).await.expect("the lock");
                    round += 1;
                    let hold = Duration::from_millis(round as u64 % 11);
                    turn(guard, &who, hold, &noted).await.expect("held");
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
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

pub(crate) const TTL: Duration = Duration::from_secs(30);

/// Everybody was alone, and everybody had turns.
pub(crate) fn went_well(turns: &[TurnRecord], everyone: impl IntoIterator<Item = String>) {
    check(turns);
    let of_ours = turns.iter().filter(|turn| !turn.who.starts_with("theirs")).count();
    println!("{} turns, {of_ours} of ours", turns.len());
    assert!(of_ours > 0 && of_ours < turns.len(), "one fleet had no turn: {of_ours}");
    let mut everyone = everyone.into_iter().peekable();
    if everyone.peek().is_some() {
        let (who, least) = least_turns(turns, everyone);
        println!("the fewest: {least}, by {who}");
        assert!(least > 0, "{who} had no turn among {}", turns.len());
    }
}

/// Foreign clients, and how ours meet them.
pub(crate) struct Meeting<'a> {
    pub(crate) kind: ForeignKind,
    /// One, or all nodes of a quorum.
    pub(crate) servers: &'a [Server],
    pub(crate) url: &'a str,
    pub(crate) take: fn(&Locks, &str) -> Acquire,
}

pub(crate) fn a_mutex(locks: &Locks, name: &str) -> Acquire {
    locks.mutex(name).acquire()
}

pub(crate) fn any_member(locks: &Locks, name: &str) -> Acquire {
    locks.pool(name).any()
}

/// Foreign clients who take turns already: those who would rather look at a free lock have seen one.
pub(crate) fn foreign_clients(kind: ForeignKind, config: &ForeignConfig) -> ForeignClients {
    let foreign = ForeignClients::start(kind, config).expect("a program");
    let begun = || foreign.so_far().ok().filter(|turns| !turns.is_empty());
    eventually("foreign clients take turns", begun).expect("a turn");
    foreign
}

impl Meeting<'_> {
    /// Eight foreign clients, for as long as is asked for.
    pub(crate) fn config(&self) -> ForeignConfig {
        ForeignConfig {
            seconds: seconds(),
            clients: 8,
            locks: LOCKS.map(str::to_owned).into(),
            ttl_ms: TTL.as_millis() as u64,
            ..ForeignConfig::new("theirs", self.servers.iter().map(Server::url))
        }
    }

    /// Everybody is alone, everybody has turns, and nothing else is touched.
    pub(crate) fn takes_place(&self, config: &ForeignConfig, may_stay: fn(&str) -> bool) {
        self.servers.iter().for_each(put_bystanders);
        let foreign = foreign_clients(self.kind, config);
        let ours = OurClients { who: "ours", url: self.url, locks: &LOCKS, take: self.take };
        let ends = EndFlag::default();
        let (mut turns, ()) =
            block_on(async { tokio::join!(ours.turns(&ends), after(config.seconds, &ends)) });
        turns.extend(foreign.turns().expect("nobody lost a lock before its time"));
        // Who stands in no queue may be unlucky for some seconds, but not for a minute: foreign clients who poll,
        // and ours where they poll too.
        let is_long = config.seconds >= 60.0;
        let mut everyone = Vec::new();
        if is_long || self.servers.len() == 1 {
            everyone.extend(ours.everyone());
        }
        if is_long {
            everyone.extend(config.everyone());
        }
        went_well(&turns, everyone);
        self.servers.iter().for_each(|server| are_untouched(server, may_stay));
    }
}

fn on_one(kind: ForeignKind, flavor: Flavor) {
    let server = Server::start(flavor).expect("a server");
    let url = format!("{}?protocol=plain&unfenced=ok", server.url());
    let meeting = Meeting { kind, servers: &[server], url: &url, take: a_mutex };
    meeting.takes_place(&meeting.config(), nothing);
}

/// Five servers of both flavors, and Redlock over all of them.
fn on_five(kind: ForeignKind) {
    use Flavor::{Redis, Valkey};
    let flavors = [Redis, Valkey, Redis, Valkey, Redis];
    let servers = flavors.map(|flavor| Server::start(flavor).expect("a server"));
    let urls = servers.iter().map(|server| format!("{}?protocol=plain&unfenced=ok", server.url()));
    let url = format!("quorum:{}", urls.collect::<Vec<_>>().join(","));
    let meeting = Meeting { kind, servers: &servers, url: &url, take: a_mutex };
    meeting.takes_place(&meeting.config(), nothing);
}

/// By the document, or by redturn.ts, which ends with an error at whatever it would die of.
fn by_redturn(flavor: Flavor, shipped: bool) {
    let server = Server::start(flavor).expect("a server");
    let url = format!("{}?protocol=redturn&unfenced=ok", server.url());
    let meeting =
        Meeting { kind: ForeignKind::Redturn, servers: &[server], url: &url, take: a_mutex };
    meeting.takes_place(&ForeignConfig { shipped, ..meeting.config() }, nothing);
}

/// Runs both kinds of clients on these members of each set.
fn by_zmutex(server: Server, members: &[&str], remove: bool, shipped: bool) {
    let url = format!("{}?protocol=zmutex&timeout=30&unfenced=ok", server.url());
    let kind = ForeignKind::ZMutex;
    let meeting = Meeting { kind, servers: &[server], url: &url, take: any_member };
    let members = members.iter().map(ToString::to_string).collect();
    let retry_ms = (!shipped).then_some(20);
    let config = ForeignConfig { retry_ms, members, remove, shipped, ..meeting.config() };
    // Members do.
    meeting.takes_place(&config, |key| LOCKS.contains(&key));
}

#[test]
fn on_five_servers_with_redlock_py() {
    on_five(ForeignKind::RedlockPy);
}

#[test]
fn on_five_servers_with_node_redlock() {
    on_five(ForeignKind::RedlockJs);
}

on_both! {
    fn with_redis_py(flavor: Flavor) {
        on_one(ForeignKind::Plain, flavor);
    }

    fn with_redlock_py(flavor: Flavor) {
        on_one(ForeignKind::RedlockPy, flavor);
    }

    fn with_node_redlock(flavor: Flavor) {
        on_one(ForeignKind::RedlockJs, flavor);
    }

    fn by_fairqueue(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let url = format!("{}?protocol=fairqueue&unfenced=ok", server.url());
        let meeting = Meeting { kind: ForeignKind::FairQueue, servers: &[server], url: &url, take: a_mutex };
        let config = ForeignConfig { ttl_ms: 1_000, ..meeting.config() };
        // By the letter nobody can give up, and calls have no end: what they leave is theirs. Ours are
        // called by a hash.
        meeting.takes_place(&config, |key| match key.strip_prefix("lock-notify:") {
            Some(token) => token.len() != 40,
            None => key.starts_with("lock:") || key.starts_with("lock-queue:"),
        });
    }

    fn by_fairqueue_as_it_is_shipped(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let url = format!("{}?protocol=fairqueue&unfenced=ok", server.url());
        let meeting = Meeting { kind: ForeignKind::FairQueue, servers: &[server], url: &url, take: a_mutex };
        let config = ForeignConfig { shipped: true, ..meeting.config() };
        // A call that nobody hears lives for 10 s.
        meeting.takes_place(&config, |key| key.starts_with("lock-notify:"));
    }

    fn with_python_redis_lock(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let url = format!("{}?protocol=python-redis-lock&unfenced=ok", server.url());
        let kind = ForeignKind::PythonRedisLock;
        let meeting = Meeting { kind, servers: &[server], url: &url, take: a_mutex };
        // The last signal of a lock lives for a second.
        meeting.takes_place(&meeting.config(), |key| key.starts_with("lock-signal:"));
    }

    fn by_redturn_in_the_words_of_its_document(flavor: Flavor) {
        by_redturn(flavor, false);
    }

    fn by_redturn_as_it_is_shipped(flavor: Flavor) {
        by_redturn(flavor, true);
    }

    fn by_zmutex_on_one_member(flavor: Flavor) {
        by_zmutex(Server::start(flavor).expect("a server"), &["a"], false, false);
    }

    fn by_zmutex_with_clients_who_remove_and_create(flavor: Flavor) {
        by_zmutex(Server::start(flavor).expect("a server"), &["a", "b"], true, false);
    }

    fn by_zmutex_as_it_is_shipped(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        server.cli(&["CONFIG", "SET", "notify-keyspace-events", "Kz"]);
        by_zmutex(server, &["a", "b", "c"], false, true);
    }
}
