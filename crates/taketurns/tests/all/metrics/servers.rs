//! On real servers.

use std::time::Duration;

use taketurns_servers::{Flavor, Proxy, Server, on_both};

use super::poll_once;
use super::recorded::record;
use crate::support::patience::soon;
#[cfg(feature = "postgres")]
use crate::support::{postgres_fixture::postgres, redis_fixture::PATIENT};

fn a_hand_over_is_counted(url: &str) {
    record(|runtime, mut recorded| async move {
        let open = || taketurns::connect_on(url, runtime.clone());
        let (one, two) = (open().await.expect("a store"), open().await.expect("a store"));
        let guard = one.mutex("l").acquire().await.expect("free");
        let mut waits = Box::pin(two.mutex("l").acquire().into_future());
        poll_once(waits.as_mut());
        let waiting = async {
            while recorded.histogram("taketurns_queue_depth").is_empty() {
                tokio::select! {
                    biased;
                    _ = waits.as_mut() => panic!("it is held"),
                    () = tokio::time::sleep(Duration::from_millis(5)) => {}
                }
            }
        };
        soon("its place", waiting).await;
        assert_eq!(recorded.counter("taketurns_wakeups_total"), 0);
        let released = std::time::Instant::now();
        guard.release().await.expect("held");
        let next = soon("the hand-over", waits).await.expect("its turn");
        let told = released.elapsed();
        let delays = recorded.histogram("taketurns_wakeup_delay_seconds");
        // Ours is no longer than from the release, but for where the anchor is and rounding.
        assert_eq!(delays.len(), 1);
        println!("told after {told:?}, and by its own count after {} s at most", delays[0]);
        assert_eq!(recorded.counter("taketurns_wakeups_total"), 1);
        assert_eq!(recorded.counter("taketurns_reconnects_total"), 0);
        next.release().await.expect("held");
        assert_eq!(recorded.gauge("taketurns_held"), 0.0);
        recorded.all_are_described();
    });
}

fn a_new_connection_and_a_store_that_is_gone_are_counted(url: &str, proxy: &Proxy) {
    record(|runtime, mut recorded| async move {
        let locks = taketurns::connect_on(url, runtime).await.expect("a store");
        let guard = locks.mutex("l").acquire().await.expect("free");
        assert_eq!(recorded.counter("taketurns_reconnects_total"), 0, "the first is none");
        proxy.cut();
        // The one under way may fail; the next opens the door again.
        let mut failed = 0;
        let asked = async {
            while locks.mutex("m").try_acquire().await.is_err() {
                failed += 1;
            }
        };
        soon("an answer", asked).await;
        assert_eq!(recorded.counter("taketurns_reconnects_total"), 1);
        guard.release().await.expect("held");
        proxy.refuse(true).expect("refused");
        proxy.cut();
        let gone = locks.mutex("l").acquire().within(Duration::from_millis(50)).await;
        assert!(gone.is_err(), "{gone:?}");
        let waited = recorded.counts("taketurns_acquire_wait_seconds");
        let all_failed = waited.get("{outcome=failed,kind=mutex}").copied();
        assert_eq!(all_failed, Some(failed + 1), "{waited:?}");
        let calls = recorded.counts("taketurns_store_call_seconds");
        assert!(calls.contains_key("{request=acquire,outcome=failed}"), "{calls:?}");
        assert_eq!(recorded.counter("taketurns_reconnects_total"), 1);
        assert_eq!(recorded.gauge("taketurns_waiting"), 0.0);
    });
}

on_both! {
    fn a_hand_over_between_two_clients_is_a_wake_up_that_took_a_while(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        a_hand_over_is_counted(&server.url());
    }

    fn a_connection_that_is_made_anew_and_a_store_that_is_gone_are_counted(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let proxy = Proxy::start(server.port()).expect("a proxy");
        a_new_connection_and_a_store_that_is_gone_are_counted(&proxy.url(), &proxy);
    }
}

#[cfg(feature = "postgres")]
#[test]
fn a_hand_over_is_counted_on_postgresql() {
    let database = postgres().database().expect("a database");
    a_hand_over_is_counted(&format!("{}?{PATIENT}", database.url()));
}

#[cfg(feature = "postgres")]
#[test]
fn a_connection_that_is_made_anew_and_a_store_that_is_gone_are_counted_on_postgresql() {
    let database = postgres().database().expect("a database");
    let proxy = Proxy::start(postgres().port()).expect("a proxy");
    // One that is cut is replaced by one.
    let url = format!("postgres://postgres@{}/{}", proxy.addr(), database.name());
    let url = format!("{url}?{PATIENT}&connections=1");
    a_new_connection_and_a_store_that_is_gone_are_counted(&url, &proxy);
}
