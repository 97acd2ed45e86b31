//! Fail-over by Sentinel to a replica that never heard of the last grants.

use std::time::Duration;

use taketurns::LossCause;
use taketurns_core::wire::Head;
use taketurns_servers::{Flavor, ReplicaSet, eventually, on_both};

use super::load::{Load, Work};
use super::{MAX_LEASE, block_on, connect, soon, store, wall_us};

/// Longer than a fail-over takes, so that the first lease outlasts it.
const LONG: Duration = Duration::from_secs(15);

fn long(url: &str) -> String {
    format!("{url}?max_lease={}", LONG.as_secs())
}

on_both! {
    fn a_holder_unknown_to_the_new_master_is_alone_until_its_lease_ends(flavor: Flavor) {
        block_on(async {
            let set = ReplicaSet::start(flavor).expect("a set");
            let old = set.master().expect("a master");
            let second = connect(&long(&set.url())).await;
            let before = second.mutex("l").acquire().lease(LONG).await.expect("a first use");
            let before_token = before.token();
            before.release().await.expect("held");
            // The first knows the old master alone: nobody tells it about the new one.
            let first = connect(&long(&old.url())).await;
            for replica in set.replicas().expect("replicas") {
                let heard = || replica.cli(&["EXISTS", "tt:l"]).int().filter(|count| *count == 1);
                eventually("the replicas have the lock", heard).expect("they do");
            }
            set.cut_replication().expect("a cut");
            let held = first.mutex("l").acquire().lease(LONG).await.expect("it is free");
            old.kill();
            let down_us = wall_us();
            let new = set.failed_over(old).expect("a fail-over");
            let stored = new.cli(&["HGET", "tt:l", Head::FIELD]);
            let (head, _) = Head::parse(stored.bytes().expect("bytes")).expect("a head");
            assert_eq!(head.holders, 0, "it heard of no holder");
            assert!(held.is_held(), "the fail-over was quicker than its lease");

            let next = soon("the second is granted", second.mutex("l").acquire().lease(LONG)).await;
            let next = next.expect("granted");
            assert!(!held.is_held(), "two held it at once");
            assert_eq!(soon("the first knows", held.lost()).await, LossCause::Expired);
            assert!(before_token < held.token() && held.token() < next.token());
            let long_us = u64::try_from(LONG.as_micros()).expect("short");
            assert!(next.token().raw() >= down_us + long_us);
        });
    }
}

#[test]
fn a_fail_over_that_forgets_grants_pauses_the_load_and_breaks_nothing() {
    let set = ReplicaSet::start(Flavor::Redis).expect("a set");
    let old = set.master().expect("a master");
    // The new master knows of places that were given up since. Each of them costs a waiter lease when
    // its turn comes, so there are to be few.
    let work = Work { shared_tasks: 1, ..Work::default() };
    let load = Load::with(&[store(&set.url())], work);
    load.goes_on(100);
    set.cut_replication().expect("a cut");
    // What happens from here on is forgotten.
    load.goes_on(100);
    old.kill();
    let down_us = wall_us();
    let new = set.failed_over(old).expect("a fail-over");
    load.goes_on(100);
    assert!(new.command_stats()["evalsha"].calls > 0, "they are at the new master");
    load.finish().pauses(down_us, MAX_LEASE);
}
