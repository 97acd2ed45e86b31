//! The timeline is a picture that any program can open, and of a size that it can.

use taketurns_history::timeline::{SIZE_MAX, Zoom, svg};
use taketurns_history::{
    EventKind, Guarantee, HistoryAsk, HistoryEvent, HistoryLock, LockKind, check,
};

fn begins(title: &str, locks: &[(&str, LockKind)]) -> HistoryEvent {
    let locks =
        locks.iter().map(|(name, kind)| HistoryLock { name: (*name).to_owned(), kind: *kind });
    let (title, locks) = (title.to_owned(), locks.collect());
    let what = EventKind::Begins {
        title,
        locks,
        waiter_lease_us: 600_000,
        max_lease_us: 3_000_000,
        stopped_blocks: false,
    };
    HistoryEvent { at_us: 0, what }
}

/// A turn of one permit, or of a mutex.
fn turn(
    op: u64,
    client: u32,
    (lock, ask): (&str, HistoryAsk),
    from_us: u64,
    until_us: u64,
) -> [HistoryEvent; 3] {
    let lock = lock.to_owned();
    let lease_us = until_us + 1_000_000;
    [
        (from_us / 2, EventKind::Asked { op, client, lock, ask, endless: true, keeps: false }),
        (
            from_us,
            EventKind::Granted { op, token: Some(from_us), member: None, until_us: lease_us },
        ),
        (until_us, EventKind::Releases { op }),
    ]
    .map(|(at_us, what)| HistoryEvent { at_us, what })
}

fn fault(from_us: u64, until_us: u64, kind: &str, excuses: Vec<Guarantee>) -> [HistoryEvent; 2] {
    let (kind, on) = (kind.to_owned(), "server".to_owned());
    let begins = EventKind::Fault { kind: kind.clone(), on: on.clone(), excuses };
    [(from_us, begins), (until_us, EventKind::Mended { kind, on })]
        .map(|(at_us, what)| HistoryEvent { at_us, what })
}

fn sorted(mut events: Vec<HistoryEvent>) -> Vec<HistoryEvent> {
    events.sort_by_key(|event| event.at_us);
    events
}

/// Two hold at one time, and there are names that XML would trip over.
fn odd_history() -> Vec<HistoryEvent> {
    const ODD: &str = "a<b>&\"c\"\u{1}]]>";
    let mut events = vec![begins(ODD, &[(ODD, LockKind::Mutex)])];
    events.extend(turn(1, 1, (ODD, HistoryAsk::Mutex), 1_000_000, 2_000_000));
    events.extend(turn(2, 2, (ODD, HistoryAsk::Mutex), 1_500_000, 2_500_000));
    events.extend(turn(3, 3, (ODD, HistoryAsk::Mutex), 3_000_000, 3_000_100));
    events.extend(fault(2_200_000, 2_800_000, ODD, Vec::new()));
    sorted(events)
}

/// What is wrong with the text as XML, as far as our pictures use it.
fn malformed(text: &str) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let (before, tag) = rest.split_at(start);
        for entity in before.split('&').skip(1) {
            if !["lt;", "gt;", "amp;"].iter().any(|known| entity.starts_with(known)) {
                return Some(format!("an entity in {before:?}"));
            }
        }
        if before.contains("]]>") || before.chars().any(|c| c.is_control() && c != '\n') {
            return Some(format!("a character that can't be in {before:?}"));
        }
        let end = tag.find('>')?;
        let inner = &tag[1..end];
        let name = inner.split([' ', '\n']).next().unwrap_or_default();
        if let Some(name) = inner.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Some(format!("</{name}> closes nothing"));
            }
        } else if !inner.ends_with('/') {
            open.push(name);
        }
        if inner.matches('"').count() % 2 != 0 || inner.contains(['<', '&']) {
            return Some(format!("an attribute in <{inner}>"));
        }
        rest = &tag[end + 1..];
    }
    (!open.is_empty()).then(|| format!("{open:?} are open"))
}

#[test]
fn a_timeline_is_well_formed_whatever_the_names_are() {
    let events = odd_history();
    let picture = svg(&events, &check(&events), Zoom::default());
    assert_eq!(malformed(&picture), None);
    assert_eq!(malformed("<a><b></a></b>").as_deref(), Some("</a> closes nothing"));
}

#[test]
fn turns_faults_and_violations_can_be_pointed_at() {
    let events = odd_history();
    let picture = svg(&events, &check(&events), Zoom::default());
    for title in [
        "<title>operation 1 of client 1, token 1000000\n1.000 s to 2.000 s (1.0 s)</title>",
        "<title>operation 2 of client 2, token 1500000\n1.500 s to 2.500 s (1.0 s)</title>",
        "<title>1 turns of client 3\n",
        "on server\n2.200 s to 2.800 s (600 ms)</title>",
        "holds while operation 1 of client 1 with token 1000000 does, for 500000 µs\n1.500 s after",
        "<title>at most 2 wait at a time</title>",
    ] {
        assert!(picture.contains(title), "no {title:?} in\n{picture}");
    }
    assert_eq!(picture.matches(r#"class="bad""#).count(), 2, "one mark, and one in the legend");
}

#[test]
fn what_has_an_excuse_is_marked_otherwise() {
    let mut events = odd_history();
    events.extend(fault(1_400_000, 1_450_000, "stale replica", vec![Guarantee::G1, Guarantee::G5]));
    let events = sorted(events);
    let picture = svg(&events, &check(&events), Zoom::default());
    assert_eq!(picture.matches(r#"class="bad""#).count(), 1, "the one in the legend");
    assert_eq!(picture.matches(r#"class="maybe""#).count(), 2, "one mark, and one in the legend");
}

#[test]
fn the_same_history_is_drawn_the_same_way_twice() {
    let events = odd_history();
    let draw = || svg(&events, &check(&events), Zoom::default());
    assert_eq!(draw(), draw());
}

#[test]
fn a_part_of_a_history_has_only_what_is_in_it() {
    let events = odd_history();
    let zoom = Zoom { from_us: Some(2_100_000), to_us: Some(2_900_000) };
    let picture = svg(&events, &check(&events), zoom);
    assert!(picture.contains("operation 2 of client 2"));
    for other in ["operation 1 of client 1", "client 3\n", "violation</title>"] {
        assert!(!picture.contains(other), "{other:?} in\n{picture}");
    }
    assert_eq!(picture.matches(r#"class="bad""#).count(), 1, "the one in the legend");
}

#[test]
fn a_long_history_of_many_locks_is_drawn_in_bounded_size() {
    let names: Vec<String> = (0..30).map(|number| format!("lock {number:02}")).collect();
    let locks: Vec<(&str, LockKind)> =
        names.iter().map(|name| (name.as_str(), LockKind::Semaphore(8))).collect();
    let mut events = vec![begins("ten minutes", &locks)];
    let mut op = 0;
    for (lock, _) in &locks {
        for permit in 0..8 {
            for number in 0..200 {
                op += 1;
                let from_us = number * 3_000_000 + permit * 1_000 + 1;
                let asked = (*lock, HistoryAsk::Permits(1));
                events.extend(turn(op, permit as u32, asked, from_us, from_us + 2_000_000));
            }
        }
    }
    for number in 0..5_000 {
        events.extend(fault(number * 120_000, number * 120_000 + 60_000, "reset", Vec::new()));
    }
    let events = sorted(events);
    let picture = svg(&events, &[], Zoom::default());
    assert!(picture.len() < SIZE_MAX, "{} bytes", picture.len());
    assert!(picture.contains("and 6 more locks"));
    assert_eq!(malformed(&picture), None);
}

#[test]
fn a_history_of_nothing_can_be_drawn() {
    for events in [&[][..], &[begins("", &[])]] {
        let picture = svg(events, &[], Zoom::default());
        assert_eq!(malformed(&picture), None);
        assert!(!picture.contains("NaN"), "{picture}");
    }
}
