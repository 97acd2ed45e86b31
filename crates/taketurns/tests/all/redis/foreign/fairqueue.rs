//! `protocol=fairqueue`: who lets go calls the head of a queue that foreign clients and ours stand in.

use taketurns::{ErrorKind, Token};
use taketurns_servers::{Connection, Flavor, on_both};

use super::*;

pub(super) const LOCK: &str = "lock:orders";
pub(super) const QUEUE: &str = "lock-queue:orders";

/// The document's Locking, as far as it is one step. 1 if it has the lock.
const LOCKING: &str = "
    local token, ms = ARGV[1], ARGV[2]
    if redis.call('EXISTS', 'lock:orders') == 1 then return 0 end
    if redis.call('LLEN', 'lock-queue:orders') > 0 then
        if not redis.call('LPOS', 'lock-queue:orders', token) then
            redis.call('RPUSH', 'lock-queue:orders', token)
        end
        local queued = redis.call('LPOP', 'lock-queue:orders')
        redis.call('SET', 'lock:orders', queued, 'PX', ms)
        if queued ~= token then
            redis.call('RPUSH', 'lock-notify:' .. queued, 'x')
            return 0
        end
    else
        redis.call('SET', 'lock:orders', token, 'PX', ms)
    end
    return 1";

/// A token as amphp/redis makes them.
const AMPHP: &str = "q83vASNFZ4mrze8BI0VniQ==";

/// How long a foreign client's lock lasts: longer than any test.
const LOCK_MS: &str = "600000";

/// And its Unlocking.
const UNLOCKING: &str = "
    if redis.call('GET', 'lock:orders') ~= ARGV[1] then return end
    redis.call('DEL', 'lock:orders')
    local queued = redis.call('LINDEX', 'lock-queue:orders', 0)
    if queued then redis.call('RPUSH', 'lock-notify:' .. queued, 'x') end";

pub(super) fn starts(flavor: Flavor) -> Server {
    Server::start(flavor).expect("a server")
}

/// A foreign client looks whether it can have the lock.
pub(super) fn locks(server: &Server, token: &str) -> bool {
    server.cli(&["EVAL", LOCKING, "0", token, LOCK_MS]).int() == Some(1)
}

/// The holder's time is over, and before anybody else this foreign client looks. Answers who has the lock then.
pub(super) fn comes_first_after_the_end(server: &Server, token: &str) -> Option<String> {
    let end = format!(
        "redis.call('DEL', 'lock:orders'); (function() {LOCKING} end)() \
         return redis.call('GET', 'lock:orders')"
    );
    server.cli(&["EVAL", &end, "0", token, LOCK_MS]).text().map(str::to_owned)
}

/// A foreign client in line that looks as soon as it is called, within the same moment of the server.
pub(super) fn heeds_its_call(server: &Server, token: &str) -> Connection {
    let mut called = server.connect().expect("a server");
    called.send(&["BLPOP", &format!("lock-notify:{token}"), "0"]).expect("sent");
    called.send(&["EVAL", LOCKING, "0", token, LOCK_MS]).expect("sent");
    called
}

/// It was called, and has the lock.
pub(super) fn came(called: &mut Connection) -> bool {
    called.read().expect("a call").array().is_some()
        && called.read().expect("a look").int() == Some(1)
}

pub(super) fn unlocks(server: &Server, token: &str) {
    server.cli(&["EVAL", UNLOCKING, "0", token]);
}

pub(super) fn holder(server: &Server) -> Option<String> {
    server.cli(&["GET", LOCK]).text().map(str::to_owned)
}

pub(super) fn line(server: &Server) -> Vec<String> {
    let line = server.cli(&["LRANGE", QUEUE, "0", "-1"]);
    line.array().expect("a list").iter().map(|id| id.text().expect("text").to_owned()).collect()
}

pub(super) fn left_ms(server: &Server, key: &str) -> i64 {
    server.cli(&["PTTL", key]).int().expect("a number")
}

/// One of ours waits from now on.
pub(super) fn begins_to_wait(server: &Server, locks: &Locks) -> tokio::task::JoinHandle<Guard> {
    let (locks, before) = (locks.clone(), line(server).len());
    let waiting = tokio::spawn(async move { acquires(&locks, "orders").await });
    eventually("it stands in line", || (line(server).len() > before).then_some(()))
        .expect("a place");
    waiting
}

pub(super) async fn has_it(waiting: tokio::task::JoinHandle<Guard>) -> Guard {
    soon("its turn", waiting).await.expect("no panic")
}

on_both! {
    fn what_is_in_the_keys_is_what_the_document_says(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            let guard = acquires(&ours, "orders").await;
            assert_eq!(guard.token(), Token::UNFENCED, "there is no room for one");
            assert_eq!(foreign_keys(&server), [LOCK]);
            assert!((20_000..=60_000).contains(&left_ms(&server, LOCK)));
            let waiting = begins_to_wait(&server, &ours);
            assert_eq!(foreign_keys(&server), [QUEUE, LOCK]);
            let id = line(&server).remove(0);
            let handle = guard.into_handle().await.expect("held");
            assert!(!handle.expose().contains(&holder(&server).expect("a holder")), "no secret");
            let guard = ours.adopt(handle).await.expect("held");
            assert!(!locks(&server, "a foreign client"));
            guard.release().await.expect("held");
            let guard = has_it(waiting).await;
            assert_eq!(holder(&server), Some(id));
            assert_eq!(foreign_keys(&server), [LOCK]);
            guard.release().await.expect("held");
            assert_eq!(foreign_keys(&server), [""; 0]);
            assert!(locks(&server, "a foreign client"));
            assert!(is_busy(&ours, "orders").await);
        });
    }

    fn who_finds_it_held_queues_and_is_called_by_a_foreign_release(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let url = format!("{}?protocol=fairqueue&unfenced=ok", server.url());
            let ours = sleeper(&url, AllowedLooks::Never).await;
            for _ in 0..5 {
                assert!(locks(&server, "a foreign client"));
                let waiting = begins_to_wait(&server, &ours);
                unlocks(&server, "a foreign client");
                has_it(waiting).await.release().await.expect("held");
            }
            assert_eq!(foreign_keys(&server), [""; 0]);
        });
    }

    fn one_that_a_foreign_client_promoted_recognises_itself(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            assert!(locks(&server, "first"));
            let waiting = begins_to_wait(&server, &ours);
            let id = line(&server).remove(0);
            // The next to look promotes the head.
            assert_eq!(comes_first_after_the_end(&server, "second").as_ref(), Some(&id));
            let guard = has_it(waiting).await;
            assert_eq!(holder(&server), Some(id));
            assert!(left_ms(&server, LOCK) <= 60_000, "its own lease, and not the foreign client's");
            assert_eq!(line(&server), ["second"]);
            assert_eq!(foreign_keys(&server), [QUEUE, LOCK]);
            guard.release().await.expect("held");
            // Now it is the foreign client's turn, and it is called.
            assert_eq!(foreign_keys(&server), ["lock-notify:second", QUEUE]);
            assert!(locks(&server, "second"));
            assert_eq!(line(&server), [""; 0]);
        });
    }

    fn ours_that_the_queue_lost_stand_in_it_again_before_all_who_came_since(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            server.cli(&["SET", LOCK, AMPHP, "PX", LOCK_MS]);
            let (first, second) = (begins_to_wait(&server, &ours), begins_to_wait(&server, &ours));
            let ids = line(&server);
            // It has expired, and a foreign client was the first to notice.
            server.cli(&["EVAL", "redis.call('DEL', KEYS[1]) redis.call('RPUSH', KEYS[1], ARGV[1])", "1", QUEUE, "third"]);
            let expected = [ids[0].as_str(), &ids[1], "third"];
            eventually("they stand in it", || (line(&server) == expected).then_some(())).expect("places");
            server.cli(&["DEL", LOCK]);
            let guard = has_it(first).await;
            assert_eq!(line(&server), expected[1..]);
            guard.release().await.expect("held");
            drop(has_it(second).await);
        });
    }

    fn a_queue_that_expires_is_kept_while_one_of_ours_waits(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            let guard = acquires(&ours, "orders").await;
            let waiting = begins_to_wait(&server, &ours);
            assert_eq!(left_ms(&server, QUEUE), -1);
            // As amphp's next look has it.
            server.cli(&["PEXPIRE", QUEUE, "13000"]);
            eventually("it lives longer", || (left_ms(&server, QUEUE) > 13_000).then_some(())).expect("kept");
            guard.release().await.expect("held");
            drop(has_it(waiting).await);
        });
    }

    fn those_who_poll_cost_ours_no_pause(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            server.cli(&["SET", LOCK, AMPHP, "PX", LOCK_MS]);
            let (first, second) = (begins_to_wait(&server, &ours), begins_to_wait(&server, &ours));
            let id = line(&server).remove(1);
            server.cli(&["RPUSH", QUEUE, AMPHP]);
            server.cli(&["DEL", LOCK]);
            has_it(first).await.release().await.expect("held");
            assert_eq!(holder(&server), Some(id), "in the same step, and not after a gap");
            has_it(second).await.release().await.expect("held");
            assert!(locks(&server, AMPHP), "its turn");
        });
    }

    fn one_that_was_promoted_for_too_short_a_time_is_the_first_again(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            assert!(locks(&server, "first"));
            let waiting = begins_to_wait(&server, &ours);
            // As if it had been promoted, and that were over.
            server.cli(&["EVAL", "redis.call('DEL', KEYS[1]) redis.call('LPOP', KEYS[2]) redis.call('RPUSH', KEYS[2], 'second')", "2", LOCK, QUEUE]);
            let guard = has_it(waiting).await;
            assert_eq!(line(&server), ["second"], "it was not waited for, and not taken for dead");
            drop(guard);
        });
    }

    fn foreign_clients_and_ours_are_served_in_one_order(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let (one, other) = (speaks(&server, "fairqueue").await, speaks(&server, "fairqueue").await);
            let guard = acquires(&one, "orders").await;
            let second = begins_to_wait(&server, &other);
            server.cli(&["RPUSH", QUEUE, "a foreign client"]);
            let fourth = begins_to_wait(&server, &one);
            guard.release().await.expect("held");
            let guard = has_it(second).await;
            let mut foreign = heeds_its_call(&server, "a foreign client");
            guard.release().await.expect("held");
            assert!(came(&mut foreign), "it is left to the foreign client");
            assert!(!fourth.is_finished());
            unlocks(&server, "a foreign client");
            drop(has_it(fourth).await);
        });
    }

    fn to_give_back_what_was_lost_is_an_error_and_hurts_nobody(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            let guard = acquires(&ours, "orders").await;
            server.cli(&["DEL", LOCK]);
            assert!(locks(&server, "a foreign client"));
            assert!(guard.release().await.is_err(), "it was not held any more");
            assert_eq!(holder(&server).as_deref(), Some("a foreign client"));
        });
    }

    fn a_holder_whose_lock_a_foreign_client_took_is_told(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            let guard = acquires(&ours, "orders").await;
            server.cli(&["SET", LOCK, "a foreign client", "PX", "60000"]);
            assert!(is_busy(&ours, "orders").await);
            soon("it is told", guard.lost()).await;
            assert_eq!(holder(&server).as_deref(), Some("a foreign client"));
        });
    }

    fn who_looks_now_and_then_is_not_starved_by_those_who_hand_over(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            hand_over_all_the_time(&server, "fairqueue").await;
            for round in 0..3 {
                let token = format!("foreign {round}");
                eventually("a foreign client gets in", || locks(&server, &token).then_some(())).expect("a turn");
                unlocks(&server, &token);
            }
        });
    }

    fn foreign_holders_and_waiters_are_seen_and_can_be_broken(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            server.cli(&["RPUSH", QUEUE, "only waits"]);
            let view = ours.inspect("orders").await.expect("a server").expect("a lock");
            assert_eq!((view.holders.len(), view.waiting, view.waiters.len()), (0, 1, 1));
            server.cli(&["DEL", QUEUE]);
            assert!(locks(&server, "first"));
            server.cli(&["RPUSH", QUEUE, "second"]);
            let waiting = begins_to_wait(&server, &ours);
            server.cli(&["RPUSH", QUEUE, "fourth"]);
            let view = ours.inspect("orders").await.expect("a server").expect("a lock");
            assert_eq!((view.holders.len(), view.waiting), (1, 3));
            assert_eq!(view.holders[0].label.why(), "protocol=fairqueue");
            assert!((300_000..=600_000).contains(&view.holders[0].left.as_millis()));
            let who: Vec<bool> = view.waiters.iter().map(|it| it.label.who() == "a foreign client").collect();
            assert_eq!(who, [true, false, true], "in the order of the queue");
            let error = soon("a break", ours.break_lock("orders")).await.expect_err("it can't be told");
            assert!(error.to_string().contains("at once"), "{error}");
            assert_eq!(holder(&server).as_deref(), Some("first"));
            let mut second = heeds_its_call(&server, "second");
            let broken = soon("a break", ours.break_lock("orders").at_once()).await;
            assert_eq!(broken.expect("a server"), 1);
            assert!(came(&mut second), "it was next");
            unlocks(&server, "second");
            let guard = has_it(waiting).await;
            let view = ours.inspect("orders").await.expect("a server").expect("a lock");
            assert_eq!((view.holders.len(), view.holders[0].token, view.waiting), (1, None, 1));
            drop(guard);
        });
    }

    fn a_foreign_client_is_seen_whatever_its_token(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            let guard = acquires(&ours, "orders").await;
            let waiting = begins_to_wait(&server, &ours);
            server.cli(&["RPUSH", QUEUE, "p"]);
            let view = ours.inspect("orders").await.expect("a server").expect("a lock");
            let who: Vec<bool> = view.waiters.iter().map(|it| it.label.who() == "a foreign client").collect();
            assert_eq!(who, [false, true]);
            waiting.abort();
            drop(guard);
        });
    }

    fn what_is_not_of_the_wire_is_named_and_left_alone(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            server.cli(&["SET", QUEUE, "x"]);
            let error = soon("a try", ours.mutex("orders").try_acquire()).await.expect_err("a string");
            assert_eq!(error.kind(), ErrorKind::Store);
            assert!(error.to_string().contains("protocol=fairqueue"), "{error}");
            assert_eq!(foreign_keys(&server), [QUEUE]);
            server.cli(&["DEL", QUEUE]);
            let plain = speaks(&server, "plain").await;
            let guard = acquires(&plain, "orders").await;
            let error = soon("a try", ours.mutex("orders").try_acquire()).await.expect_err("mixed");
            assert!(error.to_string().contains("in use with protocol=plain"), "{error}");
            assert_eq!(foreign_keys(&server), ["orders"]);
            drop(guard);
        });
    }

    fn one_that_a_native_client_handed_the_lock_to_leaves_the_line_when_done(flavor: Flavor) {
        let server = starts(flavor);
        block_on(async {
            let ours = speaks(&server, "fairqueue").await;
            let native = soon("connecting", taketurns::connect(&server.url())).await.expect("a server");
            let guard = acquires(&native, "orders").await;
            let waiting = begins_to_wait(&server, &ours);
            guard.release().await.expect("held");
            let guard = has_it(waiting).await;
            assert!(is_busy(&native, "orders").await);
            guard.release().await.expect("held");
            assert_eq!(foreign_keys(&server), [""; 0]);
        });
    }
}
