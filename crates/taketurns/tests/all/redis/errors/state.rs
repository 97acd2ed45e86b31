//! What others keep where locks or the marker should be: said, and left as it is.

use super::*;

/// Everything that can be asked of a lock is refused because of what is at its key.
async fn is_refused(locks: &Locks, lock: &str) {
    const SAID: &str = "something else than a lock";
    says(&fails(locks, lock).await, ErrorKind::Store, SAID);
    says(&fails_at_once(locks, lock).await, ErrorKind::Store, SAID);
    let error = soon("a break", locks.break_lock(lock)).await.expect_err("no lock");
    says(&error, ErrorKind::Store, SAID);
    let error = soon("an add", locks.pool(lock).add("m")).await.expect_err("no pool");
    says(&error, ErrorKind::Store, SAID);
    let error = soon("a resize", locks.semaphore(lock, 2).resize()).await.expect_err("no lock");
    says(&error, ErrorKind::Store, SAID);
}

on_both! {
    fn a_key_of_another_type_is_no_lock_and_stays(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = connects(&server).await;
            assert!(server.cli(&["SET", "tt:x", "1"]).is_ok());
            is_refused(&locks, "x").await;
            let error = soon("a look", locks.inspect("x")).await.expect_err("no lock");
            says(&error, ErrorKind::Store, "something else than a lock");
            assert!(locks.list("*").await.expect("an answer").is_empty());
            assert_eq!(server.cli(&["GET", "tt:x"]).text(), Some("1"));
            locks.close().await;
        });
    }

    fn a_hash_of_somebody_else_is_no_lock_and_stays(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = connects(&server).await;
            let guard = locks.mutex("ours").acquire().await.expect("free");
            // The second has fields that a lock has too.
            let hashes: [&[&str]; 3] =
                [&["foo", "bar"], &["H", "7", "q", "x"], &["H", "7", "r", "x", "k", "?"]];
            for (number, fields) in hashes.iter().enumerate() {
                let (key, name) = (format!("tt:x{number}"), format!("x{number}"));
                server.cli(&[&["HSET", &key][..], fields].concat());
                is_refused(&locks, &name).await;
                assert!(soon("a look", locks.inspect(&name)).await.expect("an answer").is_none());
                let left = server.cli(&["HLEN", &key]).int();
                assert_eq!(left, Some(fields.len() as i64 / 2), "{fields:?} was changed");
                assert_eq!(server.cli(&["TTL", &key]).int(), Some(-1), "it was given an end");
            }
            let listed = locks.list("*").await.expect("an answer");
            assert_eq!(listed.len(), 1, "only the lock is listed: {listed:?}");
            guard.release().await.expect("held");
            locks.close().await;
        });
    }

    fn a_marker_that_is_none_is_said_and_stays(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let marker = "tt:\u{1}run";
            assert!(server.cli(&["SET", marker, "hello"]).is_ok());
            says(&refused(&server.url()).await, ErrorKind::Store, "marker");
            assert_eq!(server.cli(&["GET", marker]).text(), Some("hello"));
            server.cli(&["DEL", marker]);
            server.cli(&["RPUSH", marker, "hello"]);
            says(&refused(&server.url()).await, ErrorKind::Store, "marker");
            assert_eq!(server.cli(&["LLEN", marker]).int(), Some(1));
            server.cli(&["DEL", marker]);
            connects(&server).await.close().await;
        });
    }

    fn a_marker_that_is_overwritten_later_stops_new_locks_and_says_why(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = connects(&server).await;
            let marker = "tt:\u{1}run";
            server.cli(&["DEL", marker]);
            server.cli(&["RPUSH", marker, "hello"]);
            says(&fails(&locks, "new").await, ErrorKind::Store, "marker");
            assert_eq!(server.cli(&["LLEN", marker]).int(), Some(1));
            locks.close().await;
        });
    }
}
