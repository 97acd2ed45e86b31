//! `protocol=zmutex`: a pool in a sorted set, and what is in it when.

use taketurns::{Pool, Token, View};
use taketurns_servers::{Connection, Flavor, eventually, on_both};

use super::*;

pub(crate) fn starts(flavor: Flavor) -> Server {
    Server::start(flavor).expect("a server")
}

/// A client with this timeout in seconds, or more options.
pub(crate) async fn zmutex(server: &Server, timeout: &str) -> Locks {
    speaks(server, &format!("zmutex&timeout={timeout}")).await
}

/// The server's time in microseconds.
pub(crate) fn time_us(server: &Server) -> u64 {
    let reply = server.cli(&["TIME"]);
    let part = |index: usize| -> u64 {
        let parts = reply.array().expect("two parts");
        parts[index].text().expect("digits").parse().expect("a number")
    };
    part(0) * 1_000_000 + part(1)
}

/// Foreign clients create a mutex.
pub(crate) fn creates(server: &Server, set: &str, member: &str) {
    server.cli(&["ZADD", set, "NX", "0", member]);
}

/// What a foreign client does whose clock is right: looks at the score, and takes what is older than the
/// timeout. Answers the new score.
const TAKE: &str = "local time = redis.call('TIME') \
    local now = time[1] * 1000000 + time[2] \
    local score = redis.call('ZSCORE', KEYS[1], ARGV[1]) \
    if not score or tonumber(score) >= now - ARGV[2] * 1000000 then return false end \
    redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1]) \
    return string.format('%.0f', now)";

pub(crate) fn takes(server: &Server, set: &str, member: &str, timeout_s: &str) -> bool {
    server.cli(&["EVAL", TAKE, "1", set, member, timeout_s]).text().is_some()
}

/// Gives the member this score, whatever it was before.
pub(crate) fn scores(server: &Server, set: &str, member: &str, score: u64) {
    server.cli(&["ZADD", set, &score.to_string(), member]);
}

pub(crate) fn score(server: &Server, set: &str, member: &str) -> Option<u64> {
    server.cli(&["ZSCORE", set, member]).text()?.parse().ok()
}

/// How many of ours wait.
pub(crate) fn places(server: &Server, set: &str) -> Option<u32> {
    let queue = server.cli(&["HGET", &format!("tt:{set}"), "q"]);
    queue.text()?.split(' ').next()?.parse().ok()
}

pub(crate) fn until_waiting(server: &Server, set: &str, count: u32) {
    let reached = || (places(server, set).unwrap_or(0) == count).then_some(());
    eventually("they wait", reached).expect("a place each");
}

/// A member, by whom it comes to be had.
pub(crate) async fn gets(pool: &Pool, member: &str) -> Guard {
    soon("a member", pool.member(member)).await.expect("the member")
}

/// One that waits for this member, in a task of its own.
pub(crate) fn waits_for(locks: &Locks, set: &str, member: &str) -> tokio::task::JoinHandle<Guard> {
    let (jobs, member) = (locks.pool(set), member.to_owned());
    tokio::spawn(async move { gets(&jobs, &member).await })
}

pub(crate) async fn seen(locks: &Locks, set: &str) -> View {
    locks.inspect(set).await.expect("a server").expect("a pool")
}

on_both! {
    fn a_score_is_the_servers_time_while_a_member_is_held_and_zero_after(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            creates(&server, "jobs", "a");
            let before = time_us(&server);
            let guard = soon("any", locks.pool("jobs").any()).await.expect("a member");
            let held = score(&server, "jobs", "a").expect("a score");
            assert!((before..=time_us(&server)).contains(&held));
            assert_eq!(guard.token(), Token::UNFENCED, "there is no room for one");
            assert_eq!(guard.member().map(|member| member.as_str()), Some("a"));
            assert!(!takes(&server, "jobs", "a", "60"), "a foreign client is kept out");
            guard.release().await.expect("held");
            assert_eq!(score(&server, "jobs", "a"), Some(0));
            assert!(takes(&server, "jobs", "a", "60"));
            let tried = soon("a try", locks.pool("jobs").try_any()).await.expect("a server");
            assert!(tried.is_none(), "and so are we");
        });
    }

    fn members_are_those_of_the_set_also_if_others_change_it(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            let jobs = locks.pool("jobs");
            assert!(jobs.add("a").await.expect("a server") && !jobs.add("a").await.expect("a server"));
            assert_eq!(score(&server, "jobs", "a"), Some(0));
            creates(&server, "jobs", "b");
            let names = |view: View| -> Vec<String> {
                view.members.iter().map(|member| member.name.to_string()).collect()
            };
            assert_eq!(names(seen(&locks, "jobs").await), ["a", "b"]);
            let (a, b) = (gets(&jobs, "a").await, gets(&jobs, "b").await);
            assert!(jobs.remove("b").await.expect("a server"));
            assert!(score(&server, "jobs", "b").is_some(), "it is held");
            b.release().await.expect("held");
            assert_eq!(score(&server, "jobs", "b"), None);
            a.release().await.expect("held");
            server.cli(&["ZREM", "jobs", "a"]);
            assert!(soon("a try", jobs.try_any()).await.expect("a server").is_none());
            assert_eq!(server.cli(&["EXISTS", "jobs"]).int(), Some(0));
            assert!(!jobs.remove("a").await.expect("a server"), "a foreign client was first");
        });
    }

    fn a_set_is_shown_whatever_the_lock_of_its_name_was_before(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let native = taketurns::connect(&server.url()).await.expect("a server");
            acquires(&native, "jobs").await.release().await.expect("held");
            creates(&server, "jobs", "a");
            let locks = zmutex(&server, "60").await;
            let view = seen(&locks, "jobs").await;
            assert_eq!((view.kind, view.members.len()), (taketurns::Kind::Pool, 1));
            assert!(gets(&locks.pool("jobs"), "a").await.is_held());
        });
    }

    fn a_hold_is_kept_for_longer_than_the_timeout(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "6").await;
            creates(&server, "jobs", "a");
            let guard = gets(&locks.pool("jobs"), "a").await;
            let first = score(&server, "jobs", "a").expect("a score");
            let kept = || score(&server, "jobs", "a").filter(|_| time_us(&server) > first + 6_000_000);
            let taken = || takes(&server, "jobs", "a", "6");
            eventually("it is kept", || { assert!(!taken()); kept() }).expect("renewals");
            assert!(guard.is_held());
            guard.release().await.expect("held");
        });
    }

    fn a_handle_is_renewed_by_the_process_that_has_it(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            creates(&server, "jobs", "a");
            let handle = gets(&locks.pool("jobs"), "a").await.into_handle().await.expect("held");
            let before = score(&server, "jobs", "a").expect("a score");
            let other = zmutex(&server, "60").await;
            other.renew(&handle, None).await.expect("held");
            assert!(score(&server, "jobs", "a").expect("a score") > before);
            other.release(&handle).await.expect("held");
            assert_eq!(score(&server, "jobs", "a"), Some(0));
        });
    }

    fn cancelling_leaves_the_set_as_it_was(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            creates(&server, "jobs", "a");
            assert!(takes(&server, "jobs", "a", "60"));
            let before = score(&server, "jobs", "a");
            let task = waits_for(&locks, "jobs", "a");
            until_waiting(&server, "jobs", 1);
            task.abort();
            until_waiting(&server, "jobs", 0);
            assert_eq!((score(&server, "jobs", "a"), foreign_keys(&server)), (before, vec!["jobs".into()]));
        });
    }

    fn what_is_no_name_to_us_is_left_alone(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            let mut raw: Connection = server.connect().expect("a connection");
            let long = "x".repeat(513);
            let odd: [&[u8]; 9] = [b"", b"a\nb", b"\xff", b"\xc2\x85", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
                b"\xe0\x80\x80", b"\xc3", long.as_bytes()];
            for (name, score) in odd.iter().map(|name| (*name, "0")).chain([(&b"never"[..], "-inf"), (b"always", "inf")]) {
                raw.command(&[b"ZADD", b"jobs", score.as_bytes(), name]).expect("a reply");
            }
            creates(&server, "jobs", "grüße, 東京 🗝");
            let guard = soon("any", locks.pool("jobs").any()).await.expect("a member");
            assert_eq!(guard.member().map(|member| member.as_str()), Some("grüße, 東京 🗝"));
            assert!(soon("a try", locks.pool("jobs").try_any()).await.expect("a server").is_none());
            let view = seen(&locks, "jobs").await;
            assert_eq!(view.members.len(), 2, "{view:?}");
            assert_eq!(server.cli(&["ZCARD", "jobs"]).int(), Some(12));
        });
    }

    fn native_clients_and_those_on_the_wire_share_members_one_at_a_time(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let (wire, native) = (zmutex(&server, "60").await, taketurns::connect(&server.url()).await.expect("a server"));
            let (jobs, ours) = (wire.pool("jobs"), native.pool("jobs"));
            creates(&server, "jobs", "a");
            let guard = gets(&jobs, "a").await;
            assert!(soon("a try", ours.try_member("a")).await.expect("a server").is_none());
            guard.release().await.expect("held");
            let guard = gets(&ours, "a").await;
            assert!(guard.token().is_fenced());
            assert!(soon("a try", jobs.try_member("a")).await.expect("a server").is_none());
            assert!(ours.add("b").await.expect("a server"));
            drop(gets(&jobs, "b").await);
            let given_back = || score(&server, "jobs", "b").filter(|score| *score == 0);
            eventually("it is in the set, and free", given_back).expect("b");
            assert!(ours.remove("b").await.expect("a server"));
            assert!(soon("a try", jobs.try_member("b")).await.expect("a server").is_none());
            assert_eq!(score(&server, "jobs", "b"), None);
        });
    }

    fn a_key_of_another_type_or_protocol_is_named_and_left_alone(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let (zmutex, plain) = (zmutex(&server, "60").await, speaks(&server, "plain").await);
            server.cli(&["SET", "s", "x"]);
            let error = soon("a try", zmutex.pool("s").try_any()).await.expect_err("a string");
            assert!(error.to_string().contains("protocol=zmutex"), "{error}");
            zmutex.pool("jobs").add("a").await.expect("a server");
            let error = soon("a try", plain.mutex("jobs").try_acquire()).await.expect_err("a set");
            assert!(error.to_string().contains("protocol=plain"), "{error}");
            let error = soon("a try", zmutex.mutex("jobs").try_acquire()).await.expect_err("a pool");
            assert!(error.to_string().contains("protocol=zmutex knows no mutex"), "{error}");
            assert_eq!(score(&server, "jobs", "a"), Some(0));
        });
    }

    fn a_set_of_more_members_than_a_pool_has_is_refused(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            let fill = "for i = 1, 1024 do redis.call('ZADD', KEYS[1], 0, i) end";
            server.cli(&["EVAL", fill, "1", "jobs"]);
            drop(gets(&locks.pool("jobs"), "1024").await);
            creates(&server, "jobs", "one more");
            let error = soon("a try", locks.pool("jobs").try_any()).await.expect_err("too many");
            assert!(error.to_string().contains("more than 1024"), "{error}");
            assert_eq!(server.cli(&["ZCARD", "jobs"]).int(), Some(1025));
        });
    }
}
