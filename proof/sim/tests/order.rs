//! A life does not depend on the lives before it. This file has only this test, since the first life must be the first
//! of its process.

use taketurns_sim::history;

#[test]
fn a_seed_lives_the_same_life_first_and_later_and_on_another_thread() {
    let first = history(1);
    (2..20).for_each(|seed| drop(history(seed)));
    let beside = std::thread::spawn(|| history(1));
    assert_eq!(first, history(1), "after other lives");
    assert_eq!(first, beside.join().expect("a life"), "on another thread");
}
