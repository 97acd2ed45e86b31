//! A Cluster whose slots move while their locks are busy.

use std::time::Duration;

use taketurns_servers::{Cluster, Flavor, eventually, on_both};

use super::load::{Load, SHARED};
use super::{block_on, connect, errors, seen, wall_us};

/// How long the pause is: long enough to be looked at.
const MAX_LEASE: Duration = Duration::from_secs(6);

on_both! {
    fn a_busy_lock_that_moves_to_another_node_pauses_and_goes_on_there(flavor: Flavor) {
        let cluster = Cluster::start(flavor).expect("a cluster");
        let slot = cluster.slot_of(format!("tt:{SHARED}"));
        let from = cluster.owner_of(slot).expect("an owner");
        let to = (from + 1) % 3;
        let url = format!("{}?max_lease={}", cluster.url(), MAX_LEASE.as_secs());
        let locks = block_on(connect(&url));
        let load = Load::start(&[&url]);
        load.goes_on(100);
        let migration = cluster.begin_migration(slot, to).expect("a beginning");
        load.goes_on(100);
        let before = errors(&cluster.nodes[from], "ASK");
        assert_eq!(cluster.move_keys(migration).expect("a move"), 1);
        let moved_us = wall_us();
        let asked = || (errors(&cluster.nodes[from], "ASK") > before).then_some(());
        eventually("clients are sent on with ASK", asked).expect("they ask");
        block_on(async {
            let paused = |view: &taketurns::View| view.quarantine_left.is_some();
            let view = seen("it is in quarantine there", &locks, SHARED, paused).await;
            let left = view.quarantine_left;
            assert!(left <= Some(MAX_LEASE), "{left:?}");
        });
        let before = errors(&cluster.nodes[from], "MOVED");
        cluster.finish_migration(migration).expect("an end");
        let moved = || (errors(&cluster.nodes[from], "MOVED") > before).then_some(());
        eventually("clients are sent on with MOVED", moved).expect("they come");
        // The others have waited for nothing, so it is this one that the load has to go on with.
        block_on(async {
            let again = |view: &taketurns::View| {
                let later = view.last_token.is_some_and(|token| token.raw() > moved_us);
                view.quarantine_left.is_none() && later
            };
            seen("it is granted again", &locks, SHARED, again).await;
        });
        load.goes_on(100);
        let history = load.finish();
        let granted_us = |shared: bool| {
            let turns = history.turns().into_iter();
            let those = turns.filter(|turn| (turn.lock == SHARED) == shared);
            let mut granted_us: Vec<u64> = those.map(|turn| turn.token.raw()).collect();
            granted_us.sort_unstable();
            granted_us
        };
        let shared_us = granted_us(true);
        let pause = shared_us.windows(2).find(|pair| {
            pair[1] > moved_us && u128::from(pair[1] - pair[0]) >= MAX_LEASE.as_micros()
        });
        let pause = pause.expect("a pause as long as the longest lease");
        let is_within = |at_us: &u64| *at_us > pause[0] && *at_us < pause[1];
        let others = granted_us(false).into_iter().filter(is_within).count();
        assert!(others > 0, "the other locks had no reason to pause");
    }
}
