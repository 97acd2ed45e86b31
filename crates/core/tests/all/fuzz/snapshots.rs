//! Stored locks: whatever is taken for one is one, and stays one.

use taketurns_core::{Lock, Snapshot};
use taketurns_servers::fuzz::{self, Dice};

use crate::fuzz::life;

/// Is this the state of a lock? Then it is stored as it was, and goes on.
fn goes_on(dice: &mut Dice, snapshot: Snapshot, kind: usize) -> bool {
    let Ok(mut lock) = Lock::restore(snapshot) else { return false };
    lock.audit().expect("what is taken is sound");
    let stored = lock.snapshot();
    assert_eq!(Lock::restore(stored.clone()), Ok(lock.clone()), "{stored:?}");
    let mut now = life::START;
    lock.view(now, 100);
    life::go_on(dice, &mut lock, &mut now, kind, 20);
    lock.reboot();
    lock.audit().unwrap_or_else(|corrupt| panic!("{corrupt} after a reboot"));
    life::go_on(dice, &mut lock, &mut now, kind, 5);
    true
}

#[test]
fn a_stored_lock_with_changed_bytes_is_refused_or_goes_on() {
    fuzz::rounds("stored locks, by bytes", 3_000, |dice| {
        let kind = dice.below(5);
        let (lock, _) = life::lived(dice, kind);
        let bytes = postcard::to_allocvec(&lock.snapshot()).expect("plain data");
        let damaged = dice.damaged(&[bytes]);
        postcard::from_bytes(&damaged).is_ok_and(|snapshot| goes_on(dice, snapshot, kind))
    });
}

#[test]
fn a_stored_lock_with_changed_values_is_refused_or_goes_on() {
    fuzz::rounds("stored locks, by values", 3_000, |dice| {
        let kind = dice.below(5);
        let (lock, _) = life::lived(dice, kind);
        let mut snapshot = serde_json::to_value(lock.snapshot()).expect("plain data");
        for _ in 0..=dice.below(3) {
            dice.change(&mut snapshot);
        }
        serde_json::from_value(snapshot).is_ok_and(|snapshot| goes_on(dice, snapshot, kind))
    });
}
