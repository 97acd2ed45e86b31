//! The proxy's faults, each on a real server.

use std::io;
use std::time::{Duration, Instant};

use taketurns_servers::{
    Connection, Flavor, PATIENCE, Proxy, Server, ServerReply, eventually, on_both,
};

fn both(flavor: Flavor) -> (Server, Proxy) {
    let server = Server::start(flavor).expect("a server");
    let proxy = Proxy::start(server.port()).expect("a proxy");
    (server, proxy)
}

fn open(proxy: &Proxy) -> Connection {
    Connection::open(proxy.port()).expect("a connection")
}

fn ping(connection: &mut Connection) -> io::Result<ServerReply> {
    connection.command(&["PING"])
}

/// A connection that speaks RESP3 and is subscribed.
fn subscriber(proxy: &Proxy) -> Connection {
    let mut connection = open(proxy);
    connection.command(&["HELLO", "3"]).expect("RESP3");
    let confirmed = connection.command(&["SUBSCRIBE", "news"]).expect("a confirmation");
    assert_eq!(confirmed.array().and_then(|a| a[0].text()), Some("subscribe"));
    connection
}

fn published(reply: &ServerReply) -> Option<&str> {
    reply.array()?.get(2)?.text()
}

on_both! {
    fn everything_passes(flavor: Flavor) {
        let (_server, proxy) = both(flavor);
        let mut connection = open(&proxy);
        let large = "x".repeat(3 << 20);
        assert!(connection.command(&["SET", "a", &large]).expect("a reply").is_ok());
        assert_eq!(connection.command(&["GET", "a"]).expect("a reply").text(), Some(&large[..]));
        assert_eq!(proxy.connections(), 1);
        assert_eq!(proxy.url(), format!("redis://127.0.0.1:{}", proxy.port()));
    }

    fn a_cut_closes_what_is_open_and_no_more(flavor: Flavor) {
        let (server, proxy) = both(flavor);
        let mut connections = [open(&proxy), open(&proxy)];
        for connection in &mut connections {
            ping(connection).expect("a reply");
        }
        proxy.cut();
        for connection in &mut connections {
            ping(connection).expect_err("it is closed");
        }
        ping(&mut open(&proxy)).expect("a new one");
        assert_eq!(proxy.connections(), 3);
        let count = || Some(server.cli(&["CLIENT", "LIST"]).text()?.lines().count());
        let closed = || (count()? <= 2).then_some(());
        eventually("the server sees it too", closed).expect("closed ends");
    }

    fn new_ones_are_refused_and_old_ones_stay(flavor: Flavor) {
        let (_server, proxy) = both(flavor);
        let mut old = open(&proxy);
        ping(&mut old).expect("a reply");
        proxy.refuse(true).expect("a closed port");
        let error = Connection::open(proxy.port()).expect_err("nobody listens");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        ping(&mut old).expect("a reply");
        proxy.refuse(true).expect("no change");
        proxy.refuse(false).expect("an open port");
        ping(&mut open(&proxy)).expect("a new one");
        assert_eq!(proxy.connections(), 2);
    }

    fn without_a_server_connections_are_closed(flavor: Flavor) {
        let (server, proxy) = both(flavor);
        server.kill();
        ping(&mut open(&proxy)).expect_err("nobody is behind it");
        server.restart().expect("a server");
        ping(&mut open(&proxy)).expect("somebody is");
    }

    fn held_connections_are_silent_but_open(flavor: Flavor) {
        let (server, proxy) = both(flavor);
        let mut used = open(&proxy);
        let mut idle = open(&proxy);
        ping(&mut used).expect("a reply");
        ping(&mut idle).expect("a reply");
        proxy.hold(true);
        let mut new = open(&proxy);
        for connection in [&mut used, &mut new] {
            connection.set_timeout(Duration::from_millis(100)).expect("a timeout");
            let error = connection.command(&["SET", "a", "1"]).expect_err("silence");
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
        assert_eq!(server.cli(&["GET", "a"]), ServerReply::Nil, "nothing arrived");
        proxy.hold(false);
        ping(&mut idle).expect("it has lost nothing");
        let error = ping(&mut used).expect_err("it has");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        ping(&mut open(&proxy)).expect("a new one works");
    }

    fn the_end_of_a_server_is_not_seen_while_held(flavor: Flavor) {
        let (server, proxy) = both(flavor);
        let mut connection = open(&proxy);
        ping(&mut connection).expect("a reply");
        proxy.hold(true);
        server.kill();
        connection.set_timeout(Duration::from_millis(100)).expect("a timeout");
        let error = connection.read().expect_err("no news");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        proxy.hold(false);
        connection.set_timeout(PATIENCE).expect("a timeout");
        let error = connection.read().expect_err("now it is seen");
        assert_ne!(error.kind(), io::ErrorKind::WouldBlock);
    }

    fn a_delay_is_one_of_latency_not_of_throughput(flavor: Flavor) {
        let (_server, proxy) = both(flavor);
        let mut connection = open(&proxy);
        let delay = Duration::from_millis(100);
        proxy.delay(delay);
        let started = Instant::now();
        ping(&mut connection).expect("a reply");
        assert!(started.elapsed() >= 2 * delay, "there and back");
        proxy.delay(Duration::ZERO);
        ping(&mut connection).expect("a reply without it");
        // A delay of an hour that is cut short shows that nobody sleeps through it.
        proxy.delay(Duration::from_secs(3600));
        connection.send(&["PING"]).expect("sent");
        proxy.cut();
        connection.read().expect_err("it is closed");
    }

    fn pushes_are_lost_while_replies_arrive(flavor: Flavor) {
        let (server, proxy) = both(flavor);
        let mut connection = subscriber(&proxy);
        server.cli(&["PUBLISH", "news", "first"]);
        assert_eq!(published(&connection.read().expect("a push")), Some("first"));
        proxy.drop_pushes(true);
        for _ in 0..3 {
            assert_eq!(server.cli(&["PUBLISH", "news", "lost"]), ServerReply::Int(1));
        }
        let again = connection.command(&["SUBSCRIBE", "more"]).expect("a confirmation");
        assert_eq!(again.array().and_then(|a| a[0].text()), Some("subscribe"));
        assert_eq!(ping(&mut connection).expect("a reply").text(), Some("PONG"));
        assert_eq!(proxy.pushes_dropped(), 3);
        proxy.drop_pushes(false);
        server.cli(&["PUBLISH", "news", "last"]);
        assert_eq!(published(&connection.read().expect("a push")), Some("last"));
    }

    fn pushes_arrive_twice(flavor: Flavor) {
        let (server, proxy) = both(flavor);
        let mut connection = subscriber(&proxy);
        proxy.duplicate_pushes(true);
        server.cli(&["PUBLISH", "news", "twice"]);
        for _ in 0..2 {
            assert_eq!(published(&connection.read().expect("a push")), Some("twice"));
        }
        let reply = connection.command(&["ECHO", "once"]).expect("a reply");
        assert_eq!(reply.text(), Some("once"));
        assert_eq!(ping(&mut connection).expect("the next").text(), Some("PONG"), "not it again");
        assert_eq!(proxy.pushes_dropped(), 0);
    }

    fn dropping_it_closes_its_connections(flavor: Flavor) {
        let (_server, proxy) = both(flavor);
        let port = proxy.port();
        let mut connection = open(&proxy);
        ping(&mut connection).expect("a reply");
        proxy.hold(true);
        connection.send(&["PING"]).expect("sent");
        drop(proxy);
        connection.read().expect_err("it is closed");
        Connection::open(port).expect_err("nobody listens");
    }
}
