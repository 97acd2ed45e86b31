//! What becomes of work that is done when its server crashes or a standby takes over. `docs/once.md` says the same.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use taketurns::{Attempt, Begun, Completion, ErrorKind, Locks, Token};
use taketurns_servers::others::{Postgres, PostgresPair};
use taketurns_servers::{ServerClock, eventually};

use super::{MAX_LEASE, is_told_to_quit, store};
use crate::support::patience::{block_on, soon};

async fn attempt(locks: &Locks) -> Attempt {
    match soon("an attempt", locks.once("l").begin()).await.expect("an answer") {
        Begun::Attempt(attempt) => attempt,
        Begun::DoneBefore(done) => panic!("nobody has done it: {done:?}"),
    }
}

async fn do_work(locks: &Locks) -> Token {
    let attempt = attempt(locks).await;
    let token = attempt.token();
    attempt.done_with("three tables").await.expect("recorded");
    token
}

/// The server is back, or another one has taken over: it remembers the work, also while it grants nothing.
async fn told(url: &str) -> Completion {
    let locks = store(url).await;
    match soon("an answer", locks.once("l").begin()).await.expect("an answer") {
        Begun::DoneBefore(done) => done,
        Begun::Attempt(attempt) => panic!("it was done, and is granted with {}", attempt.token()),
    }
}

/// It must be done again, but not before every earlier lease is over, and with a larger token.
async fn is_to_be_done_again(url: &str, clock: &ServerClock, before: Token) {
    let locks = store(url).await;
    let once = locks.once("l");
    let refused = soon("an answer", once.try_begin()).await.expect_err("a quarantine");
    assert_eq!(refused.kind(), ErrorKind::Quarantined, "{refused}");
    clock.pass(MAX_LEASE + Duration::from_millis(100)).expect("the clock");
    let again = attempt(&locks).await;
    assert!(again.token() > before, "{} after {before}", again.token());
    again.done().await.expect("recorded");
}

/// A server that loses what was committed without waiting for the disk when a backend of it is killed.
struct ForgetfulServer {
    server: Postgres,
    clock: ServerClock,
    /// The process that writes such commits. It is stopped.
    writer: Pid,
}

impl ForgetfulServer {
    fn start() -> Self {
        let clock = ServerClock::stopped().expect("a clock");
        // Nothing that would have the log written to the disk.
        let server = Postgres::builder().quick().setting("autovacuum", "off").clock(&clock);
        let server = server.start().expect("PostgreSQL");
        let writer = process(&server, "walwriter");
        Self { server, clock, writer }
    }

    /// From now on such commits are kept in memory alone.
    fn write_no_more(&self) {
        self.server.sql("postgres", "CHECKPOINT").expect("an answer");
        kill_process(self.writer, Signal::STOP).expect("stopped");
    }

    fn crash(&self) {
        let backend = process(&self.server, "client backend").as_raw_pid();
        self.server.kill_backend(backend.unsigned_abs()).expect("killed");
        // Woken sooner, it might write first.
        eventually("the writer is told to end", || is_told_to_quit(self.writer)).expect("it is");
        kill_process(self.writer, Signal::CONT).expect("it ends");
        let recovered = || self.server.log().contains("redo").then_some(());
        eventually("the server recovers", recovered).expect("it does");
        self.server.wait_until_ready().expect("it is");
    }
}

fn process(server: &Postgres, kind: &str) -> Pid {
    let sql = format!(
        "SELECT pid FROM pg_stat_activity
         WHERE backend_type = '{kind}' AND pid <> pg_backend_pid() LIMIT 1"
    );
    let pid = server.sql("postgres", &sql).expect("an answer");
    Pid::from_raw(pid.parse().expect("a number")).expect("a process")
}

#[test]
fn a_crash_may_forget_what_was_just_done_and_then_it_is_done_again() {
    let forgetful = ForgetfulServer::start();
    block_on(async {
        let url = forgetful.server.url();
        let locks = store(&url).await;
        forgetful.write_no_more();
        let token = do_work(&locks).await;
        forgetful.crash();
        is_to_be_done_again(&url, &forgetful.clock, token).await;
    });
}

#[test]
fn a_crash_does_not_forget_what_was_done_if_each_step_waits_for_the_disk() {
    let forgetful = ForgetfulServer::start();
    block_on(async {
        let url = forgetful.server.url();
        let careful = format!("{url}?synchronous_commit=on");
        let locks = soon("a store", async { taketurns::connect(&careful).await }).await;
        let locks = locks.expect("a store");
        forgetful.write_no_more();
        let token = do_work(&locks).await;
        forgetful.crash();
        assert_eq!(told(&url).await.token, token);
    });
}

#[test]
fn a_crash_does_not_forget_what_a_transaction_has_done() {
    let forgetful = ForgetfulServer::start();
    block_on(async {
        let url = forgetful.server.url();
        let locks = store(&url).await;
        forgetful.write_no_more();
        let attempt = attempt(&locks).await;
        let token = attempt.token();
        let work = format!("CREATE TABLE work (); SELECT taketurns.done('l', {token}, 'in SQL')");
        forgetful.server.sql("postgres", &work).expect("under way");
        forgetful.crash();
        let done = told(&url).await;
        assert_eq!((done.token, done.result.as_str()), (token, "in SQL"));
        forgetful.server.sql("postgres", "SELECT FROM work").expect("the work is there too");
    });
}

#[test]
fn a_standby_that_is_behind_does_work_again_when_it_takes_over_and_a_synchronous_one_does_not() {
    for is_synchronous in [false, true] {
        let clock = ServerClock::stopped().expect("a clock");
        let servers = Postgres::builder().quick().clock(&clock);
        let pair = PostgresPair::start_as(servers, is_synchronous).expect("a pair");
        block_on(async {
            let failover = if is_synchronous { "&failover=synchronous" } else { "" };
            let url = format!("{}?max_lease={}{failover}", pair.url(), MAX_LEASE.as_secs());
            let connected = soon("a store", async { taketurns::connect(&url).await }).await;
            let locks = connected.expect("a store");
            let there = || pair.standby().sql("postgres", "SELECT FROM taketurns.lock").ok();
            eventually("the standby has the tables", there).expect("it does");
            if !is_synchronous {
                pair.standby().set("primary_conninfo", "''").expect("cut off");
                let alone = || {
                    let followers = "SELECT count(*) FROM pg_stat_replication";
                    let count = pair.primary().sql("postgres", followers).ok()?;
                    (count == "0").then_some(())
                };
                eventually("nobody follows", alone).expect("it is alone");
            }
            let token = do_work(&locks).await;
            pair.fail_over().expect("the standby takes over");
            if is_synchronous {
                assert_eq!(told(&pair.url()).await.token, token);
            } else {
                is_to_be_done_again(&pair.url(), &clock, token).await;
            }
        });
    }
}
