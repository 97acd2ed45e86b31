//! What a wire has no form for, and what was mixed up.

use taketurns::{Error, ErrorKind};
use taketurns_servers::{Flavor, on_both};

use super::*;

/// Tries to acquire the lock as the kind that this protocol has.
async fn try_any(locks: &Locks, protocol: &str, name: &str) -> Result<Option<Guard>, Error> {
    match protocol {
        "zmutex" => locks.pool(name).try_any().await,
        _ => locks.mutex(name).try_acquire().await,
    }
}

on_both! {
    fn without_a_token_nothing_is_acquired_unless_that_is_known(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let url = format!("{}?protocol=plain", server.url());
            let locks = soon("connecting", taketurns::connect(&url)).await.expect("a server");
            let error = soon("an acquire", locks.mutex("l").acquire()).await.expect_err("unfenced");
            assert_eq!(error.kind(), ErrorKind::Unfenced);
            assert!(error.to_string().contains("unfenced=ok"), "{error}");
            let guarantees = locks.guarantees();
            assert!(!guarantees.fenced && !guarantees.fair && !guarantees.event_driven);
        });
    }

    fn a_key_of_another_type_is_named_and_left_alone(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = speaks(&server, "plain").await;
            server.cli(&["RPUSH", "l", "x"]);
            let error = soon("a try", locks.mutex("l").try_acquire()).await.expect_err("a list");
            assert_eq!(error.kind(), ErrorKind::Store);
            assert!(error.to_string().contains("protocol=plain"), "{error}");
            assert_eq!(server.cli(&["LLEN", "l"]).int(), Some(1));
        });
    }

    fn what_others_keep_by_another_protocol_is_named_and_left_alone(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let makes: [(&str, &[&str]); 3] = [
            ("plain", &["SET", "plain", "x", "NX", "PX", "60000"]),
            ("redturn", &["RPUSH", "redturn", "1:c:60000"]),
            ("zmutex", &["ZADD", "zmutex", "0", "m"]),
        ];
        for (_, words) in makes {
            assert!(server.cli(words).error().is_none());
        }
        block_on(async {
            for (ours, _) in makes {
                let locks = speaks(&server, ours).await;
                for (theirs, _) in makes.into_iter().filter(|(theirs, _)| *theirs != ours) {
                    let before = server.cli(&["DUMP", theirs]);
                    let error = soon("a try", try_any(&locks, ours, theirs)).await;
                    let error = error.expect_err("of another type").to_string();
                    assert!(error.contains(&format!("protocol={ours}")), "{ours}, {theirs}: {error}");
                    assert_eq!(server.cli(&["DUMP", theirs]), before, "{ours}, {theirs}");
                }
            }
        });
    }

    fn what_is_of_another_type_hides_no_lock_from_those_who_look(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let native = soon("connecting", taketurns::connect(&server.url())).await.expect("a server");
            // A lock that is called like what it is there for, and another.
            let hash = acquires(&native, "hash").await;
            assert_eq!(server.cli(&["HSET", "hash", "field", "value"]).int(), Some(1));
            let free = acquires(&native, "free").await;
            assert_eq!(server.cli(&["HSET", "unused", "field", "value"]).int(), Some(1));
            for protocol in ["plain", "python-redis-lock", "fairqueue", "redturn", "zmutex"] {
                if protocol == "python-redis-lock" {
                    assert_eq!(server.cli(&["HSET", "lock:unused", "field", "value"]).int(), Some(1));
                    assert_eq!(server.cli(&["HSET", "lock:hash", "field", "value"]).int(), Some(1));
                }
                let locks = speaks(&server, protocol).await;
                let listed = locks.list("*").await.expect("those that there are");
                let names: Vec<String> = listed.iter().map(|(name, _)| name.to_string()).collect();
                assert_eq!(names, ["free", "hash"], "{protocol}");
                let seen = locks.inspect("hash").await.expect("a lock of ours").expect("one");
                assert_eq!(seen.holders.len(), 1, "{protocol}");
                let error = locks.inspect("unused").await.expect_err("nothing of ours");
                assert!(error.to_string().contains(&format!("protocol={protocol}")), "{error}");
            }
            hash.release().await.expect("held");
            free.release().await.expect("held");
        });
    }

    fn two_protocols_of_ours_on_one_name_are_told(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        const ALL: [&str; 5] = ["plain", "python-redis-lock", "fairqueue", "redturn", "zmutex"];
        block_on(async {
            for one in ALL {
                let (name, holds) = (format!("of-{one}"), speaks(&server, one).await);
                if one == "zmutex" {
                    holds.pool(&name).add("m").await.expect("a set");
                }
                let guard = soon("a try", try_any(&holds, one, &name)).await.expect("a server");
                let guard = guard.expect("free");
                for other in ALL.into_iter().filter(|other| *other != one) {
                    let locks = speaks(&server, other).await;
                    let error = soon("a try", try_any(&locks, other, &name)).await;
                    let error = error.expect_err("in use otherwise").to_string();
                    assert!(error.contains("protocol="), "{one}, {other}: {error}");
                    assert!(guard.is_held(), "{one}, {other}");
                }
                guard.release().await.expect("it was left alone");
            }
        });
    }

    fn other_kinds_are_refused(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = speaks(&server, "plain").await;
            let error = soon("an acquire", locks.semaphore("s", 3).acquire()).await.expect_err("no");
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("protocol=plain knows no semaphore"), "{error}");
            let error = soon("an add", locks.pool("p").add("m")).await.expect_err("no");
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        });
    }
}
