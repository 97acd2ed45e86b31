//! The scripts against core: the same random requests at the same times give the same replies, the
//! same wake-ups and the same state, on real servers.
//!
//! Everything comes from a seed, and a failure names it: `TAKETURNS_SEED=… cargo test -p taketurns
//! differential` repeats it. `TAKETURNS_REQUESTS` sets how many requests are tried.

mod ballots;
mod crowds;
mod hash;
mod life;
mod sight;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use taketurns_core::wire::{self, SealedWake, Verb, WireReply, sha1_hex};
use taketurns_core::{Now, Owner, Reply, Request, Wake, WakeEvent, limits};
use taketurns_servers::resp::{self, Connection};
use taketurns_servers::{Flavor, Server};

use super::scripts::{ScriptBinding, TimeFrom, text};
use life::Life;
use sight::ViewBefore;

/// How many requests in CI, over all lives and both servers.
const REQUESTS: usize = 168_000;
/// How many requests are sent before their replies are read.
const BATCH: usize = 200;
const LIFE: usize = 2_000;
/// How many requests there are between two comparisons of the state: an error that happened stays
/// visible.
const LOOK: usize = 4;

/// One request, what core did with it, and the state after it.
struct ExpectedStep {
    now: Now,
    binding: ScriptBinding,
    request: Request,
    reply: Reply,
    timed: bool,
    more: bool,
    wakes: Vec<Wake>,
    /// Is all that is stored compared? It takes long.
    look: bool,
    /// What people saw just before it.
    sight: Option<ViewBefore>,
    state: serde_json::Value,
    forget_at_ms: Option<u64>,
}

/// The wake-up that tells a client that somebody wants the lock that it keeps.
const WANTED: &str = "wanted";

/// What a lock does as one node's part of a quorum.
const QUORUM: [&str; 3] = ["inquired", "gave way", "written back"];

impl ExpectedStep {
    fn of_a_quorum(&self) -> [Option<&'static str>; 3] {
        let inquired = |wake: &Wake| matches!(wake.event, WakeEvent::Inquired { .. });
        let gave_way = match (&self.request, &self.reply) {
            (Request::Acquire(acquire), Reply::Queued(_)) => {
                let granted = |wake: &Wake| matches!(wake.event, WakeEvent::Granted(_));
                let yields = acquire.ballot.and_then(|ballot| ballot.yields);
                yields.is_some() && self.wakes.iter().any(granted)
            }
            _ => false,
        };
        let written_back = match (&self.request, &self.reply) {
            (Request::Renew { write_back: Some(written), .. }, Reply::Renewed(grant)) => {
                grant.token.is_some_and(|token| token.raw() == written.token)
            }
            _ => false,
        };
        let is = [self.wakes.iter().any(inquired), gave_way, written_back];
        std::array::from_fn(|at| is[at].then_some(QUORUM[at]))
    }
}

#[test]
fn redis_scripts_do_what_core_does() {
    compare(Flavor::Redis);
}

#[test]
fn valkey_scripts_do_what_core_does() {
    compare(Flavor::Valkey);
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn compare(flavor: Flavor) {
    let server = Server::start(flavor).expect("a server");
    let mut rig = Rig::new(&server);
    let lives = number("TAKETURNS_REQUESTS").map_or(REQUESTS / 2, |n| n as usize) / LIFE;
    let fixed = number("TAKETURNS_SEED");
    let first = fixed.unwrap_or(if flavor == Flavor::Redis { 1 } else { 1_000_001 });
    let mut seen = BTreeMap::new();
    for seed in first..first + if fixed.is_some() { 1 } else { lives.max(4) as u64 } {
        let mut life = Life::new(seed);
        let mut tried = 0;
        while tried < LIFE {
            let batch: Vec<ExpectedStep> = (0..BATCH).map(|at| life.step(at % LOOK == 0)).collect();
            tried += batch.len();
            for one in &batch {
                let what = format!("{:?}", one.reply);
                let what = what.split(['(', ' ']).next().unwrap_or_default().to_owned();
                *seen.entry(what).or_insert(0) += 1;
                let quorum = one.of_a_quorum().into_iter().flatten();
                quorum.for_each(|what| *seen.entry(what.to_owned()).or_insert(0) += 1);
                let wanted = |wake: &Wake| matches!(wake.event, WakeEvent::Wanted { .. });
                if one.wakes.iter().any(wanted) {
                    *seen.entry(WANTED.to_owned()).or_insert(0) += 1;
                }
            }
            rig.play(seed, &batch);
        }
        rig.connection.command(&["DEL", KEY]).expect("the server answers");
    }
    // A test of nothing would pass too.
    let replies = [
        "Granted",
        "Queued",
        "Busy",
        "Kept",
        "Refreshed",
        "Renewed",
        "Revoked",
        "Released",
        "Left",
        "DoneBefore",
        WANTED,
    ];
    for what in replies.into_iter().chain(QUORUM).filter(|_| fixed.is_none()) {
        assert!(seen.get(what).is_some_and(|count| *count > 50), "{what} hardly came: {seen:?}");
    }
}

const KEY: &str = "tt:lock";
const CHANNEL: &str = "tt:wake:";

/// A server, and what is known of it.
struct Rig {
    connection: Connection,
    ear: Connection,
    loaded: BTreeMap<(String, u8), String>,
}

impl Rig {
    fn new(server: &Server) -> Self {
        let connection = server.connect().expect("a connection");
        let mut ear = server.connect().expect("a connection");
        ear.set_timeout(Duration::from_secs(30)).expect("a timeout");
        ear.command(&["PSUBSCRIBE", "tt:wake:*"]).expect("subscribed");
        Self { connection, ear, loaded: BTreeMap::new() }
    }

    fn sha(&mut self, verb: Verb, binding: &ScriptBinding) -> String {
        let key = (format!("{binding:?}"), verb as u8);
        if let Some(sha) = self.loaded.get(&key) {
            return sha.clone();
        }
        let text = text(verb, binding, TimeFrom::Key);
        let loaded = self.connection.command(&["SCRIPT", "LOAD", &text]).expect("loaded");
        let sha = loaded.text().unwrap_or_else(|| panic!("{verb:?}: {loaded}")).to_owned();
        assert_eq!(sha, sha1_hex(&text));
        self.loaded.insert(key, sha.clone());
        sha
    }

    /// Sends all, then reads all: a round trip for each would take most of the time.
    fn play(&mut self, seed: u64, batch: &[ExpectedStep]) {
        let mut sent = Vec::new();
        for one in batch {
            let (verb, args) = wire::encode_request(&one.request);
            let view = one.sight.as_ref().map(|_| self.sha(Verb::View, &one.binding));
            sent.push((view, self.sha(verb, &one.binding), args));
        }
        for (one, (view, sha, args)) in batch.iter().zip(sent) {
            if let (Some(sight), Some(view)) = (&one.sight, view) {
                self.connection.send(&sight.words(&view, one.now)).expect("sent");
            }
            self.connection.send(&words(sha, args, one.now)).expect("sent");
            if one.look {
                self.connection.send(&["HGETALL", KEY]).expect("sent");
                self.connection.send(&["PEXPIRETIME", KEY]).expect("sent");
            }
        }
        for one in batch {
            let case =
                || format!("seed {seed} at {:?}: {:?}\n{:#?}", one.now, one.request, one.state);
            if let Some(sight) = &one.sight {
                let shown = self.connection.read().expect("a view");
                sight.compare(&shown).unwrap_or_else(|why| panic!("{why}\n{}", case()));
            }
            let reply = self.connection.read().expect("a reply");
            let now_ms = one.timed.then_some(one.now.ms);
            let expected = WireReply { now_ms, more: one.more, reply: one.reply.clone() };
            let text = reply.text().unwrap_or_else(|| panic!("{reply}\n{}", case()));
            assert_eq!(text, wire::encode(&expected), "reply\n{}", case());
            if !one.look {
                continue;
            }
            let stored = self.connection.read().expect("the hash");
            let expires = self.connection.read().expect("its end");
            let expires = expires.int().expect("a time");
            let state =
                hash::canonical(&stored, expires).unwrap_or_else(|why| panic!("{why}\n{}", case()));
            assert_eq!(state, one.state, "state\n{}", case());
            assert!(self::expires(one).contains(&expires), "it expires at {expires}\n{}", case());
        }
        self.check_wakes(seed, batch);
    }

    /// The reply to one request.
    fn reply(&mut self, request: &Request, binding: &ScriptBinding, now: Now) -> Reply {
        let (verb, args) = wire::encode_request(request);
        let sha = self.sha(verb, binding);
        self.connection.send(&words(sha, args, now)).expect("sent");
        let reply = self.connection.read().expect("a reply");
        let answered = reply.text().and_then(|text| wire::decode(text, |_| None));
        answered.unwrap_or_else(|| panic!("{request:?}: {reply}")).reply
    }

    /// Exactly those wake-ups that core had, in its order.
    fn check_wakes(&mut self, seed: u64, batch: &[ExpectedStep]) {
        let end = "tt:wake:end";
        self.connection.command(&["PUBLISH", end, "end"]).expect("published");
        for wake in batch.iter().flat_map(|one| &one.wakes) {
            let (channel, message) = self.heard();
            assert_eq!(channel, format!("{CHANNEL}{}", wake.client), "seed {seed}");
            let sealed = SealedWake::parse(message.as_bytes()).expect("a wake-up");
            assert_eq!(sealed.id, wire::public_id(wake.owner), "seed {seed}");
            assert_eq!(sealed.open(wake.owner).as_ref(), Some(&wake.event), "seed {seed}");
            let stranger = Owner::from_bits(wake.owner.expose() ^ 1);
            assert_eq!(sealed.open(stranger), None, "opened with another's secret");
        }
        assert_eq!(self.heard().0, end, "seed {seed}: more wake-ups than core had");
    }

    fn heard(&mut self) -> (String, String) {
        let push = self.ear.read().expect("a message");
        let words = push.array().expect("a message");
        let word = |at: usize| words[at].text().expect("text").to_owned();
        (word(2), word(3))
    }
}

/// A script's call, at this time.
fn words(sha: String, args: Vec<Vec<u8>>, now: Now) -> Vec<Vec<u8>> {
    let now_us = now.wall_us.to_string();
    let words = ["EVALSHA", &sha, "2", KEY, &now_us].map(|word| word.as_bytes().to_vec());
    words.into_iter().chain(args).collect()
}

/// What PEXPIRETIME may say: -2 for no key, -1 for one that stays.
fn expires(one: &ExpectedStep) -> RangeInclusive<i64> {
    if one.state.is_null() {
        return -2..=-2;
    }
    one.forget_at_ms
        .map_or(-1..=-1, |at_ms| at_ms as i64..=(at_ms + limits::EXPIRY_SLACK_MS) as i64)
}

/// Kept here so that the two submodules agree on what a reply of the server is.
type Stored = resp::ServerReply;
