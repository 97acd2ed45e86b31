//! Servers end with the process that started them, however that ends.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::{fs, path::Path};

use taketurns_servers::others::Postgres;
use taketurns_servers::{Connection, Flavor, Server, eventually};

/// Set in the process that starts the servers.
const CHILD: &str = "TAKETURNS_SERVERS_CHILD";

/// Runs a test of this program again in a process of its own, and reads what it says: its folder
/// and the ports of its servers. Keep its output, or the test runner in it would fail to write.
fn child(test: &str) -> (Child, BufReader<ChildStdout>, String, Vec<u16>) {
    let mut child = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut output = BufReader::new(child.stdout.take().expect("its output"));
    let line = output
        .by_ref()
        .lines()
        .map_while(Result::ok)
        // The test runner has begun the line with words of its own.
        .find_map(|line| Some(line.split_once("servers: ")?.1.to_owned()))
        .expect("what it says");
    let mut words = line.split(' ');
    let folder = words.next().expect("a folder").to_owned();
    (child, output, folder, words.map(|port| port.parse().expect("a port")).collect())
}

fn say(servers: &[&Server]) {
    let folder = servers[0].dir().parent().expect("a folder").display();
    let ports: Vec<String> = servers.iter().map(|server| server.port().to_string()).collect();
    println!("servers: {folder} {}", ports.join(" "));
}

/// Waits until nothing is left of them.
fn all_gone(folder: &str, ports: &[u16]) {
    for &port in ports {
        eventually("a server is gone", || Connection::open(port).is_err().then_some(()))
            .expect("its end");
    }
    let gone = || (!Path::new(folder).exists()).then_some(());
    eventually("its files are gone", gone).expect("an empty folder");
}

#[test]
fn they_end_when_their_process_is_killed() {
    if env::var_os(CHILD).is_some() {
        let servers = Flavor::ALL.map(|flavor| Server::start(flavor).expect("a server"));
        let ended = Server::start(Flavor::Redis).expect("a server that ends before");
        ended.kill();
        let paused = Server::start(Flavor::Redis).expect("a server that is stopped");
        say(&[&servers[0], &servers[1], &paused]);
        paused.pause();
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    let (mut child, _output, folder, ports) = child("end::they_end_when_their_process_is_killed");
    assert_eq!(ports.len(), 3);
    for &port in &ports {
        Connection::open(port).expect("it runs, or the system still takes connections for it");
    }
    assert!(fs::exists(&folder).expect("a look"));
    child.kill().expect("the process can be killed");
    child.wait().expect("it is gone");
    all_gone(&folder, &ports);
}

#[test]
fn they_end_even_if_nobody_drops_them() {
    static FOR_ALL_TESTS: OnceLock<Server> = OnceLock::new();
    if env::var_os(CHILD).is_some() {
        say(&[FOR_ALL_TESTS.get_or_init(|| Server::start(Flavor::Valkey).expect("a server"))]);
        return;
    }
    let (mut child, _output, folder, ports) = child("end::they_end_even_if_nobody_drops_them");
    assert!(child.wait().expect("its end").success());
    all_gone(&folder, &ports);
}

#[test]
fn a_postgres_that_is_stopped_ends_and_leaves_no_process_and_no_shared_memory() {
    if env::var_os(CHILD).is_some() {
        let server = Postgres::shared().expect("a server");
        server.pause();
        println!(
            "servers: {} {}",
            server.socket_dir().parent().expect("a folder").display(),
            server.port()
        );
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    let test = "end::a_postgres_that_is_stopped_ends_and_leaves_no_process_and_no_shared_memory";
    let (mut child, _output, folder, ports) = child(test);
    // The seventh line of its lock file: key and number of its shared memory.
    let server = fs::read_dir(&folder).expect("a folder").flatten();
    let file = server.map(|server| server.path().join("data/postmaster.pid"));
    let lines = file.filter_map(|file| fs::read_to_string(file).ok()).next().expect("a server");
    let memory = lines.lines().nth(6).and_then(|line| line.split_whitespace().last());
    let memory = memory.expect("a number").to_owned();
    let is_there = || {
        let list = fs::read_to_string("/proc/sysvipc/shm").expect("a list");
        list.lines().any(|line| line.split_whitespace().nth(1) == Some(&memory))
    };
    assert!(is_there());
    child.kill().expect("the process can be killed");
    child.wait().expect("it is gone");
    all_gone(&folder, &ports);
    assert!(!is_there(), "it was killed, or nobody was asked to end");
}
