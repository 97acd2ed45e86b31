//! `protocol=zmutex`: what was wrong with the original, and is not so here; and the scenario of its
//! document.

use std::time::{Duration, Instant};

use taketurns_servers::{Flavor, PATIENCE, ServerClock, eventually, on_both};

use super::zmutex::*;
use super::*;

/// A server that tells of what happens to sorted sets.
fn starts_with_events(flavor: Flavor) -> Server {
    let server = starts(flavor);
    assert!(server.cli(&["CONFIG", "SET", "notify-keyspace-events", "Kz"]).is_ok());
    server
}

/// How many steps there were since the last reset.
fn steps(server: &Server) -> u64 {
    server.command_stats().get("evalsha").map_or(0, |stats| stats.calls)
}

/// Which events are subscribed to.
fn heard_of(server: &Server) -> Vec<String> {
    let reply = server.cli(&["PUBSUB", "CHANNELS", "__keyspace*"]);
    reply
        .array()
        .expect("channels")
        .iter()
        .filter_map(|name| name.text())
        .map(str::to_owned)
        .collect()
}

fn until_heard_of(server: &Server, channels: &[&str]) {
    eventually("events are subscribed to", || (heard_of(server) == channels).then_some(()))
        .expect("those");
}

on_both! {
    fn no_clients_clock_decides_anything(flavor: Flavor) {
        // As if that of every client were an hour behind.
        let clock = ServerClock::ahead(3_600).expect("a clock");
        let server = Server::builder(flavor).clock(&clock).start().expect("a server");
        block_on(async {
            let (one, other) = (zmutex(&server, "60").await, zmutex(&server, "60").await);
            creates(&server, "jobs", "a");
            let before = time_us(&server);
            let guard = gets(&one.pool("jobs"), "a").await;
            let held = score(&server, "jobs", "a").expect("a score");
            assert!((before..=time_us(&server)).contains(&held));
            assert!(soon("a try", other.pool("jobs").try_any()).await.expect("a server").is_none());
            guard.release().await.expect("held");
            // And by the server's, this one's time is over.
            scores(&server, "jobs", "a", time_us(&server) - 61_000_000);
            assert!(soon("a try", other.pool("jobs").try_any()).await.expect("a server").is_some());
        });
    }

    fn a_release_leaves_the_mutex_to_those_who_wait_for_its_name(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let (one, other) = (zmutex(&server, "60").await, zmutex(&server, "60").await);
            creates(&server, "jobs", "a");
            let guard = gets(&one.pool("jobs"), "a").await;
            let waiting = waits_for(&other, "jobs", "a");
            until_waiting(&server, "jobs", 1);
            guard.release().await.expect("held");
            assert!(soon("a turn", waiting).await.expect("no panic").is_held());
        });
    }

    fn with_release_remove_a_mutex_is_gone_until_it_is_created_again(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60&release=remove").await;
            let jobs = locks.pool("jobs");
            creates(&server, "jobs", "a");
            let guard = gets(&jobs, "a").await;
            let waiting = waits_for(&locks, "jobs", "a");
            until_waiting(&server, "jobs", 1);
            guard.release().await.expect("held");
            assert_eq!(score(&server, "jobs", "a"), None);
            assert_eq!(places(&server, "jobs"), Some(1), "what the document's release does to those who wait");
            creates(&server, "jobs", "a");
            soon("a turn", waiting).await.expect("no panic").release().await.expect("held");
            assert_eq!(foreign_keys(&server), [""; 0]);
        });
    }

    fn events_are_heard_in_any_database_and_while_somebody_waits(flavor: Flavor) {
        let server = starts_with_events(flavor);
        block_on(async {
            let url = format!("{}/3?protocol=zmutex&timeout=3600&unfenced=ok", server.url());
            let locks = sleeper(&url, AllowedLooks::Never).await;
            let jobs = locks.pool("jobs");
            assert!(jobs.add("a").await.expect("a server"));
            // A renewal of it would find out, too, and is too late for that.
            let held = soon("any", jobs.any().lease(4 * PATIENCE)).await.expect("a member");
            let first = waits_for(&locks, "jobs", "a");
            until_heard_of(&server, &["__keyspace@3__:jobs"]);
            let late = waits_for(&locks, "jobs", "late");
            let mut raw = server.connect().expect("a connection");
            raw.command(&["SELECT", "3"]).expect("a reply");
            eventually("both wait", || {
                let queue = raw.command(&["HGET", "tt:jobs", "q"]).expect("a reply");
                queue.text()?.starts_with("2 ").then_some(())
            }).expect("two places");
            raw.command(&["ZADD", "jobs", "NX", "0", "late"]).expect("a reply");
            let late = soon("it is created", late).await.expect("no panic");
            drop((held, late, jobs));
            drop(soon("a turn", first).await.expect("no panic"));
            soon("closing", locks.close()).await;
            until_heard_of(&server, &[]);
        });
    }

    fn who_stops_waiting_stops_listening(flavor: Flavor) {
        let server = starts_with_events(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            let waiting = waits_for(&locks, "jobs", "never");
            until_heard_of(&server, &["__keyspace@0__:jobs"]);
            waiting.abort();
            until_heard_of(&server, &[]);
        });
    }

    fn events_are_heard_again_after_a_connection_was_lost(flavor: Flavor) {
        let server = starts_with_events(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            let waiting = waits_for(&locks, "jobs", "late");
            until_heard_of(&server, &["__keyspace@0__:jobs"]);
            let killed = server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            assert_eq!(killed.int(), Some(1));
            until_heard_of(&server, &["__keyspace@0__:jobs"]);
            creates(&server, "jobs", "late");
            assert!(soon("it is created", waiting).await.expect("no panic").is_held());
        });
    }

    fn an_event_does_not_make_those_who_wait_spin(flavor: Flavor) {
        let server = starts_with_events(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            creates(&server, "jobs", "a");
            scores(&server, "jobs", "a", time_us(&server) - 20_000_000);
            let waiting = waits_for(&locks, "jobs", "a");
            until_heard_of(&server, &["__keyspace@0__:jobs"]);
            let mut raw = server.connect().expect("a connection");
            for events in [1, 3_000] {
                let began = Instant::now();
                server.reset_stats();
                for number in 0..events {
                    raw.command(&["ZADD", "jobs", &number.to_string(), "another"]).expect("a reply");
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                let (steps, elapsed) = (steps(&server), began.elapsed());
                // At most one for each time that events are passed on, and the looks that there are anyway.
                let most = 5 + elapsed.as_millis() / 20 + elapsed.as_millis() / 100;
                assert!(u128::from(steps) <= most, "{events} events, {steps} steps in {elapsed:?}");
            }
            waiting.abort();
        });
    }

    fn our_own_releases_are_heard_at_a_pace_and_other_steps_not_at_all(flavor: Flavor) {
        let server = starts_with_events(flavor);
        block_on(async {
            let (one, other) = (zmutex(&server, "60").await, zmutex(&server, "60").await);
            for member in ["a", "b"] {
                creates(&server, "jobs", member);
            }
            let _held = gets(&one.pool("jobs"), "a").await;
            let waiting = waits_for(&other, "jobs", "a");
            until_heard_of(&server, &["__keyspace@0__:jobs"]);
            tokio::time::sleep(Duration::from_millis(300)).await;
            let began = Instant::now();
            server.reset_stats();
            for _ in 0..200 {
                gets(&one.pool("jobs"), "b").await.release().await.expect("held");
            }
            let (steps, elapsed) = (steps(&server), began.elapsed());
            // One per 20 ms at most. Besides, a refresh every second, and renewals that are rarer.
            let most = 400 + 5 + elapsed.as_millis() / 20;
            assert!(u128::from(steps) <= most, "{steps} steps in {elapsed:?}");
            waiting.abort();
        });
    }

    fn mutexes_of_one_set_are_in_nobody_elses_way(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let (one, other) = (zmutex(&server, "60").await, zmutex(&server, "60").await);
            for member in ["a", "b"] {
                creates(&server, "jobs", member);
            }
            let busy = tokio::spawn(async move {
                loop {
                    let _ = gets(&one.pool("jobs"), "a").await.release().await;
                }
            });
            for _ in 0..300 {
                let tried = soon("a try", other.pool("jobs").try_member("b")).await.expect("a server");
                tried.expect("nobody else wants it").release().await.expect("held");
            }
            busy.abort();
            assert!(!server.command_stats().contains_key("watch"));
        });
    }

    fn a_vanished_holder_is_known_by_its_score(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let locks = zmutex(&server, "60").await;
            let now = time_us(&server);
            for (member, score) in [("free", 0), ("held", now), ("stale", now - 61_000_000), ("old", 1)] {
                scores(&server, "jobs", member, score);
            }
            let stale = |view: &taketurns::View| -> Vec<String> {
                let stale = view.members.iter().filter(|member| member.stale);
                stale.map(|member| member.name.to_string()).collect()
            };
            assert_eq!(stale(&seen(&locks, "jobs").await), ["old", "stale"]);
            // Taken over and given back, it is as good as new.
            gets(&locks.pool("jobs"), "stale").await.release().await.expect("held");
            assert_eq!(stale(&seen(&locks, "jobs").await), ["old"]);
        });
    }

    fn ours_are_served_in_order(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let (one, other) = (zmutex(&server, "60").await, zmutex(&server, "60").await);
            creates(&server, "jobs", "a");
            let first = gets(&one.pool("jobs"), "a").await;
            let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
            for number in 0..6 {
                let jobs = if number % 2 == 0 { &one } else { &other }.pool("jobs");
                let sender = sender.clone();
                tokio::spawn(async move {
                    let guard = match number % 3 {
                        0 => soon("any", jobs.any()).await.expect("a member"),
                        _ => gets(&jobs, "a").await,
                    };
                    let _ = sender.send(number);
                    guard.release().await.expect("held");
                });
                until_waiting(&server, "jobs", number + 1);
            }
            first.release().await.expect("held");
            for expected in 0..6 {
                assert_eq!(soon("a turn", order.recv()).await, Some(expected));
            }
        });
    }

    fn the_scenario_of_the_document(flavor: Flavor) {
        let clock = ServerClock::ahead(0).expect("a clock");
        let server = Server::builder(flavor).clock(&clock).start().expect("a server");
        block_on(async {
            let timeout = Duration::from_secs(60);
            let name = "5f0c3a2e";
            let locks = zmutex(&server, "60").await;
            // The third waits for a mutex that is not there yet, takes it, updates it, and never gives it
            // back.
            let third = tokio::spawn({
                let jobs = locks.pool("jobs");
                async move {
                    let acquire = jobs.member(name).lease(timeout).within(PATIENCE);
                    soon("the third", acquire).await.expect("it").into_handle().await.expect("held")
                }
            });
            until_waiting(&server, "jobs", 1);
            // The first creates it.
            assert!(locks.pool("jobs").add(name).await.expect("a server"));
            let handle = soon("the third", third).await.expect("no panic");
            clock.set(10).expect("set");
            locks.renew(&handle, None).await.expect("held");
            let updated = score(&server, "jobs", name).expect("a score");
            // The second takes any, once the time since the last update is over.
            let second = tokio::spawn(locks.pool("jobs").any().within(PATIENCE).into_future());
            until_waiting(&server, "jobs", 1);
            clock.set(10 + 60 + 1).expect("set");
            let guard = soon("the second", second).await.expect("no panic").expect("it");
            let taken = score(&server, "jobs", name).expect("a score");
            assert!(taken >= updated + 60_000_000, "before its time: {updated} {taken}");
            assert_eq!(guard.member().map(|member| member.as_str()), Some(name));
            guard.release().await.expect("held");
            assert_eq!(score(&server, "jobs", name), Some(0));
        });
    }
}
