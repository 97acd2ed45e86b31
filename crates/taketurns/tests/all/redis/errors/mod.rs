//! Everything that can be wrong with a server, on real ones: each is an error of the right kind that
//! says what to do, none shows what a script looks like inside, and nobody waits for longer than they
//! were willing to.

mod state;
mod trouble;

use std::time::{Duration, Instant};

use taketurns::{Connect, Error, ErrorKind, Locks};
use taketurns_servers::{Connection, Flavor, Server, eventually, on_both};

use crate::support::in_vain::{in_vain, in_vain_until};
use crate::support::patience::{block_on, soon};

/// The error is of this kind, says this, and nothing that only the makers understand.
#[track_caller]
fn says(error: &Error, kind: ErrorKind, piece: &str) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.contains(piece), "{piece:?} is not said: {text}");
    for inner in ["user_script", "stack traceback", "@user", "attempt to", "Lua"] {
        assert!(!text.contains(inner), "{text}");
    }
}

async fn connects(server: &Server) -> Locks {
    soon("connecting", taketurns::connect(&server.url())).await.expect("a server")
}

/// Connecting there fails.
async fn refused(url: &str) -> Error {
    soon("connecting", taketurns::connect(url)).await.expect_err("nobody can use it")
}

/// An acquire with a time limit fails, after that time or at once, because of what the server answers.
async fn fails(locks: &Locks, lock: &str) -> Error {
    in_vain(|within| locks.mutex(lock).acquire().within(within)).await
}

/// The same because the server can't be reached, and it is known why.
async fn fails_unreached(locks: &Locks, lock: &str) -> Error {
    // Behind that comes the reason, if there was time to find it out.
    let has_reason = |error: &Error| !error.to_string().ends_with("in the time given");
    in_vain_until(has_reason, |within| locks.mutex(lock).acquire().within(within)).await
}

/// The same without waiting at all.
async fn fails_at_once(locks: &Locks, lock: &str) -> Error {
    soon("a try", locks.mutex(lock).try_acquire()).await.expect_err("nobody can have it")
}

/// A request that was under way when the connection broke may have been carried out. The next one
/// was not.
async fn is_noticed(locks: &Locks) {
    soon("the connection is known to be lost", async {
        while fails_at_once(locks, "l").await.kind() == ErrorKind::Indeterminate {}
    })
    .await;
}

on_both! {
    fn a_server_that_is_down_is_unreachable(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        server.kill();
        let error = block_on(refused(&server.url()));
        says(&error, ErrorKind::Unreachable, &format!("127.0.0.1:{}: Connection refused", server.port()));
    }

    fn a_server_that_stands_still_is_unreachable(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        server.pause();
        let error = block_on(refused(&server.url()));
        says(&error, ErrorKind::Unreachable, "does not answer");
        server.resume();
    }

    fn a_server_that_goes_down_is_unreachable_until_it_is_back(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = connects(&server).await;
            server.kill();
            is_noticed(&locks).await;
            says(&fails_at_once(&locks, "l").await, ErrorKind::Unreachable, "Connection refused");
            let start = Instant::now();
            let error = fails_unreached(&locks, "l").await;
            says(&error, ErrorKind::Unreachable, ": Connection refused");
            assert!(start.elapsed() >= Duration::from_millis(500), "it gave up early");
            server.restart().expect("a restart");
            // What it may have forgotten is nobody's for a while.
            let error = fails(&locks, "l").await;
            assert_eq!(error.kind(), ErrorKind::Quarantined, "{error}");
        });
    }

    fn a_wrong_or_missing_password_is_said(flavor: Flavor) {
        let server = Server::builder(flavor).requirepass("right").start().expect("a server");
        block_on(async {
            let port = server.port();
            let error = refused(&format!("redis://:wrong-one@127.0.0.1:{port}")).await;
            says(&error, ErrorKind::Store, "does not accept the user or the password");
            assert!(!error.to_string().contains("wrong-one"), "{error}");
            // A password of the surroundings is not looked for here.
            let error = refused(&format!("redis://127.0.0.1:{port}?password_env=NO_SUCH")).await;
            says(&error, ErrorKind::Store, "NO_SUCH");
            connects(&server).await.close().await;
        });
    }

    fn a_database_that_is_not_there_is_said(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let error = block_on(refused(&format!("{}/99", server.url())));
        says(&error, ErrorKind::Store, "has no database 99");
    }

    fn a_replica_is_refused_and_its_master_named(flavor: Flavor) {
        let [master, replica] = [(); 2].map(|()| Server::start(flavor).expect("a server"));
        let port = master.port().to_string();
        assert!(replica.cli(&["REPLICAOF", "127.0.0.1", &port]).is_ok());
        let error = block_on(refused(&replica.url()));
        says(&error, ErrorKind::Store, &format!("is a replica of 127.0.0.1:{port}"));
    }

    fn a_server_that_may_evict_locks_is_refused_where_that_was_asked_for(flavor: Flavor) {
        let args = ["--maxmemory-policy", "allkeys-lru"];
        let server = Server::builder(flavor).args(args).start().expect("a server");
        block_on(async {
            let error = refused(&format!("{}?strict=true", server.url())).await;
            says(&error, ErrorKind::Store, "maxmemory-policy is allkeys-lru");
            // Only a warning otherwise.
            connects(&server).await.close().await;
        });
    }
}
