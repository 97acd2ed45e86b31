//! The fence's file is damaged: it admits, or says that it can't be used.

use taketurns::Token;
use taketurns::fence::{FenceError, SqliteFence};
use taketurns_servers::fuzz;

/// Enough to be out of order, and few enough that those who are asked for are met.
const RESOURCES: usize = 12;

#[test]
fn a_fence_in_a_damaged_file_refuses_what_it_has_refused_or_says_that_it_can_not_be_used() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("fence.db");
    let token = Token::from_raw;
    let mut fence = SqliteFence::open(&path).expect("a fence");
    (0..RESOURCES as u64)
        .for_each(|n| fence.admit(&format!("resource {n}"), token(50 + n)).expect("new"));
    drop(fence);
    let whole = std::fs::read(&path).expect("readable");
    // Most of the file is empty.
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    fuzz::rounds("files of a fence", 150, |dice| {
        let mut bytes = whole.clone();
        for _ in 0..=dice.below(3) {
            let at = used[dice.below(used.len())];
            bytes[at] ^= 1 << dice.below(8);
        }
        std::fs::write(&path, &bytes).expect("writable");
        let Ok(mut fence) = SqliteFence::open(&path) else { return false };
        for _ in 0..3 {
            let resource = format!("resource {}", dice.below(RESOURCES));
            // What was changed to another number, or is under another name, can't be told from it.
            let admitted = fence.admit(&resource, token(1_000));
            let stale = fence.admit(&resource, token(1));
            assert!(stale.is_err(), "{resource}: {admitted:?}, and then it was forgotten");
            if let (Ok(()), Err(FenceError::Stale(stale))) = (&admitted, &stale) {
                assert_eq!(stale.newest, token(1_000), "{resource}");
            }
        }
        true
    });
}
