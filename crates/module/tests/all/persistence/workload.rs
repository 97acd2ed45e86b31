//! Everything that can be done to a few locks, in a random order from a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use taketurns_core::wire::decode;
use taketurns_core::{
    AcquireRequest, Ask, Ballot, ClientId, Label, Lock, Member, Owner, Reply as Said, Request,
    Snapshot, WriteBack,
};
use taketurns_servers::fuzz::Dice;
use taketurns_servers::{Server, ServerReply, eventually};

use crate::persistence::payload::ours;
use crate::persistence::program::Program;
use crate::persistence::support::{Client, HeldLock};

const KEYS: u64 = 8;
const CLIENTS: usize = 6;

/// What clients ask of a lock: one kind for each key, and now and then another.
const ASKS: [&[&str]; 4] = [
    &[""],
    &[" SHARED", " SHARED", " EXCLUSIVE"],
    &[" PERMITS 1 3", " PERMITS 2 3", " PERMITS 3 3"],
    &[" ANY", " MEMBER x", " MEMBER y", " MEMBER z"],
];

/// Clients and programs that use a few locks of one server.
pub(crate) struct Workload<'a> {
    server: &'a Server,
    dice: Dice,
    /// With the key for which it is blocked.
    clients: Vec<(Client, Option<String>)>,
    programs: Vec<Program>,
    held: Vec<(String, HeldLock)>,
    owners: Vec<(String, Owner, ClientId)>,
    /// Grants that were asked for with a ballot, by number.
    votes: Vec<(String, Owner, u64)>,
}

impl<'a> Workload<'a> {
    pub(crate) fn new(server: &'a Server, seed: u64) -> Self {
        println!("the workload's seed is {seed:#x}");
        Self {
            server,
            dice: Dice::new(seed),
            clients: (0..CLIENTS).map(|_| (Client::of(server), None)).collect(),
            programs: (1..4).map(|number| Program::of(server, "", number)).collect(),
            held: Vec::new(),
            owners: Vec::new(),
            votes: Vec::new(),
        }
    }

    pub(crate) fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            let at = self.dice.below(CLIENTS);
            if self.clients[at].1.is_some() {
                self.end_of_a_wait(at);
            } else {
                self.step(at);
            }
        }
    }

    /// Closes all connections, and waits until the server has noticed.
    pub(crate) fn end(self) {
        let server = self.server;
        drop(self);
        eventually("nobody is blocked or bound any more", || {
            let info = server.info("fencelock");
            let none = |name: &str| info.get(name).is_some_and(|count| count == "0");
            (none("fencelock_blocked_clients") && none("fencelock_bound_locks")).then_some(())
        })
        .expect("an end");
    }

    /// Ends a short wait: it times out, or the connection closes.
    fn end_of_a_wait(&mut self, at: usize) {
        if self.dice.below(4) == 0 {
            self.clients[at] = (Client::of(self.server), None);
            return;
        }
        let (client, waits) = &mut self.clients[at];
        let key = waits.take().expect("it waits");
        let reply = client.reply();
        self.held.extend(HeldLock::of(&reply).map(|held| (key, held)));
    }

    fn step(&mut self, at: usize) {
        let number = self.dice.between(0, KEYS - 1);
        let key = format!("k{number}");
        match self.dice.below(100) {
            0..30 => self.acquire(at, key, number),
            30..42 => self.with_secret(at, "RELEASE", ""),
            42..50 => self.with_secret(at, "RENEW", " 700 MS"),
            50..55 => self.check(at, &key),
            55..58 => self.say(at, &format!("FENCELOCK.BREAK {key} NOW")),
            58..60 => self.say(at, &format!("FENCELOCK.BREAK {key}")),
            60..66 => self.members(at, &key),
            66..82 => self.program(&key, number),
            82..86 => self.clients[at] = (Client::of(self.server), None),
            _ => self.key(at, &key),
        }
    }

    fn say(&mut self, at: usize, text: &str) {
        let reply = self.clients[at].0.say(text);
        let is_bug = reply.error().is_some_and(|error| error.contains("bug"));
        assert!(!is_bug, "{text}: {reply}");
    }

    fn acquire(&mut self, at: usize, key: String, number: u64) {
        let kind = if self.dice.below(8) == 0 { self.dice.any() } else { number };
        let asks = ASKS[(kind % 4) as usize];
        let ask = self.dice.one_of(asks);
        let lease_ms = self.dice.between(10, 609);
        let label = self.dice.one_of(&["", " LABEL somebody"]);
        let bound = self.dice.one_of(&["", "", " BOUND"]);
        let words = format!("FENCELOCK.ACQUIRE {key} {lease_ms} MS{ask}{label}{bound}");
        let (client, waits) = &mut self.clients[at];
        if self.dice.below(3) > 0 {
            let wait = format!("{words} WAIT 0.0{}", 1 + self.dice.below(5));
            let words: Vec<&str> = wait.split(' ').collect();
            client.0.send(&words).expect("sent");
            *waits = Some(key);
        } else {
            let reply = client.say(&words);
            self.held.extend(HeldLock::of(&reply).map(|held| (key, held)));
        }
    }

    /// Mostly with a valid secret.
    fn with_secret(&mut self, at: usize, command: &str, rest: &str) {
        if self.held.is_empty() {
            return;
        }
        let index = self.dice.below(self.held.len());
        let (key, held) = match command {
            "RELEASE" => self.held.swap_remove(index),
            _ => self.held[index].clone(),
        };
        let secret = if self.dice.below(10) == 0 { 1 } else { held.secret };
        self.say(at, &format!("FENCELOCK.{command} {key} {secret}{rest}"));
    }

    fn check(&mut self, at: usize, key: &str) {
        let newest = self.clients[at].0.time_us() as i64;
        let given = self.held.last().map_or(newest, |(_, held)| held.token);
        let token = self.dice.one_of(&[newest, given, 5]);
        self.say(at, &format!("FENCELOCK.CHECK {key} {token}"));
    }

    fn members(&mut self, at: usize, key: &str) {
        let what = self.dice.one_of(&["ADD", "ADD", "REM"]);
        let members = self.dice.one_of(&["x", "y", "z", "x y z"]);
        self.say(at, &format!("FENCELOCK.POOL {what} {key} {members}"));
    }

    fn program(&mut self, key: &str, number: u64) {
        let at = self.dice.below(self.programs.len());
        let client = self.programs[at].id();
        let dice = &mut self.dice;
        let known = (!self.owners.is_empty()).then(|| dice.one_of(&self.owners).clone());
        let (known_key, owner, _) = known.unwrap_or((key.to_owned(), Owner::from_bits(0), client));
        let (key, request) = match dice.below(16) {
            0..5 => {
                let owner = Owner::from_bits(dice.any().into());
                self.owners.push((key.to_owned(), owner, client));
                let ballot = (dice.below(2) == 0).then(|| ballot(dice, None));
                (key.to_owned(), acquire(dice, number, owner, client, ballot))
            }
            5 | 6 => (known_key, Request::Renew { owner, client, lease_ms: 400, write_back: None }),
            7 => (known_key, Request::Release { owner, bury_until_ms: 0, last_used: None }),
            8 => (known_key, Request::Release { owner, bury_until_ms: u64::MAX, last_used: None }),
            9 => (key.to_owned(), Request::Refresh { client, waiter_lease_ms: 300 }),
            10 => (key.to_owned(), Request::Tick),
            11 => (key.to_owned(), Request::Resize { permits: 2 + dice.below(3) as u32 }),
            12 => {
                let ballot = ballot(dice, None);
                (known_key, acquire(dice, 0, owner, client, Some(ballot)))
            }
            _ if self.votes.is_empty() => (key.to_owned(), Request::Tick),
            // Mostly of a lock that is still held.
            what => {
                let last = self.votes.len() - 1;
                let (key, owner, number) = self.votes[last - dice.below(3).min(last)].clone();
                let request = if what == 13 {
                    let ballot = ballot(dice, Some(number));
                    acquire(dice, 0, owner, client, Some(ballot))
                } else {
                    let token = dice.between(number, number + 1_999);
                    let number = number + u64::from(dice.below(8) == 0);
                    let write_back = Some(WriteBack { number, token });
                    Request::Renew { owner, client, lease_ms: 400, write_back }
                };
                (key, request)
            }
        };
        let reply = self.programs[at].ask(&key, &request);
        let answered = reply.text().and_then(|text| decode(text, |_| None));
        if let (Request::Acquire(acquire), Some(Said::Granted(grant))) =
            (&request, answered.map(|answered| answered.reply))
        {
            let vote = grant.vote.map(|vote| (key, acquire.owner, vote.number));
            self.votes.extend(vote);
        }
    }

    /// Runs a command that any client may run on any key.
    fn key(&mut self, at: usize, key: &str) {
        let other = format!("k{}", self.dice.between(0, KEYS - 1));
        let command = match self.dice.below(12) {
            0 => format!("DEL {key}"),
            1 => format!("UNLINK {key}"),
            2 => format!("RENAME {key} {other}"),
            3 => format!("RENAMENX {key} {other}"),
            4 => format!("COPY {key} {other} REPLACE"),
            5 => format!("PEXPIRE {key} {}", self.dice.below(300)),
            6 => return self.restore(at, key, &other),
            7 => return self.together(at, key, &other),
            8 => format!("EVAL return{{redis.call('FENCELOCK.ACQUIRE',KEYS[1],1)}} 1 {key}"),
            9 => format!("MOVE {key} 1"),
            10 => "SWAPDB 0 1".to_owned(),
            _ => format!("PERSIST {key}"),
        };
        self.say(at, &command);
    }

    fn restore(&mut self, at: usize, key: &str, other: &str) {
        let client = &mut self.clients[at].0;
        if let ServerReply::Bulk(dump) = client.say(&format!("DUMP {key}")) {
            let words: [&[u8]; 5] = [b"RESTORE", other.as_bytes(), b"0", &dump, b"REPLACE"];
            let reply = client.0.command(&words).expect("a reply");
            assert!(reply.is_ok() || key == other, "{reply}");
        }
    }

    fn together(&mut self, at: usize, key: &str, other: &str) {
        for command in ["MULTI", "ACQUIRE k 100 MS", "ACQUIRE o 100 MS WAIT 1", "EXEC"] {
            let command =
                command.replace(" k ", &format!(" {key} ")).replace(" o ", &format!(" {other} "));
            let command = command.replace("ACQUIRE", "FENCELOCK.ACQUIRE");
            self.say(at, &command);
        }
    }
}

/// Builds a program's acquire of the key with this number.
fn acquire(
    dice: &mut Dice,
    number: u64,
    owner: Owner,
    client: ClientId,
    ballot: Option<Ballot>,
) -> Request {
    let member = Member::new("x").expect("a member");
    let asks = [Ask::Mutex, Ask::Write, Ask::Permits { take: 2, of: 3 }, Ask::Member(member)];
    Request::Acquire(AcquireRequest {
        owner,
        client,
        ask: asks[(number % 4) as usize].clone(),
        at_least_ms: 0,
        lease_ms: dice.between(10, 909),
        waiter_lease_ms: Some(dice.between(10, 909)).filter(|ms| ms % 5 > 0),
        not_after_ms: u64::MAX,
        ballot,
        label: Label::new("program", "works").expect("a label"),
    })
}

/// There are few tickets, so that some are equal.
fn ballot(dice: &mut Dice, yields: Option<u64>) -> Ballot {
    let hint = dice.one_of(&[0, 1_000, u64::MAX]);
    let ticket = dice.one_of(&[None, None, Some(5), Some(6), Some(u64::MAX)]);
    Ballot { hint, ticket, yields }
}

/// Returns every key of a server: its digest and when it expires.
pub(crate) fn state(server: &Server) -> State {
    let mut client = Client::of(server);
    let mut state = BTreeMap::new();
    for db in 0..2 {
        client.ok(&format!("SELECT {db}"));
        let keys = client.say("KEYS *");
        for key in keys.array().expect("keys").iter().filter_map(ServerReply::text) {
            let ends = client.int(&format!("PEXPIRETIME {key}"));
            state.insert((db, key.to_owned()), (client.digest(key), ends));
        }
    }
    state
}

type State = BTreeMap<(u8, String), (String, i64)>;

/// Waits until the keys that the workload lets expire have expired. A replica that hears nothing of its master still lists
/// such a key after its end, and has none after a restart.
#[track_caller]
pub(crate) fn has_expired_what_ends_soon(server: &Server) {
    // Less than that of an idle lock, and more than the workload gives a key.
    const SOON_MS: u64 = 60_000;
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_millis() as u64;
    let settled = eventually("nothing ends soon", || {
        let soon_ms = now() + SOON_MS;
        let ends = |(_, ends): &(String, i64)| *ends == -1 || *ends as u64 > soon_ms;
        state(server).values().all(ends).then_some(())
    });
    settled.expect("the server removes keys that have expired");
}

/// Waits until all servers have the same state as the first. Leases that end meanwhile delay that a little.
#[track_caller]
pub(crate) fn all_are_equal(master: &Server, others: &[&Server]) {
    let equal = eventually("the same state", || {
        let expected = state(master);
        assert!(!expected.is_empty(), "there is something to compare");
        others.iter().all(|other| state(other) == expected).then_some(())
    });
    let differences = || others.iter().map(|other| difference(master, other)).collect::<String>();
    assert!(equal.is_ok(), "{}", differences());
}

/// Describes how a server differs from its master.
fn difference(master: &Server, other: &Server) -> String {
    let (expected, found) = (state(master), state(other));
    let keys: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let differs = keys.into_iter().filter(|key| expected.get(*key) != found.get(*key));
    let describe = |key: &(u8, String)| {
        let lines = what_differs(&lines(other, key), &lines(master, key));
        format!("{key:?}: {:?} and not {:?}\n{lines}", found.get(key), expected.get(key))
    };
    differs.map(describe).collect()
}

/// What is stored after the lock itself: the incarnation, the channel, the newest admitted token, the key's expiry, and
/// whether holds may be bound to a connection.
type Rest = (String, String, u64, u64, bool);

/// Returns everything that a lock's digest is made of, one item per line. Empty if there is no lock.
fn lines(server: &Server, (db, key): &(u8, String)) -> Vec<String> {
    let mut client = Client::of(server);
    client.ok("CONFIG SET rdbcompression no");
    client.ok(&format!("SELECT {db}"));
    let ServerReply::Bulk(dump) = client.say(&format!("DUMP {key}")) else { return Vec::new() };
    let stored: Option<(Snapshot, Rest)> = postcard::from_bytes(ours(&dump)).ok();
    let text = stored.and_then(|(snapshot, rest)| {
        let mut lock = Lock::restore(snapshot).ok()?;
        lock.see(0);
        serde_json::to_string_pretty(&(lock.snapshot(), rest)).ok()
    });
    text.iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
}

/// Returns the lines from the first difference to the last.
fn what_differs(found: &[String], expected: &[String]) -> String {
    let same = |(one, other): &(&String, &String)| one == other;
    let before = found.iter().zip(expected).take_while(same).count();
    let (found, expected) = (&found[before..], &expected[before..]);
    let after = found.iter().rev().zip(expected.iter().rev()).take_while(same).count();
    let found = found[..found.len() - after].iter().map(|line| format!("  found    {line}\n"));
    let expected =
        expected[..expected.len() - after].iter().map(|line| format!("  expected {line}\n"));
    found.chain(expected).collect()
}
