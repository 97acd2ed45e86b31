//! Wall clocks ten minutes apart: of the nodes, whose clocks tokens and leases are made of, and of the
//! clients, whose wall clocks are nobody's business.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use taketurns_servers::{Server, ServerClock};

use super::nodes::{Nodes, connect, nothing_is_left};
use crate::support::history::{History, turn};
use crate::support::patience::{block_on, soon};

/// In seconds, from what the machine's clock shows.
const AHEAD: [i64; 5] = [-600, 0, 600, 300, -300];

const TURNS: usize = 15;

fn clock(ahead: i64) -> ServerClock {
    ServerClock::ahead(ahead).expect("a clock")
}

fn wall_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_secs()).expect("soon")
}

#[test]
fn nodes_whose_clocks_are_ten_minutes_apart_grant_to_one_at_a_time_with_larger_tokens() {
    let clocks = AHEAD.map(clock);
    let mut next = clocks.iter();
    let nodes = Nodes::with(5, Duration::from_secs(600), |kind| {
        kind.builder().clock(next.next().expect("five"))
    });
    let time = |server: &Server| -> Option<i64> {
        server.cli(&["TIME"]).array().and_then(|parts| parts[0].text()?.parse().ok())
    };
    for (server, ahead) in nodes.servers.iter().zip(AHEAD) {
        let is_ahead = time(server).expect("a time") - wall_s();
        assert!((is_ahead - ahead).abs() < 60, "it is {is_ahead} s ahead, and not {ahead}");
    }
    block_on(async {
        let history = Arc::new(History::default());
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let (locks, history) = (nodes.connect().await, history.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..TURNS {
                    let guard = locks.mutex("l").acquire().await.expect("a turn");
                    turn(guard, Duration::from_millis(1), &history).await;
                }
            }));
        }
        for task in tasks {
            soon("all turns", task).await.expect("no panic");
        }
        // One majority after the other. Each has only one node in common with the one before.
        let locks = nodes.connect().await;
        for out in [[1, 2], [3, 4], [0, 2], [1, 4]].iter().cycle().take(8) {
            out.iter().for_each(|node| nodes.servers[*node].pause());
            let guard = soon("three are enough", locks.mutex("l").acquire()).await.expect("free");
            turn(guard, Duration::ZERO, &history).await;
            out.iter().for_each(|node| nodes.servers[*node].resume());
        }
        history.check();
        assert_eq!(history.turns().len(), 4 * TURNS + 8);
        nothing_is_left(&nodes.each().await, "l").await;
    });
}

/// Where the processes of a test count, on which quorum, and what their clocks should show.
const COUNTS_IN: &str = "TAKETURNS_TEST_COUNTS_IN";
const QUORUM: &str = "TAKETURNS_TEST_QUORUM";
const WALL_S: &str = "TAKETURNS_TEST_WALL_S";

/// Not a test by itself: it is what the processes of one run.
#[test]
fn taker() {
    let Some(folder) = env::var_os(COUNTS_IN) else { return };
    let (counter, tokens) = (Path::new(&folder).join("counter"), Path::new(&folder).join("tokens"));
    let shows: i64 = env::var(WALL_S).expect("a time").parse().expect("a number");
    assert!((wall_s() - shows).abs() < 60, "the clock of this process is {} s", wall_s());
    block_on(async {
        let locks = connect(&env::var(QUORUM).expect("a quorum")).await;
        for _ in 0..TURNS {
            let guard = soon("a turn", locks.mutex("l").acquire()).await.expect("a turn");
            // Right only if nobody else does so meanwhile.
            let count: usize =
                fs::read_to_string(&counter).expect("there").parse().expect("a number");
            let token = guard.check().expect("held");
            let mut seen = File::options().append(true).open(&tokens).expect("there");
            writeln!(seen, "{}", token.raw()).expect("written");
            fs::write(&counter, (count + 1).to_string()).expect("written");
            guard.release().await.expect("held");
        }
        locks.close().await;
    });
}

#[test]
fn clients_whose_clocks_are_ten_minutes_apart_take_turns_with_larger_tokens() {
    let nodes = Nodes::start(5);
    let folder = tempfile::tempdir().expect("a folder");
    let (counter, tokens) = (folder.path().join("counter"), folder.path().join("tokens"));
    fs::write(&counter, "0").expect("written");
    fs::write(&tokens, "").expect("written");
    let clocks = AHEAD.map(clock);
    let start = |(clock, ahead): (&ServerClock, i64)| {
        let mut taker = Command::new(env::current_exe().expect("this program"));
        taker.args(["--exact", "quorum::clocks::taker"]).envs(clock.env());
        taker.env(COUNTS_IN, folder.path()).env(QUORUM, nodes.url());
        taker.env(WALL_S, (wall_s() + ahead).to_string());
        taker.stdout(std::process::Stdio::null()).spawn().expect("started")
    };
    let takers: Vec<_> = clocks.iter().zip(AHEAD).map(start).collect();
    for mut taker in takers {
        assert!(taker.wait().expect("its end").success());
    }
    let count = fs::read_to_string(&counter).expect("there");
    assert_eq!(count, (AHEAD.len() * TURNS).to_string(), "nobody undid another's");
    let tokens = fs::read_to_string(&tokens).expect("there");
    let tokens: Vec<u64> = tokens.lines().map(|line| line.parse().expect("a token")).collect();
    assert_eq!(tokens.len(), AHEAD.len() * TURNS);
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
}
