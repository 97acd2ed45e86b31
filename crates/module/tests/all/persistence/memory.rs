//! How much memory locks use, whether they report it, whether it is freed, and when the keys of idle locks expire.

use taketurns_core::wire::encode_request;
use taketurns_core::{Ask, ClientId, Request};
use taketurns_servers::{Flavor, Server, ServerReply, eventually, on_both};

use crate::persistence::program::{LEASE_MS, Program, asked, run_of};
use crate::persistence::support::{Client, server};

const LOCKS: u32 = 10_000;
/// How many commands are sent before their replies are read.
const BATCH: usize = 250;

fn used(server: &Server) -> i64 {
    server.info("memory")["used_memory"].parse().expect("a number")
}

/// Sends all commands, and reads their replies.
fn pipeline(client: &mut Client, commands: &[Vec<Vec<u8>>]) -> Vec<ServerReply> {
    let mut replies = Vec::with_capacity(commands.len());
    for batch in commands.chunks(BATCH) {
        for words in batch {
            client.0.send(words).expect("sent");
        }
        replies.extend(batch.iter().map(|_| client.reply()));
    }
    replies
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn bind(server: &Server, client: &mut Client) -> String {
    let run = run_of(server);
    let words = ["FENCELOCK.BIND", &run, "", "", "", "0", "86400000", "tt:wake:"];
    client.0.command(&words).expect("a reply").text().expect("a binding").to_owned()
}

/// Builds the command that takes a place in a lock's queue.
fn waiting(key: &str, binding: &str, number: u32, label: &str) -> Vec<Vec<u8>> {
    let id = ClientId::of_program(u64::from(number) + 1);
    let (verb, args) =
        encode_request(&Request::Acquire(asked(u128::from(number) + 1, id, Ask::Mutex, label)));
    let mut words = words(&format!("FENCELOCK.DO {key} {binding} {}", verb.name()));
    words.extend(args);
    words
}

/// Creates many locks, each held and with a waiter. Returns the memory that they report.
fn fill(server: &Server) -> i64 {
    let mut client = Client::of(server);
    let binding = bind(server, &mut client);
    let acquires: Vec<_> = (0..LOCKS)
        .map(|n| words(&format!("FENCELOCK.ACQUIRE lock{n} 600 LABEL holder{n}")))
        .collect();
    assert!(pipeline(&mut client, &acquires).iter().all(|reply| reply.array().is_some()));
    let waits: Vec<_> =
        (0..LOCKS).map(|n| waiting(&format!("lock{n}"), &binding, n, "a waiter")).collect();
    let replies = pipeline(&mut client, &waits);
    assert!(replies.iter().all(|reply| reply.text().is_some_and(|text| text.contains(" Q "))));
    let usages: Vec<_> = (0..LOCKS).map(|n| words(&format!("MEMORY USAGE lock{n}"))).collect();
    pipeline(&mut client, &usages).iter().map(|reply| reply.int().expect("a number")).sum()
}

/// Waits until the memory has fallen to `at_most`.
fn settled(server: &Server, at_most: i64) -> i64 {
    let mut last = 0;
    let _ = eventually("the memory is given back", || {
        assert!(server.cli(&["MEMORY", "PURGE"]).is_ok());
        last = used(server);
        (last <= at_most).then_some(())
    });
    last
}

on_both! {
    fn locks_say_what_they_take_and_give_it_back(flavor: Flavor) {
        let server = server(flavor);
        // Once before measuring, so that the server's caches exist.
        fill(&server);
        assert!(server.cli(&["FLUSHALL"]).is_ok());
        let start = settled(&server, 0).max(1);
        for round in 0..2 {
            let said = fill(&server);
            let grew = used(&server) - start;
            println!("round {round}: {LOCKS} locks took {grew} bytes and said {said}");
            assert!(said < 3 * grew && grew < 3 * said, "they took {grew}, and said {said}");
            let delete = (0..LOCKS).map(|n| words(&format!("DEL lock{n}"))).collect::<Vec<_>>();
            if round == 0 {
                assert!(server.cli(&["FLUSHALL"]).is_ok());
            } else {
                pipeline(&mut Client::of(&server), &delete);
            }
            let left = settled(&server, start + grew / 50) - start;
            assert!(left <= grew / 50, "{left} of {grew} bytes were not given back");
        }
    }

    fn usage_grows_with_those_who_wait_and_with_their_labels(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let binding = bind(&server, &mut client);
        for key in ["bare", "short", "long"] {
            client.take(&format!("{key} 600"));
        }
        let start = used(&server);
        let long = "x".repeat(200);
        for (key, label) in [("short", "x"), ("long", long.as_str())] {
            let waits: Vec<_> = (0..1_000).map(|n| waiting(key, &binding, n, label)).collect();
            pipeline(&mut client, &waits);
        }
        let grew = used(&server) - start;
        let usage = ["bare", "short", "long"].map(|key| client.int(&format!("MEMORY USAGE {key}")));
        let [bare, short, long] = usage;
        assert!(short > bare + 1_000 * 100, "{usage:?}");
        assert!(long > short + 1_000 * 150, "{usage:?}");
        let said = short + long - 2 * bare;
        assert!(said < 3 * grew && grew < 3 * said, "they took {grew}, and said {said}");
    }

    fn a_queue_of_ten_thousand_is_given_back(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let binding = bind(&server, &mut client);
        let round = |client: &mut Client| {
            client.take("k 600");
            let waits: Vec<_> = (0..LOCKS).map(|n| waiting("k", &binding, n, "a waiter")).collect();
            pipeline(client, &waits);
            let usage = client.int("MEMORY USAGE k SAMPLES 0");
            assert_eq!(client.int("DEL k"), 1);
            usage
        };
        round(&mut client);
        let start = used(&server);
        let said = round(&mut client);
        let left = settled(&server, start + said / 50) - start;
        assert!(left <= said / 50, "{left} of {said} bytes were not given back");
    }

    fn the_key_of_an_idle_lock_ends_and_that_of_a_pool_does_not(flavor: Flavor) {
        const HOUR_MS: i64 = 3_600_000;
        let server = server(flavor);
        let mut client = Client::of(&server);
        for lease_s in [1, 600, 86_400] {
            let held = client.take(&format!("k{lease_s} {lease_s}"));
            let ends = client.int(&format!("PTTL k{lease_s}"));
            let least = HOUR_MS + (lease_s - 30) * 1_000;
            assert!((least..=lease_s * 1_000 + HOUR_MS / 2 * 3).contains(&ends), "{lease_s}: {ends}");
            assert!(client.release(&format!("k{lease_s}"), &held).is_ok());
            let ends = client.int(&format!("PTTL k{lease_s}"));
            // An hour, and up to half an hour more before the expiry is set anew.
            assert!((HOUR_MS - 30_000..=HOUR_MS / 2 * 3).contains(&ends), "{lease_s}: {ends}");
        }
        let now_us = client.time_us();
        client.ok(&format!("FENCELOCK.CHECK checked {now_us}"));
        assert!((1..=HOUR_MS / 2 * 3).contains(&client.int("PTTL checked")));
        client.int("FENCELOCK.POOL ADD pool x");
        assert_eq!(client.int("PTTL pool"), -1);
        let held = client.take("pool 600 ANY");
        assert_eq!(client.int("PTTL pool"), -1);
        assert!(client.release("pool", &held).is_ok());
        assert_eq!(client.int("FENCELOCK.POOL REM pool x"), 1);
        assert!((1..=HOUR_MS / 2 * 3).contains(&client.int("PTTL pool")));
        // A waiter counts until its waiter lease ends, which outlasts the holder's lease here.
        client.take("waited 60");
        Program::of(&server, "", 1).wait("waited", 1, Ask::Mutex, "program");
        let ends = client.int("PTTL waited") - LEASE_MS as i64;
        assert!((HOUR_MS - 30_000..=HOUR_MS / 2 * 3).contains(&ends), "{ends}");
    }
}
