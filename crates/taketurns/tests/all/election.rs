//! Elections on each kind of store: one candidate leads, the next takes over, and observers see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use taketurns::blocking::Wait;
use taketurns::{Election, ErrorKind, HolderView, Locks, LossCause, Token};
use taketurns_servers::{Flavor, Proxy, Server};
use tokio::sync::mpsc;

use crate::support::in_vain::in_vain;
use crate::support::patience::{block_on, soon};

/// How often observers look: nobody waits for long.
const EVERY: Duration = Duration::from_millis(20);

async fn connect(url: &str) -> Locks {
    taketurns::connect(url).await.expect("a store")
}

/// Nobody leads, and nobody wants to.
async fn nothing_is_left(locks: &Locks) {
    let gone = async {
        while locks
            .inspect("e")
            .await
            .expect("the store answers")
            .is_some_and(|view| !view.holders.is_empty() || view.waiting > 0)
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon("nothing is left", gone).await;
}

async fn until_waiting(locks: &Locks, waiting: usize) {
    let queued = async {
        while locks.inspect("e").await.expect("an answer").map_or(0, |view| view.waiting) != waiting
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon("they campaign", queued).await;
}

/// A test for each kind of store.
macro_rules! on_stores {
    ($(async fn $name:ident($url:ident: &str) $body:block)*) => {
        $(
            mod $name {
                use super::*;

                async fn run($url: &str) $body

                #[test]
                fn memory() {
                    block_on(run(concat!("memory:", stringify!($name))));
                }

                #[test]
                fn file() {
                    let directory = tempfile::tempdir().expect("a directory");
                    block_on(run(&format!("file:{}", directory.path().join("locks.db").display())));
                }

                #[test]
                fn redis() {
                    let server = Server::start(Flavor::Redis).expect("a server");
                    block_on(run(&server.url()));
                }

                #[test]
                fn valkey() {
                    let server = Server::start(Flavor::Valkey).expect("a server");
                    block_on(run(&server.url()));
                }

                #[test]
                fn quorum() {
                    let flavors = [Flavor::Redis, Flavor::Valkey, Flavor::Redis];
                    let servers = flavors.map(|flavor| Server::start(flavor).expect("a server"));
                    let nodes = servers.each_ref().map(Server::url).join(",");
                    block_on(run(&format!("quorum:{nodes}")));
                }
            }
        )*
    };
}

on_stores! {
    async fn one_leads_and_who_resigns_hands_over_at_once(url: &str) {
        let (one, two) = (connect(url).await, connect(url).await);
        let (first, second) = (one.election("e"), two.election("e"));
        assert_eq!(first.leader().await.expect("an answer"), None);
        let leads = soon("a leader", first.campaign().why("one")).await.expect("free");
        let next = tokio::spawn(second.campaign().why("two").into_future());
        until_waiting(&one, 1).await;
        assert!(leads.is_held() && !next.is_finished());
        for election in [&first, &second] {
            let leader = election.leader().await.expect("an answer").expect("somebody");
            assert_eq!((leader.token, leader.label.why()), (Some(leads.token()), "one"));
            assert_eq!(leader.client, one.client_id());
        }
        let token = leads.check().expect("it leads");
        leads.release().await.expect("it leads");
        let leads = soon("the next", next).await.expect("no panic").expect("its turn");
        assert!(leads.check().expect("it leads") > token);
        // Dropping it resigns too, and dropping a campaign withdraws.
        let withdrawn = tokio::spawn(first.campaign().into_future());
        until_waiting(&one, 1).await;
        withdrawn.abort();
        until_waiting(&one, 0).await;
        drop(leads);
        nothing_is_left(&one).await;
    }

    async fn who_is_broken_campaigns_again_and_leads_with_a_larger_token(url: &str) {
        let (one, admin) = (connect(url).await, connect(url).await);
        let election = one.election("e");
        let (begun, mut terms) = mpsc::unbounded_channel::<Token>();
        let ends = Arc::new(tokio::sync::Notify::new());
        let leads = tokio::spawn({
            let ends = ends.clone();
            async move {
                let work = |token: Token| {
                    begun.send(token).expect("heard");
                    let ends = ends.clone();
                    async move {
                        ends.notified().await;
                        "done"
                    }
                };
                election.campaign().lease(Duration::from_secs(10)).lead(work).await
            }
        });
        let first = soon("a term", terms.recv()).await.expect("a token");
        assert_eq!(admin.break_lock("e").token(first).await.expect("an answer"), 1);
        let second = soon("another term", terms.recv()).await.expect("a token");
        assert!(second > first);
        ends.notify_one();
        assert_eq!(soon("the end", leads).await.expect("no panic").expect("led"), "done");
        nothing_is_left(&admin).await;
    }

    async fn who_watches_sees_each_leader_with_a_larger_token(url: &str) {
        let (one, two, watcher) = (connect(url).await, connect(url).await, connect(url).await);
        let election = watcher.election("e");
        let mut observer = election.observe().every(EVERY);
        let changed = async |observer: &mut taketurns::Observer| -> Option<HolderView> {
            soon("a change", observer.changed()).await.expect("the store answers")
        };
        assert_eq!(changed(&mut observer).await, None, "first, how it is");
        let mut tokens = Vec::new();
        for (turn, locks) in [&one, &two, &one].into_iter().enumerate() {
            let why = format!("turn {turn}");
            let leads = locks.election("e").campaign().why(&why);
            let leads = soon("a leader", leads).await.expect("free");
            let leader = changed(&mut observer).await.expect("somebody");
            assert_eq!((leader.token, leader.label.why()), (Some(leads.token()), why.as_str()));
            tokens.push(leader.token);
            // Two looks at the same leader are no change, also if the future is dropped between them.
            assert!(tokio::time::timeout(EVERY * 3, observer.changed()).await.is_err());
            leads.release().await.expect("it leads");
            assert_eq!(changed(&mut observer).await, None);
        }
        assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
        // So long that nobody would see it end.
        let lease = Duration::from_secs(60);
        let broken = one.election("e").campaign().lease(lease);
        let broken = soon("a leader", broken).await.expect("free");
        assert!(changed(&mut observer).await.is_some());
        watcher.break_lock("e").await.expect("an answer");
        assert_eq!(soon("it is told", broken.lost()).await, LossCause::Revoked);
        assert_eq!(changed(&mut observer).await, None, "who was broken does not lead");
        assert!(!broken.is_held());
        drop(broken);
        nothing_is_left(&watcher).await;
    }
}

#[test]
fn an_observer_outlasts_a_store_that_is_gone_for_a_while() {
    let server = Server::start(Flavor::Redis).expect("a server");
    let proxy = Proxy::start(server.port()).expect("a proxy");
    block_on(async {
        let (locks, behind) = (connect(&server.url()).await, connect(&proxy.url()).await);
        let mut observer = behind.election("e").observe().every(EVERY);
        assert_eq!(soon("a look", observer.changed()).await.expect("an answer"), None);
        proxy.refuse(true).expect("refused");
        proxy.cut();
        let seen = behind.election("e").leader().await;
        assert!(seen.is_err(), "it is gone: {seen:?}");
        let leads = soon("a leader", locks.election("e").campaign()).await.expect("free");
        let waits = tokio::time::timeout(EVERY * 10, observer.changed()).await;
        assert!(waits.is_err(), "it waits: {waits:?}");
        proxy.refuse(false).expect("let in");
        let leader = soon("a look", observer.changed()).await.expect("an answer");
        assert_eq!(leader.expect("somebody").token, Some(leads.token()));
    });
}

#[test]
fn what_can_never_be_seen_ends_the_watch() {
    block_on(async {
        let locks = connect("memory:").await;
        let invalid = locks.election("").observe().changed().await.expect_err("no name");
        assert_eq!(invalid.kind(), ErrorKind::InvalidName);
        let _reader = locks.rwlock("e").read().await.expect("free");
        let other = locks.election("e").observe().changed().await.expect_err("no mutex");
        assert_eq!(other.kind(), ErrorKind::KindMismatch);
    });
}

#[test]
fn a_campaign_gives_up_after_its_time() {
    block_on(async {
        let locks = connect("memory:").await;
        let election: Election = locks.election("e");
        let _leads = election.campaign().await.expect("free");
        let error = in_vain(|within| election.campaign().within(within)).await;
        assert_eq!(error.kind(), ErrorKind::Timeout);
    });
}

#[test]
fn all_of_it_works_without_async() {
    let locks = taketurns::connect("memory:").wait().expect("a store");
    let election = locks.election("e");
    let mut observer = election.observe().every(EVERY);
    assert_eq!(observer.changed().wait().expect("an answer"), None);
    let leads = election.campaign().why("one").lease(Duration::from_secs(9)).wait().expect("free");
    let leader = observer.changed().wait().expect("an answer").expect("somebody");
    assert_eq!((leader.token, leader.label.why()), (Some(leads.token()), "one"));
    let seen = election.leader().wait().expect("an answer");
    assert_eq!(seen.map(|leader| leader.token), Some(Some(leads.token())));
    leads.release().wait().expect("it leads");
    assert_eq!(observer.changed().wait().expect("an answer"), None);
    // The first term is taken from it; it is told, and leads again.
    let terms = AtomicU64::new(0);
    let token = election.campaign().lead(async |token| {
        if terms.fetch_add(1, Ordering::Relaxed) == 0 {
            locks.break_lock("e").await.expect("an answer");
            std::future::pending::<()>().await;
        }
        token
    });
    assert!(Some(token.wait().expect("led")) > leader.token);
    assert_eq!(terms.into_inner(), 2);
    assert_eq!(election.leader().wait().expect("an answer"), None);
}
