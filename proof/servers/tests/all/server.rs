//! One server: it starts, it is stopped in every way, it comes back, and it ends.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use taketurns_servers::{Connection, Flavor, Server, ServerReply, SetupError, eventually, on_both};

fn ok() -> ServerReply {
    ServerReply::Simple("OK".to_owned())
}

on_both! {
    fn it_answers_keeps_nothing_and_ends_when_dropped(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let (port, folder) = (server.port(), server.dir().to_owned());
        assert_eq!(server.url(), format!("redis://127.0.0.1:{port}"));
        assert_eq!(server.cli(&["SET", "a", "1"]), ok());
        assert_eq!(server.info("server")["process_id"], server.pid().expect("it runs").to_string());
        for (setting, value) in [("save", ""), ("appendonly", "no"), ("bind", "127.0.0.1")] {
            let reply = server.cli(&["CONFIG", "GET", setting]);
            assert_eq!(reply.field(setting).and_then(ServerReply::text), Some(value));
        }
        assert_eq!(server.cli(&["DEBUG", "SLEEP", "0"]), ok());
        assert!(server.log().contains("Ready to accept connections"));
        assert!(folder.is_dir());
        drop(server);
        assert!(Connection::open(port).is_err(), "nobody listens any more");
        assert!(!folder.exists(), "its files are gone");
    }

    fn a_reply_is_seen_to_be_there_before_it_is_read(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let mut connection = server.connect().expect("a connection");
        assert!(!connection.is_ready().expect("open"), "nobody asked for anything");
        for _ in 0..2 {
            connection.send(&["PING"]).expect("open");
        }
        let ready = |connection: &Connection| connection.is_ready().expect("open").then_some(());
        for _ in 0..2 {
            eventually("a reply comes", || ready(&connection)).expect("a reply");
            assert_eq!(connection.read().expect("a reply").text(), Some("PONG"));
        }
        assert!(!connection.is_ready().expect("open"), "both were read");
        server.kill();
        eventually("the end comes", || ready(&connection)).expect("the end");
        assert_eq!(connection.read().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    fn a_killed_one_comes_back_empty_at_its_port(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let (port, pid) = (server.port(), server.pid());
        server.cli(&["SET", "a", "1"]);
        server.kill();
        assert!(server.try_cli(&["PING"]).is_err());
        assert_eq!((server.pid(), server.is_running()), (None, false));
        server.restart().expect("a restart");
        assert_eq!(server.port(), port);
        assert_ne!(server.pid(), pid);
        assert_eq!(server.cli(&["GET", "a"]), ServerReply::Nil);
    }

    fn with_an_append_only_file_nothing_is_lost(flavor: Flavor) {
        let server = Server::builder(flavor).appendonly(true).start().expect("a server");
        server.cli(&["SET", "a", "1"]);
        server.kill();
        server.restart().expect("a restart");
        assert_eq!(server.cli(&["GET", "a"]).text(), Some("1"), "what was written before the kill");
        server.shutdown();
        assert!(server.log().contains("bye bye"), "it ended as asked: {}", server.log());
        server.restart().expect("another restart");
        assert_eq!(server.cli(&["GET", "a"]).text(), Some("1"), "what was written before the end");
    }

    fn one_that_loads_its_data_is_had_only_if_asked_for(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        server.cli(&["SET", "a", "1"]);
        server.restart_loading().expect("a server that loads");
        let said = server.cli(&["GET", "a"]);
        assert!(matches!(&said, ServerReply::Error(why) if why.starts_with("LOADING")), "{said:?}");
        assert!(server.is_loading(), "for as long as the test wants");
        server.finish_loading().expect("it serves");
        assert_eq!(server.cli(&["GET", "a"]).text(), Some("1"));
    }

    fn one_that_starts_again_has_loaded_its_data(flavor: Flavor) {
        // Half a second at least, and it answers meanwhile.
        let slow = ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"];
        let server = Server::builder(flavor).args(slow).args(["--rdbcompression", "no"]).start();
        let server = server.expect("a server");
        server.cli(&["SET", "a", "1"]);
        assert!(server.cli(&["DEBUG", "POPULATE", "500", "key", "1100"]).is_ok());
        assert!(server.cli(&["SAVE"]).is_ok());
        server.restart().expect("a restart");
        assert_eq!(server.cli(&["GET", "a"]).text(), Some("1"));
    }

    fn a_paused_one_does_nothing_until_resumed(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let mut connection = server.connect().expect("a connection");
        server.pause();
        assert!(!server.is_running());
        connection.set_timeout(Duration::from_millis(50)).expect("a timeout");
        let error = connection.command(&["PING"]).expect_err("it is stopped");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        server.resume();
        connection.set_timeout(taketurns_servers::PATIENCE).expect("a timeout");
        assert_eq!(connection.read().expect("the late reply").text(), Some("PONG"));
        server.pause();
        server.shutdown();
        assert_eq!(server.pid(), None);
    }

    fn passwords_and_users_are_asked_for(flavor: Flavor) {
        let server = Server::builder(flavor)
            .requirepass("secret")
            .acl_user("alice on >wonder ~lk:* &wake:* +@all -flushall")
            .acl_user("bob on nopass ~* +get")
            .start()
            .expect("a server");
        assert_eq!(server.url(), format!("redis://:secret@127.0.0.1:{}", server.port()));
        assert_eq!(server.cli(&["SET", "lk:a", "1"]), ok());
        let mut stranger = Connection::open(server.port()).expect("a connection");
        let refused = stranger.command(&["GET", "lk:a"]).expect("a reply");
        assert!(refused.error().is_some_and(|error| error.starts_with("NOAUTH")), "{refused}");
        assert_eq!(stranger.command(&["AUTH", "alice", "wonder"]).expect("a reply"), ok());
        assert_eq!(stranger.command(&["GET", "lk:a"]).expect("a reply").text(), Some("1"));
        for words in [&["GET", "other"][..], &["FLUSHALL"], &["PUBLISH", "other", "x"]] {
            let refused = stranger.command(words).expect("a reply");
            assert!(refused.error().is_some_and(|error| error.starts_with("NOPERM")), "{refused}");
        }
        server.kill();
        server.restart().expect("a restart with the same users");
    }

    fn arguments_reach_it_and_wrong_ones_are_reported(flavor: Flavor) {
        let server = Server::builder(flavor)
            .args(["--maxmemory", "12mb"])
            .arg("--maxmemory-policy")
            .arg("volatile-ttl")
            .start()
            .expect("a server");
        let info = server.info("memory");
        assert_eq!(info["maxmemory"], (12 << 20).to_string());
        assert_eq!(info["maxmemory_policy"], "volatile-ttl");

        let error = Server::builder(flavor).args(["--no-such-thing", "1"]).start();
        let error = error.expect_err("it can't start").to_string();
        assert!(error.contains("no-such-thing"), "{error}");
    }

    fn a_replica_follows_its_master(flavor: Flavor) {
        let master = Server::start(flavor).expect("a master");
        let replica = Server::builder(flavor).replica_of(master.port()).start().expect("a replica");
        master.cli(&["SET", "a", "1"]);
        eventually("the write arrives", || replica.cli(&["GET", "a"]).text().map(str::to_owned))
            .expect("replication");
        assert!(replica.cli(&["SET", "a", "2"]).error().is_some_and(|e| e.starts_with("READONLY")));
    }

    fn commands_are_counted(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        server.reset_stats();
        for _ in 0..3 {
            server.cli(&["INCR", "n"]);
        }
        let stats = server.command_stats();
        assert_eq!(stats["incr"].calls, 3);
        assert!(stats["incr"].usec_per_call > 0.0);
        assert!(stats.contains_key("config|resetstat"));
        assert!(!stats.contains_key("set"));
    }

    fn a_port_that_another_took_is_tried_again(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        server.kill();
        let other = TcpListener::bind(server.addr()).expect("its port is free");
        thread::scope(|scope| {
            scope.spawn(|| {
                let seen = || server.log().contains("Address already in use").then_some(());
                eventually("it finds its port taken", seen).expect("a note in the log");
                drop(other);
            });
            server.restart().expect("a restart once the port is free");
        });
        assert_eq!(server.cli(&["PING"]).text(), Some("PONG"));
    }

    fn many_start_at_once(flavor: Flavor) {
        let starts: Vec<_> =
            (0..8).map(|_| thread::spawn(move || Server::start(flavor))).collect();
        let servers: Vec<Server> =
            starts.into_iter().map(|start| start.join().unwrap().expect("a server")).collect();
        for server in &servers {
            assert_eq!(server.cli(&["CLIENT", "ID"]).error(), None);
        }
    }
}

#[test]
fn a_bad_folder_is_told_in_the_error() {
    let server = Server::builder(Flavor::Redis).appendonly(true).start().expect("a server");
    server.cli(&["SET", "a", "1"]);
    server.kill();
    let manifest = server.dir().join("appendonlydir/appendonly.aof.manifest");
    fs::write(&manifest, "nonsense\n").expect("a broken file");
    let error = server.restart().expect_err("it can't read its file");
    assert!(
        matches!(&error, SetupError::Ended { said, .. } if said.contains("manifest")),
        "{error}"
    );
}

#[test]
fn what_is_missing_is_said_in_one_line() {
    let message = SetupError::Missing(Flavor::Redis).to_string();
    assert_eq!(
        message,
        "redis-server is missing: `cargo xtask test` installs it on Debian, \
         or install Redis 7.0 or later"
    );
}
