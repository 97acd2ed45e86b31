//! First come, first served.

use crate::cli::helper::{Running, Store};

#[test]
fn twenty_shells_get_the_lock_in_the_order_in_which_they_came() {
    twenty_shells_in_order(&Store::new());
}

/// On whichever store.
pub(crate) fn twenty_shells_in_order(store: &Store) {
    let holder = store.hold(&["door"]);
    let mut waiters: Vec<Running> = Vec::new();
    for number in 0..20 {
        let say = format!("echo {number} $TAKETURNS_TOKEN >> entered");
        waiters.push(store.start(&["run", "door", "--", "sh", "-c", &say]));
        store.until_waiting("door", number + 1);
    }
    holder.finish();
    waiters.into_iter().for_each(Running::finish);

    let entered = std::fs::read_to_string(store.path("entered")).unwrap();
    let entered: Vec<(usize, u64)> = entered
        .lines()
        .map(|line| {
            let (number, token) = line.split_once(' ').unwrap();
            (number.parse().unwrap(), token.parse().unwrap())
        })
        .collect();
    let numbers: Vec<usize> = entered.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
    assert!(entered.is_sorted_by(|(_, one), (_, next)| one < next), "tokens in order: {entered:?}");
}

#[test]
fn the_queue_is_shown_in_order_with_labels_and_places() {
    let store = Store::new();
    let holder = store.hold(&["--why", "nightly", "door"]);
    let _first = store.start(&["run", "--why", "first", "door", "--", "true"]);
    store.until_waiting("door", 1);
    let _second = store.start(&["run", "--why", "second", "door", "--", "true"]);
    store.until_waiting("door", 2);

    let shown = store.show("door");
    assert_eq!(shown["holders"][0]["why"], "nightly");
    assert_eq!(shown["holders"][0]["token"], shown["last_token"]);
    assert_eq!(
        (&shown["waiters"][0]["why"], &shown["waiters"][0]["place"]),
        (&"first".into(), &1.into())
    );
    assert_eq!(
        (&shown["waiters"][1]["why"], &shown["waiters"][1]["place"]),
        (&"second".into(), &2.into())
    );

    let text = store.run(&["show", "door"]).ok().stdout;
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is in {text}"));
    assert!(at("sh (nightly)") < at("true (first)") && at("true (first)") < at("true (second)"));
    holder.finish();
}
