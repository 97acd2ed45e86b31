use super::*;

const ANCHOR: Anchor = Anchor { sent_us: 0, engine_ms: 100 };

#[test]
fn two_with_the_same_number_each_have_a_place() {
    let mut queue = PlaceSet::new(0, 3_000);
    let owners = [1, 2].map(Owner::from_bits);
    for owner in owners {
        queue.put(owner, 7, None);
    }
    assert_eq!(queue.len(), 2);
    queue.remove(owners[0], 7);
    assert_eq!(queue.owners().collect::<Vec<_>>(), [owners[1]]);
    queue.put(owners[1], 9, Some(7));
    assert_eq!((queue.len(), queue.ahead(4)), (1, 5));
}

#[test]
fn a_place_is_refreshed_at_a_third_of_its_lease() {
    let mut queue = PlaceSet::new(1_000, 3_000);
    assert_eq!(queue.due_us(), 1_001_000);
    queue.handle_sent(1_200_000);
    assert_eq!(queue.due_us(), 2_200_000);
}

#[test]
fn the_holders_deadline_is_asked_about_once_it_has_passed() {
    let mut queue = PlaceSet::new(0, 3_000);
    queue.handle_recheck(0, ANCHOR, Some(300), 0);
    assert_eq!(queue.due_us(), 200_000 + 2_000 + 2_000);
    queue.handle_recheck(0, ANCHOR, Some(60_000), 0);
    assert_eq!(queue.due_us(), 1_000_000, "a far deadline is left to the refresh");
    queue.handle_recheck(0, ANCHOR, None, 0);
    assert_eq!(queue.due_us(), 1_000_000);
}

#[test]
fn what_is_missed_while_a_refresh_is_under_way_stays_in_doubt() {
    let mut queue = PlaceSet::new(0, 3_000);
    queue.handle_sent(10);
    queue.handle_doubt(20);
    queue.handle_recheck(30, ANCHOR, Some(60_000), 0);
    assert_eq!(queue.due_us(), 20, "its answer may be older");
    queue.handle_sent(40);
    assert_eq!(queue.due_us(), 1_000_040);
}

#[test]
fn those_behind_ask_later_but_not_by_more_than_a_refresh() {
    let due = |ahead| {
        let mut queue = PlaceSet::new(0, 30_000);
        queue.handle_recheck(0, ANCHOR, Some(100), ahead);
        queue.due_us()
    };
    assert_eq!(due(3) - due(0), 15_000);
    assert_eq!(due(u64::MAX), 10_000_000);
}

#[test]
fn a_quarantine_is_news_once() {
    let mut queue = PlaceSet::new(0, 3_000);
    assert_eq!(queue.handle_quarantine(ANCHOR, Some(600)), Some(500));
    assert_eq!(queue.quarantined_until_us, Some(500_000));
    assert_eq!(queue.handle_quarantine(ANCHOR, Some(600)), None);
    assert_eq!(queue.handle_quarantine(ANCHOR, None), None);
    assert_eq!(queue.quarantined_until_us, None);
}
