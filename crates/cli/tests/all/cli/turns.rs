//! Many processes, one unprotected counter, one lock.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use taketurns::blocking::Wait;

use crate::cli::helper::{Running, Store};

/// Names the counter to the processes that count, and says how often.
const COUNTER: &str = "TAKETURNS_TEST_COUNTER";
const TURNS: &str = "TAKETURNS_TEST_TURNS";

/// Reads, adds one, writes: right only if nobody else does so meanwhile.
fn add_one(counter: &Path) {
    let count: u64 = fs::read_to_string(counter).unwrap().trim().parse().unwrap();
    fs::write(counter, (count + 1).to_string()).unwrap();
}

fn take_turns(counter: &Path, turns: u64) {
    let locks = taketurns::connect(&env::var("TAKETURNS_STORE").unwrap()).wait().unwrap();
    let mutex = locks.mutex("counter");
    for _ in 0..turns {
        let guard = mutex.acquire().wait().unwrap();
        add_one(counter);
        guard.release().wait().unwrap();
    }
}

/// Not a test by itself: it is what the processes of the tests run.
#[test]
fn taker() {
    if let Some(counter) = env::var_os(COUNTER) {
        take_turns(Path::new(&counter), env::var(TURNS).unwrap().parse().unwrap());
    }
}

/// Lets processes take turns on this store, and asserts that no turn is lost.
pub(crate) fn processes_count(store: &Store, processes: u64, turns: u64) {
    fs::write(store.path("counter"), "0").unwrap();
    let start = |_| {
        let mut taker = Command::new(env::current_exe().unwrap());
        taker.args(["--exact", "cli::turns::taker"]);
        taker.env("TAKETURNS_STORE", store.url()).env(COUNTER, store.path("counter"));
        taker.env(TURNS, turns.to_string()).stdout(Stdio::null()).spawn().unwrap()
    };
    let mut takers: Vec<_> = (0..processes).map(start).collect();
    for taker in &mut takers {
        assert!(taker.wait().unwrap().success());
    }
    let counted = fs::read_to_string(store.path("counter")).unwrap();
    assert_eq!(counted, (processes * turns).to_string());
    assert_eq!(store.show("counter")["state"], "idle");
}

#[test]
fn many_processes_lose_no_turn() {
    let is_long = env::var_os("CLI_LONG").is_some();
    let (processes, turns) = if is_long { (50, 100) } else { (20, 25) };
    processes_count(&Store::new(), processes, turns);
}

#[test]
fn eight_shells_of_ten_runs_count_to_80() {
    let store = Store::new();
    fs::write(store.path("counter"), "0").unwrap();
    let loops = "for i in 1 2 3 4 5 6 7 8 9 10; do \
                 \"$0\" run counter -- sh -c 'n=$(cat counter); echo $((n + 1)) > counter' || exit; \
                 done";
    let start = |_| {
        let mut shell = Command::new("sh");
        shell.args(["-c", loops, crate::cli::helper::PROGRAM]);
        shell.current_dir(store.path("")).env("TAKETURNS_STORE", store.url());
        Running::start(&mut shell)
    };
    let shells: Vec<_> = (0..8).map(start).collect();
    shells.into_iter().for_each(Running::finish);
    assert_eq!(fs::read_to_string(store.path("counter")).unwrap(), "80\n");
}
