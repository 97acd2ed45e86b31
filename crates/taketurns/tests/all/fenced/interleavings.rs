//! Random interleavings of fenced transactions and grants of one lock, at every isolation level.
//!
//! ```text
//!   grants     ── grant 2 ── look ───── grant 3 ── look ──     who is granted the lock looks at the log at once
//!   writers of 1  fence ─ INSERT INTO log ─ COMMIT             and nothing older may appear in it later
//!   writers of 2            …
//! ```
//!
//! Each of them has a connection, and the dice decide whose next statement is sent, and whether before or after an
//! earlier statement has been answered. `FENCED_RUNS=10000` tries that many at each level.

use std::collections::BTreeSet;
use std::env;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use taketurns::fence::STALE_TOKEN;
use taketurns_servers::fuzz::Dice;
use tokio::time::timeout;
use tokio_postgres::{Client, Error};

use super::{FencedDatabase, code, column, grant, granted};
use crate::support::patience::block_on;

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// How often the lock is granted in a run.
const GRANTS: i64 = 3;

/// How many transactions there are with each token.
const WRITERS: i64 = 2;

/// How many runs there are side by side.
const ABREAST: u64 = 4;

/// How long an answer is waited for before something else is sent.
const A_MOMENT: Duration = Duration::from_millis(1);

/// No two grants of a real lock have tokens that are closer.
const fn token(grant: i64) -> i64 {
    grant * 1_000_000
}

/// What is done on one connection, a statement at a time.
struct Actor {
    client: Arc<Client>,
    /// It begins when this grant was answered.
    after: i64,
    statements: Vec<String>,
    next: usize,
    busy: bool,
}

/// The entries of the log for one lock: number and token.
type Entries = BTreeSet<(i64, i64)>;

/// Whose statement was answered, and with what entries if that was asked.
type Answered = (usize, Result<Option<Entries>, Error>);

/// What the runs of a level came to.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    committed: u64,
    refused_early: u64,
    refused_at_commit: u64,
    not_serializable: u64,
    /// Commits with a token that was older than that of a grant before.
    stale: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.committed += other.committed;
        self.refused_early += other.refused_early;
        self.refused_at_commit += other.refused_at_commit;
        self.not_serializable += other.not_serializable;
        self.stale += other.stale;
    }

    fn refused(&mut self, error: &Error, statement: &str) {
        match code(error) {
            STALE_TOKEN if statement == "COMMIT" => self.refused_at_commit += 1,
            STALE_TOKEN => self.refused_early += 1,
            "40001" | "40P01" => self.not_serializable += 1,
            _ => panic!("{statement}: {error:?}"),
        }
    }
}

/// A transaction of the holder with this token, in one of the forms that it may have.
fn transaction(dice: &mut Dice, lock: &str, level: &str, token: i64) -> Vec<String> {
    let fence = format!("SELECT taketurns.fence('{lock}', {token})");
    let write = format!("INSERT INTO log (lock, token) VALUES ('{lock}', {token})");
    let mut statements = vec![fence, write];
    if dice.percent(50) {
        // A write may come before the fence: only the commit counts.
        statements.swap(0, 1);
    }
    let read = || format!("SELECT count(*) FROM log WHERE lock = '{lock}'");
    for at in [0, 1, 2] {
        if dice.percent(25) {
            statements.insert(at, read());
        }
    }
    if dice.percent(20) {
        statements.push("SAVEPOINT s; SET CONSTRAINTS ALL IMMEDIATE".to_owned());
        statements.push(dice.pick(&["RELEASE s", "ROLLBACK TO s"]).to_owned());
    }
    statements.insert(0, format!("BEGIN ISOLATION LEVEL {level}"));
    statements.push("COMMIT".to_owned());
    statements
}

async fn entries(client: &Client, lock: &str) -> Result<Entries, Error> {
    let sql = format!("SELECT id || ' ' || token FROM log WHERE lock = '{lock}'");
    let entry = |line: String| {
        let (id, token) = line.split_once(' ').expect("two numbers");
        (id.parse().expect("a number"), token.parse().expect("a number"))
    };
    Ok(column(client, &sql).await?.into_iter().map(entry).collect())
}

/// One run, on a lock of its own.
struct FencedRun {
    lock: String,
    actors: Vec<Actor>,
    /// How often the lock was granted.
    grants: i64,
    /// What was in the log after each grant but the first.
    seen: Vec<Entries>,
    tally: Tally,
}

impl FencedRun {
    /// The first client is for the grants, each other one for a transaction.
    fn new(clients: &[Arc<Client>], lock: String, level: &str, dice: &mut Dice) -> Self {
        let actor = |(number, client): (i64, &Arc<Client>)| {
            let (after, statements) = match number {
                // After each grant it looks, which is a statement without text.
                0 => {
                    let grant = |next| grant(&lock, token(next)).into_iter().chain([String::new()]);
                    (1, (2..=GRANTS).flat_map(grant).collect())
                }
                _ => {
                    let after = 1 + (number - 1) / WRITERS;
                    (after, transaction(dice, &lock, level, token(after)))
                }
            };
            Actor { client: client.clone(), after, statements, next: 0, busy: false }
        };
        let actors = (0..).zip(clients).map(actor).collect();
        Self { lock, actors, grants: 1, seen: Vec::new(), tally: Tally::default() }
    }

    /// Sends one statement after the other, until all are answered.
    async fn go(&mut self, dice: &mut Dice) {
        let mut sent = FuturesUnordered::new();
        loop {
            let ready: Vec<usize> =
                (0..self.actors.len()).filter(|&index| self.is_ready(index)).collect();
            let answered = if ready.is_empty() {
                match sent.next().await {
                    None => return,
                    answered => answered,
                }
            } else if sent.is_empty() || dice.percent(60) {
                sent.push(self.send(dice.one_of(&ready)));
                // The first poll sends it.
                sent.next().now_or_never().flatten()
            } else {
                // A grant may be waiting for a transaction whose next statement was not sent yet.
                timeout(A_MOMENT, sent.next()).await.ok().flatten()
            };
            if let Some((index, answer)) = answered {
                self.handle(index, answer);
            }
        }
    }

    fn is_ready(&self, index: usize) -> bool {
        let actor = &self.actors[index];
        !actor.busy && actor.after <= self.grants && actor.next < actor.statements.len()
    }

    fn send(&mut self, index: usize) -> impl Future<Output = Answered> + use<> {
        let actor = &mut self.actors[index];
        actor.busy = true;
        let (client, lock) = (actor.client.clone(), self.lock.clone());
        let statement = actor.statements[actor.next].clone();
        async move {
            let answer = match statement.as_str() {
                "" => entries(&client, &lock).await.map(Some),
                _ => client.batch_execute(&statement).await.map(|()| None),
            };
            (index, answer)
        }
    }

    fn handle(&mut self, index: usize, answer: Result<Option<Entries>, Error>) {
        let actor = &mut self.actors[index];
        let statement = &actor.statements[actor.next];
        actor.busy = false;
        actor.next += 1;
        match answer {
            Ok(Some(entries)) => self.seen.push(entries),
            Ok(None) if statement != "COMMIT" => {}
            Ok(None) if index == 0 => self.grants += 1,
            Ok(None) => self.tally.committed += 1,
            Err(error) => {
                assert!(index > 0, "a grant is never refused: {error:?}");
                self.tally.refused(&error, statement);
                let ended = statement == "COMMIT";
                actor.statements.truncate(actor.next);
                // A transaction that failed before is still open.
                actor.statements.extend((!ended).then(|| "ROLLBACK".to_owned()));
            }
        }
    }

    /// Counts the entries with an older token that a new holder did not find when it was granted the lock.
    fn judge(&mut self, end: &Entries) {
        for (grant, seen) in (2..).zip(&self.seen) {
            let older = end.iter().filter(|(_, written)| *written < token(grant));
            self.tally.stale += older.filter(|entry| !seen.contains(entry)).count() as u64;
        }
    }
}

/// Some runs, one after the other.
async fn runs(
    clients: Vec<Arc<Client>>,
    level: &'static str,
    seeds: impl Iterator<Item = u64>,
) -> Tally {
    let mut all = Tally::default();
    for seed in seeds {
        let mut dice = Dice::new(seed);
        let lock = format!("{level} {seed}");
        granted(&clients[0], &lock, token(1)).await;
        let mut run = FencedRun::new(&clients, lock, level, &mut dice);
        run.go(&mut dice).await;
        run.judge(&entries(&clients[0], &run.lock).await.expect("a log"));
        if run.tally.stale > 0 && all.stale == 0 {
            println!("{level}: seed {seed} has a stale commit");
        }
        all.add(run.tally);
    }
    all
}

/// This many runs at each level, side by side.
async fn level(database: &FencedDatabase, level: &'static str, count: u64) -> Tally {
    let mut tasks = Vec::new();
    for lane in 0..ABREAST {
        let mut clients = Vec::new();
        for _ in 0..=GRANTS * WRITERS {
            clients.push(Arc::new(database.connect().await));
        }
        let seeds = (0..count).filter(move |seed| seed % ABREAST == lane);
        tasks.push(tokio::spawn(runs(clients, level, seeds)));
    }
    let mut all = Tally::default();
    for task in tasks {
        all.add(task.await.expect("no panic"));
    }
    println!("{level}: {count} runs: {all:?}");
    all
}

fn count(at_least: u64) -> u64 {
    let wanted = env::var("FENCED_RUNS").ok();
    wanted.map_or(at_least, |runs| runs.parse().expect("FENCED_RUNS is a number"))
}

fn database() -> FencedDatabase {
    let database = FencedDatabase::new();
    let log = "CREATE TABLE log (id bigint GENERATED ALWAYS AS IDENTITY, lock text, token bigint);
               CREATE INDEX ON log (lock)";
    database.0.sql(log).expect("a log");
    database
}

#[test]
fn no_commit_with_an_older_token_comes_after_a_grant() {
    let database = database();
    block_on(async {
        for isolation in LEVELS {
            let tally = level(&database, isolation, count(100)).await;
            assert_eq!(tally.stale, 0, "{isolation}: {tally:?}");
            assert!(tally.committed > 0 && tally.refused_early > 0, "{isolation}: {tally:?}");
            let at_commit = tally.refused_at_commit + tally.not_serializable;
            assert!(at_commit > 0, "{isolation}: {tally:?}");
        }
    });
    let left = database.0.sql("SELECT count(*) FROM taketurns.fenced");
    assert_eq!(left.expect("a number"), "0", "nothing is left of any transaction");
}

#[test]
fn without_the_trigger_there_is_one() {
    let database = database();
    let without = "ALTER TABLE taketurns.fenced DISABLE TRIGGER check_at_commit";
    database.0.sql(without).expect("no trigger");
    block_on(async {
        for isolation in LEVELS {
            let tally = level(&database, isolation, 100).await;
            assert!(tally.stale > 0, "{isolation}: the checker finds nothing: {tally:?}");
        }
    });
}
