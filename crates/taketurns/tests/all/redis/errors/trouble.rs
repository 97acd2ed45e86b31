//! Servers that were fine and then are not.

use super::*;

/// How long connecting goes on while a server loads.
const WITHIN: Duration = Duration::from_millis(500);

/// Waits until the server says this of itself.
fn says_of_itself(server: &Server, section: &str, field: &str, value: &str) {
    let is_so = || (server.info(section).get(field)? == value).then_some(());
    eventually(&format!("{field} is {value}"), is_so).expect("it comes to that");
}

/// Connecting fails when the server has been loading for so long.
async fn loading(url: &str, within: Duration) -> Error {
    let opened = Connect::new(url).within(within).open();
    soon("connecting", opened).await.expect_err("it is loading")
}

on_both! {
    fn a_server_that_is_loading_is_waited_for(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = connects(&server).await;
            server.restart_loading().expect("a restart");
            let error = loading(&server.url(), Duration::ZERO).await;
            says(&error, ErrorKind::Unreachable, "is still loading its data");
            let error = loading(&server.url(), WITHIN).await;
            says(&error, ErrorKind::Unreachable, "is still loading its data; waited 500ms for it");
            let url = server.url();
            let newcomer = tokio::spawn(async move { taketurns::connect(&url).await });
            is_noticed(&locks).await;
            for error in [fails_unreached(&locks, "l").await, fails_at_once(&locks, "l").await] {
                says(&error, ErrorKind::Unreachable, "is still loading its data");
            }
            assert!(server.is_loading(), "it loaded all the while");
            assert!(!newcomer.is_finished(), "without a limit it waits");
            server.finish_loading().expect("it serves");
            let newcomer = soon("connecting", newcomer).await.expect("no panic").expect("a server");
            assert_eq!(fails_at_once(&newcomer, "l").await.kind(), ErrorKind::Quarantined);
            // It runs anew, so it may have forgotten something; but it can be reached.
            let error = fails(&locks, "l").await;
            assert_eq!(error.kind(), ErrorKind::Quarantined, "{error}");
        });
    }

    fn a_quorum_waits_for_nodes_that_are_loading_only_if_it_needs_them(flavor: Flavor) {
        let servers: Vec<Server> =
            (0..3).map(|_| Server::start(flavor).expect("a server")).collect();
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let url = format!("quorum:{}", urls.join(","));
        block_on(async {
            servers[0].restart_loading().expect("a restart");
            let opened = Connect::new(&url).within(Duration::ZERO).open();
            let locks = soon("connecting", opened).await.expect("two are enough");
            locks.close().await;
            servers[1].restart_loading().expect("a restart");
            let error = loading(&url, Duration::ZERO).await;
            says(&error, ErrorKind::NoQuorum, "2 of 3 nodes are needed: ");
            says(&error, ErrorKind::NoQuorum, "is still loading its data");
            let newcomer = {
                let url = url.clone();
                tokio::spawn(async move { taketurns::connect(&url).await })
            };
            says(&loading(&url, WITHIN).await, ErrorKind::NoQuorum, "is still loading its data");
            assert!(!newcomer.is_finished(), "one more node, and there is a majority");
            servers[1].finish_loading().expect("it serves");
            soon("connecting", newcomer).await.expect("no panic").expect("a majority");
            // Nobody waits for a majority that does not come by itself.
            servers[1].kill();
            servers[2].kill();
            let error = refused(&url).await;
            says(&error, ErrorKind::NoQuorum, "Connection refused");
        });
    }

    fn without_memory_nothing_is_granted_but_what_is_held_can_be_kept(
        flavor: Flavor
    ) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = connects(&server).await;
            let lease = Duration::from_secs(3);
            let guard = locks.mutex("held").acquire().lease(lease).await.expect("free");
            let handle = locks.mutex("kept").acquire().await.expect("free");
            let handle = handle.into_handle().await.expect("held");
            assert!(server.cli(&["CONFIG", "SET", "maxmemory", "1"]).is_ok());
            for error in [fails(&locks, "new").await, fails_at_once(&locks, "new").await] {
                says(&error, ErrorKind::Store, "out of memory (maxmemory)");
            }
            says(&fails(&locks, "held").await, ErrorKind::Store, "out of memory (maxmemory)");
            let error = soon("an add", locks.pool("pool").add("m")).await.expect_err("no memory");
            says(&error, ErrorKind::Store, "out of memory (maxmemory)");
            // A new client can't connect, but a connected one can look.
            assert!(soon("a look", locks.inspect("held")).await.expect("an answer").is_some());
            soon("a renewal", locks.renew(&handle, None)).await.expect("held");
            soon("a release", locks.release(&handle)).await.expect("held");
            // Longer than it is held without renewals.
            tokio::time::sleep(lease).await;
            guard.check().expect("renewed");
            soon("a release", guard.release()).await.expect("held");
            assert!(server.cli(&["CONFIG", "SET", "maxmemory", "0"]).is_ok());
            let guard = soon("an acquire", locks.mutex("held").acquire()).await.expect("free");
            guard.release().await.expect("held");
            locks.close().await;
        });
    }

    fn a_server_busy_with_a_script_is_waited_for(flavor: Flavor) {
        let args = ["--busy-reply-threshold", "50"];
        let server = Server::builder(flavor).args(args).start().expect("a server");
        block_on(async {
            let locks = connects(&server).await;
            let mut other: Connection = server.connect().expect("a connection");
            other.send(&["EVAL", "while true do end", "0"]).expect("sent");
            let busy = || Some(server.try_cli(&["PING"]).ok()?.error()?.starts_with("BUSY"));
            eventually("the server is busy", || busy().filter(|busy| *busy)).expect("busy");
            let error = refused(&server.url()).await;
            says(&error, ErrorKind::Unreachable, "is busy with a script");
            for error in [fails_unreached(&locks, "l").await, fails_at_once(&locks, "l").await] {
                says(&error, ErrorKind::Unreachable, "is busy with a script");
            }
            let waits = tokio::spawn(locks.mutex("l").acquire().into_future());
            assert!(server.cli(&["SCRIPT", "KILL"]).is_ok());
            // An acquire without a limit gets it in the end.
            let guard = soon("an acquire", waits).await.expect("no panic").expect("free");
            guard.release().await.expect("held");
            locks.close().await;
        });
    }

    fn a_server_that_can_not_save_its_data_says_so(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = connects(&server).await;
            locks.mutex("l").acquire().await.expect("free").release().await.expect("held");
            // A folder is where the file has to go.
            std::fs::create_dir(server.dir().join("dump.rdb")).expect("a folder");
            assert!(server.cli(&["CONFIG", "SET", "save", "3600 1000000"]).is_ok());
            server.cli(&["BGSAVE"]);
            says_of_itself(&server, "persistence", "rdb_last_bgsave_status", "err");
            for error in [fails(&locks, "l").await, fails_at_once(&locks, "l").await] {
                says(&error, ErrorKind::Store, "can't save its data");
            }
            assert!(server.cli(&["CONFIG", "SET", "save", ""]).is_ok());
            locks.mutex("l").acquire().await.expect("free").release().await.expect("held");
            locks.close().await;
        });
    }

    fn a_master_that_becomes_a_replica_is_unreachable_until_it_is_one_again(flavor: Flavor) {
        let [server, other] = [(); 2].map(|()| Server::start(flavor).expect("a server"));
        block_on(async {
            let locks = connects(&server).await;
            locks.mutex("l").acquire().await.expect("free").release().await.expect("held");
            let port = other.port().to_string();
            assert!(server.cli(&["REPLICAOF", "127.0.0.1", &port]).is_ok());
            says(&fails_at_once(&locks, "l").await, ErrorKind::Unreachable, "replica");
            let error = fails_unreached(&locks, "l").await;
            says(&error, ErrorKind::Unreachable, "replica of 127.0.0.1");
            assert!(server.cli(&["REPLICAOF", "NO", "ONE"]).is_ok());
            // It has the other's data now, without the marker that it had.
            let error = fails(&locks, "l").await;
            assert_eq!(error.kind(), ErrorKind::Quarantined, "{error}");
            locks.close().await;
        });
    }
}
