//! `protocol=zmutex`: ours and clients that follow the document to the letter, together in one set.

use std::sync::Arc;
use std::time::{Duration, Instant};

use taketurns_servers::foreign::{Config, Foreign, Kind};
use taketurns_servers::turns::{Turn, Turns, check, least_turns, now_us};
use taketurns_servers::{Flavor, eventually, on_both};

use super::zmutex::{starts, zmutex};
use super::*;

/// How long strangers take turns, and ours from when they have begun.
const THEIRS_S: f64 = 7.0;
const OURS_S: u64 = 5;

/// Takes turns until it is time, at times in a hurry and at times not: so there are moments in which all
/// queue, and others in which a member is free.
async fn takes_turns(locks: Locks, who: String, noted: Arc<Turns>) {
    let end = Instant::now() + Duration::from_secs(OURS_S);
    for think_ms in [0, 0, 3, 25].into_iter().cycle() {
        let guard = soon("a turn", locks.pool("orders").any()).await.expect("a member");
        let member = guard.member().map(ToString::to_string);
        let mut turn = Turn::begin(&who, "orders", member);
        tokio::time::sleep(Duration::from_millis(4)).await;
        turn.until_us = now_us();
        turn.unsure = !guard.is_held();
        noted.add(turn);
        guard.release().await.expect("held");
        if Instant::now() > end {
            return;
        }
        tokio::time::sleep(Duration::from_millis(think_ms)).await;
    }
}

/// Four of ours and four strangers take turns on any of these members for a while.
fn mixed(server: &Server, members: &[&str], remove: bool) {
    let config = Config {
        seconds: THEIRS_S,
        retry_ms: Some(20),
        members: members.iter().map(|member| (*member).to_owned()).collect(),
        remove,
        ..Config::new("stranger", [server.url()])
    };
    let foreign = Foreign::start(Kind::ZMutex, &config).expect("the program");
    let begun = || foreign.so_far().ok().filter(|turns| !turns.is_empty());
    eventually("strangers take turns", begun).expect("a turn");
    let noted = Arc::new(Turns::default());
    let everyone: Vec<String> = (0..4).map(|number| format!("ours-{number}")).collect();
    let from_us = now_us();
    block_on(async {
        let mut tasks = Vec::new();
        for who in everyone.clone() {
            let locks = zmutex(server, "5").await;
            tasks.push(tokio::spawn(takes_turns(locks, who, noted.clone())));
        }
        for task in tasks {
            task.await.expect("no panic");
        }
    });
    let until_us = now_us();
    let mut turns = foreign.turns().expect("no stranger failed");
    turns.extend(noted.all());
    check(&turns);
    turns.retain(|turn| (from_us..until_us).contains(&turn.from_us));
    for everyone in [everyone, config.everyone()] {
        let (who, least) = least_turns(&turns, everyone);
        assert!(least > 0, "{who} had no turn in {}", turns.len());
    }
}

on_both! {
    fn ours_and_strangers_take_turns_on_one_mutex(flavor: Flavor) {
        mixed(&starts(flavor), &["a"], false);
    }

    fn ours_and_strangers_take_turns_on_three(flavor: Flavor) {
        mixed(&starts(flavor), &["a", "b", "c"], false);
    }

    fn ours_and_strangers_who_remove_and_create_take_turns(flavor: Flavor) {
        mixed(&starts(flavor), &["a", "b"], true);
    }

    fn ours_and_strangers_who_hear_events_take_turns(flavor: Flavor) {
        let server = starts(flavor);
        server.cli(&["CONFIG", "SET", "notify-keyspace-events", "Kz"]);
        mixed(&server, &["a", "b"], false);
    }
}
