//! Many processes, one unprotected counter, one lock.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::helper::{Running, Store};

/// Names the counter to the processes that count.
const COUNTER: &str = "TAKETURNS_TEST_COUNTER";

/// Reads, adds one, writes: right only if nobody else does so meanwhile.
fn add_one(counter: &Path) {
    let count: u64 = fs::read_to_string(counter).unwrap().trim().parse().unwrap();
    fs::write(counter, (count + 1).to_string()).unwrap();
}

fn take_a_hundred_turns(counter: &Path) {
    let locks = taketurns::blocking::connect(&env::var("TAKETURNS_STORE").unwrap()).unwrap();
    let mutex = locks.mutex("counter");
    for _ in 0..100 {
        let guard = mutex.acquire().wait().unwrap();
        add_one(counter);
        guard.release().unwrap();
    }
}

/// Its fifty processes are this very test, told to count.
#[test]
fn fifty_processes_of_a_hundred_turns_count_to_5000() {
    if let Some(counter) = env::var_os(COUNTER) {
        return take_a_hundred_turns(Path::new(&counter));
    }
    let store = Store::new();
    fs::write(store.path("counter"), "0").unwrap();
    let start = |_| {
        let mut taker = Command::new(env::current_exe().unwrap());
        taker.args(["--exact", "turns::fifty_processes_of_a_hundred_turns_count_to_5000"]);
        taker.env("TAKETURNS_STORE", store.url()).env(COUNTER, store.path("counter"));
        taker.stdout(Stdio::null()).spawn().unwrap()
    };
    let mut takers: Vec<_> = (0..50).map(start).collect();
    for taker in &mut takers {
        assert!(taker.wait().unwrap().success());
    }
    assert_eq!(fs::read_to_string(store.path("counter")).unwrap(), "5000");
    assert_eq!(store.show("counter")["state"], "idle");
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
        shell.args(["-c", loops, crate::helper::PROGRAM]);
        shell.current_dir(store.path("")).env("TAKETURNS_STORE", store.url());
        Running::start(&mut shell)
    };
    let shells: Vec<_> = (0..8).map(start).collect();
    shells.into_iter().for_each(Running::finish);
    assert_eq!(fs::read_to_string(store.path("counter")).unwrap(), "80\n");
}
