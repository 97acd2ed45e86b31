//! One row of the store is damaged, the database itself is not.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::Value;
use taketurns::engine::Reply;
use taketurns_core::Snapshot;
use taketurns_servers::fuzz::{self, Dice};

use super::store::{HELD, is_clear, left_behind, list, open, use_it};
use crate::support::patience::block_on;

/// Damages the row of a lock. True if it is still found by its name.
fn damage(dice: &mut Dice, path: &Path, lock: &str) -> bool {
    let database = Connection::open(path).expect("SQLite");
    let state = "SELECT state FROM locks WHERE name = ?1";
    let state: Vec<u8> = database.query_row(state, [lock], |row| row.get(0)).expect("there");
    let numbers = [0, -1, 1, i64::MIN, i64::MAX];
    let (column, value) = match dice.below(8) {
        0 | 1 => ("state", Value::Blob(dice.damaged(&[state]))),
        2 | 3 => ("state", Value::Blob(changed(&state, |values| dice.change(values)))),
        at => {
            let column = ["state", "boot", "forget_at_ms", "name"][at - 4];
            let values = [
                Value::Integer(numbers[dice.below(numbers.len())]),
                Value::Real(1e300),
                Value::Text(dice.damaged_text(&[lock])),
                Value::Blob(dice.damaged(&[lock])),
            ];
            (column, values[dice.below(values.len())].clone())
        }
    };
    let update = format!("UPDATE OR IGNORE locks SET {column} = ?1 WHERE name = ?2");
    database.execute(&update, (value, lock)).expect("writable");
    let found = "SELECT count(*) FROM locks WHERE name = ?1";
    database.query_row(found, [lock], |row| row.get::<_, i64>(0)).expect("readable") == 1
}

/// The same with other values, if they can be those of a lock.
fn changed(state: &[u8], change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    let (version, snapshot) = state.split_first().expect("a version");
    let snapshot: Snapshot = postcard::from_bytes(snapshot).expect("a lock");
    let mut values = serde_json::to_value(&snapshot).expect("plain data");
    change(&mut values);
    let snapshot: Snapshot = serde_json::from_value(values).unwrap_or(snapshot);
    postcard::to_extend(&snapshot, vec![*version]).expect("plain data")
}

#[test]
fn a_damaged_row_is_an_error_of_that_lock_alone_or_a_lock() {
    let files = block_on(left_behind(true));
    fuzz::rounds("rows of a store", 100, |dice| {
        let (_dir, path) = files.put();
        let (bad, good) = if dice.percent(50) { (HELD[0], HELD[1]) } else { (HELD[1], HELD[0]) };
        let is_there = damage(dice, &path, bad);
        block_on(async {
            let engine = open(&path, 7).await.expect("one row is damaged, the store is not");
            let before = list(&engine).await.expect("it does not hide the others");
            assert!(before.iter().any(|name| name == good), "{before:?}");
            let is_taken = match use_it(&engine, bad).await {
                Ok(_) => true,
                Err(error) if is_there && is_clear(&error) => false,
                Err(error) => panic!("{error:?}"),
            };
            let reply = use_it(&engine, good).await;
            assert!(matches!(reply, Ok(Reply::Queued(_))), "it is held: {reply:?}");
            list(&engine).await.expect("it does not hide the others");
            is_taken
        })
    });
}

#[test]
fn a_lock_that_seems_to_be_in_use_for_ever_can_be_stored() {
    let (_dir, path) = block_on(left_behind(true)).put();
    let database = Connection::open(&path).expect("SQLite");
    let select = "SELECT state FROM locks WHERE name = ?1";
    let state: Vec<u8> = database.query_row(select, [HELD[0]], |row| row.get(0)).expect("there");
    let state = changed(&state, |values| values["ends"]["last_ms"] = u64::MAX.into());
    let update = "UPDATE locks SET state = ?1 WHERE name = ?2";
    assert_eq!(database.execute(update, (state, HELD[0])), Ok(1));
    let engine = block_on(open(&path, 7)).expect("a store");
    let reply = block_on(use_it(&engine, HELD[0]));
    assert!(matches!(reply, Ok(Reply::Queued(_))), "it is held: {reply:?}");
}
