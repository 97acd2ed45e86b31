//! The nodes' answers, each recorded by a task of its own, while others wait for a majority of them.

use shuttle::thread;
use taketurns::engine::{EngineError, Reply};

use crate::engine::nodes::tally::ReplyTally;
use crate::in_many_orders;

#[test]
fn a_waiter_for_a_majority_hears_of_it_whenever_it_comes() {
    in_many_orders(|| {
        let tally = ReplyTally::new(3);
        let record = |node: usize| {
            let tally = tally.clone();
            thread::spawn(move || {
                if node == 1 {
                    tally.record(node, Err(EngineError::Unreachable("it is down".to_owned())));
                }
                tally.record(node, Ok(Reply::Released));
            })
        };
        let nodes: Vec<_> = (0..3).map(record).collect();
        let wait = || {
            let tally = tally.clone();
            thread::spawn(move || {
                tally.want();
                let most = shuttle::future::block_on(tally.most());
                assert!(most.is_ok_and(|replies| replies.len() >= 2), "one of three failed");
                tally.claim()
            })
        };
        let waiting = [wait(), wait()];
        let claimed = waiting.map(|thread| usize::from(thread.join().expect("no panic")));
        assert_eq!(claimed.iter().sum::<usize>(), 1, "what was done was done for one");
        nodes.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert!(!tally.is_wanted());
    });
}
