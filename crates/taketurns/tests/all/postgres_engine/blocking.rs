//! The blocking API, on a thread without a runtime.

use taketurns::blocking::Wait;

use super::{database, patient};

#[test]
fn locks_are_taken_and_looked_at_on_a_thread_without_a_runtime() {
    let database = database();
    let locks = taketurns::connect(&patient(&database.url())).wait().expect("a store");
    let guard = locks.mutex("l").acquire().wait().expect("free");
    let view = locks.inspect("l").wait().expect("an answer").expect("it is held");
    assert_eq!(view.holders.len(), 1);
    assert_eq!(locks.list("*").wait().expect("an answer").len(), 1);
    guard.release().wait().expect("held");
    locks.close().wait();
}
