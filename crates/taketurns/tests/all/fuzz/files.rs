//! Bytes of the store's file and of its journal are not what they were.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use taketurns::engine::Reply;
use taketurns_servers::fuzz::{self, Dice};

use super::store::{Files, HELD, is_clear, left_behind, list, open, use_it};
use crate::support::patience::block_on;

/// Where SQLite says what the file is, and where its tables begin.
const HEADER: usize = 100;
const PAGE: usize = 4_096;

/// Changes some bytes, in the header, in the first page or anywhere; or cuts it short.
fn damage(dice: &mut Dice, bytes: &mut Vec<u8>) {
    for _ in 0..=dice.below(3) {
        if bytes.is_empty() {
            return;
        }
        let end = [HEADER, PAGE, bytes.len(), bytes.len()][dice.below(4)].min(bytes.len());
        let at = dice.below(end);
        match dice.below(10) {
            0 => bytes.truncate(at),
            1 => bytes.truncate(at / PAGE * PAGE),
            2 => {
                // One page in the place of another.
                let pages = bytes.len() / PAGE;
                let (one, other) = (dice.below(pages) * PAGE, dice.below(pages) * PAGE);
                let end = (one + PAGE).min(bytes.len());
                bytes.copy_within(one..end, other);
            }
            3 | 4 => bytes[at] = dice.any() as u8,
            5 => bytes[at..(at + 16).min(end)].fill(0),
            _ => bytes[at] ^= 1 << dice.below(8),
        }
    }
}

/// What SQLite reads of a held lock, in a copy: its state and the boot that it is of, if that is this one.
fn read(files: &Files, lock: &str) -> Option<Vec<u8>> {
    let (_dir, path) = files.put();
    let database = Connection::open(path).ok()?;
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
    let select = "SELECT state FROM locks WHERE name = ?1
                  AND boot = (SELECT number FROM boots WHERE boot_id = ?2)";
    database.query_row(select, [lock, boot_id.trim()], |row| row.get(0)).ok()
}

/// Opens what is there, and uses what can be used. True if it opens.
async fn try_it(path: &Path, is_as_it_was: [bool; 2]) -> bool {
    let engine = match open(path, 7).await {
        Ok(engine) => engine,
        Err(error) if is_clear(&error) => return false,
        Err(error) => panic!("{error:?}"),
    };
    if let Err(error) = list(&engine).await {
        assert!(is_clear(&error), "{error:?}");
    }
    for (lock, is_as_it_was) in HELD.into_iter().zip(is_as_it_was) {
        match use_it(&engine, lock).await {
            Ok(Reply::Granted(_)) if is_as_it_was => panic!("{lock} is held by somebody else"),
            Ok(_) => {}
            Err(error) => assert!(is_clear(&error), "{error:?}"),
        }
    }
    true
}

#[test]
fn a_damaged_file_is_refused_or_works() {
    let templates = [true, false].map(|in_file| block_on(left_behind(in_file)));
    let states = HELD.map(|lock| read(&templates[0], lock).expect("whole"));
    fuzz::rounds("files of a store", 120, |dice| {
        let mut files = templates[dice.below(2)].clone();
        if files.journal.is_empty() || dice.percent(50) {
            damage(dice, &mut files.file);
        } else {
            damage(dice, &mut files.journal);
        }
        let mut is_as_it_was = [false; 2];
        for (at, lock) in HELD.into_iter().enumerate() {
            is_as_it_was[at] = read(&files, lock).as_ref() == Some(&states[at]);
        }
        let (_dir, path) = files.put();
        block_on(try_it(&path, is_as_it_was))
    });
}
