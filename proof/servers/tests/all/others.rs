//! The servers of others. etcd is installed by `cargo xtask bench` alone; where one is not, there is nothing to
//! test.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use taketurns_servers::SetupError;
use taketurns_servers::clients::PYTHON;
use taketurns_servers::others::{Etcd, ObjectStore, Postgres};

/// How a client of PostgreSQL begins: 23 bytes, protocol 3.0, its user.
const HELLO: &[u8] = b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0";

/// `http://127.0.0.1:PORT`, or with more behind it.
fn port_of(url: &str) -> u16 {
    let port = url.rsplit_once(':').and_then(|(_, rest)| rest.split('/').next());
    port.and_then(|port| port.parse().ok()).expect("a port")
}

fn listens(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Two at a time, so that they have to keep out of each other's way.
fn start_and_end<S>(
    installed: bool,
    start: impl Fn() -> Result<S, SetupError>,
    url: impl Fn(&S) -> String,
) {
    if !installed {
        let why = start().err().expect("it can't start").to_string();
        assert!(why.contains("is missing"), "{why}");
        return;
    }
    let [first, second] = [(); 2].map(|()| start().expect("a server"));
    let ports = [&first, &second].map(|server| port_of(&url(server)));
    assert!(ports.into_iter().all(listens), "they are ready when they have started");
    drop(first);
    assert_eq!(ports.map(listens), [false, true], "one ended");
    drop(second);
    assert_eq!(ports.map(listens), [false, false], "both ended");
}

#[test]
fn an_etcd_is_ready_when_it_was_started_and_gone_when_it_is_dropped() {
    start_and_end(Etcd::is_installed(), Etcd::start, Etcd::url);
}

#[test]
fn a_postgres_is_ready_when_it_was_started_and_gone_when_it_is_dropped() {
    start_and_end(Postgres::is_installed(), Postgres::start, Postgres::url);
}

#[test]
fn an_object_store_is_ready_when_it_was_started_and_gone_when_it_is_dropped() {
    start_and_end(PYTHON.find().is_ok(), ObjectStore::start, ObjectStore::url);
}

#[test]
fn a_postgres_that_is_asked_to_end_does_not_wait_for_its_clients() {
    if !Postgres::is_installed() {
        return;
    }
    let server = Postgres::start().expect("a server");
    let port = port_of(&server.url());
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
    client.write_all(HELLO).expect("sent");
    let mut answer = [0];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"R", "welcome");
    server.shutdown().expect("its end");
    assert!(!listens(port));
}
