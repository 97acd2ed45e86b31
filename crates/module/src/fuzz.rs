//! Fuzzes what the module reads without a server: stored locks, log entries, the arguments of commands, and the
//! scripts' hashes. Damaged input must never cause a panic, and what the module accepts must be a sound lock.
//!
//! `tests/all/fuzz` sends the same to servers.

#[path = "../../core/tests/all/fuzz/life.rs"]
mod life;

use std::sync::Arc;

use taketurns_core::{Lock, Now, limits};
use taketurns_servers::fuzz::{self, Dice};

use crate::binding::ProgramBinding;
use crate::entry::Entry;
use crate::record::{Record, Requester};
use crate::words::{self, AcquireWords};

const ANYONE: Requester<'_> = Requester::Anyone { until_ms: 0 };

fn record(lock: Lock) -> Record {
    Record::of(lock, "run".into(), "tt:wake:".into())
}

fn binding() -> ProgramBinding {
    let args: [&[u8]; 7] = [b"run", b"run1,run0", b"mark", b"tt:m", b"50", b"60000", b"tt:wake:"];
    ProgramBinding::parse(&args).expect("a binding")
}

/// Uses a record, here and on a copy that repeats its steps.
fn goes_on(dice: &mut Dice, mut here: Record, kind: usize) {
    let binding = binding();
    let mut now = life::START;
    let mut there = Record::from_entry(&here.to_bytes()).expect("what is written can be read");
    for _ in 0..12 {
        let request = life::request(dice, kind);
        let by = if dice.percent(50) { Requester::Program(&binding) } else { ANYONE };
        let mut entries = Vec::new();
        here.distrust("another run", now.ms);
        here.step(now, by, &request, |entry| {
            entry.with_bytes(|bytes| entries.push(bytes.to_vec()))
        });
        let token = now.wall_us;
        // Whether the token is admitted depends on the damage.
        let _ = here.admit(now, token, |entry| entry.with_bytes(|it| entries.push(it.to_vec())));
        for entry in &entries {
            there.repeat(&Entry::from_bytes(entry).expect("what is written can be read"));
        }
        here.new_end_ms();
        assert_eq!(here.to_digest(), there.to_digest(), "after {request:?}");
        here.lock.audit().unwrap_or_else(|corrupt| panic!("{corrupt} after {request:?}"));
        now = Now { ms: now.ms + 500, wall_us: now.wall_us + 1 };
    }
}

#[test]
fn a_stored_record_is_refused_or_goes_on() {
    fuzz::rounds("records", 2_000, |dice| {
        let kind = dice.below(5);
        let genuine = record(life::lived(dice, kind).0).to_bytes();
        let damaged = dice.damaged(&[genuine]);
        let Ok(record) = Record::from_bytes(&damaged) else { return false };
        let written = record.to_bytes();
        let again = Record::from_bytes(&written).expect("what is written can be read");
        assert_eq!(again.to_bytes(), written);
        goes_on(dice, record, kind);
        true
    });
}

#[test]
fn an_entry_is_refused_or_repeated_and_leaves_a_lock() {
    fuzz::rounds("entries", 4_000, |dice| {
        let kind = dice.below(5);
        let (lock, now) = life::lived(dice, kind);
        let (mut there, mut genuine) = (record(lock.clone()), Vec::new());
        let (mut here, request) = (record(lock), life::request(dice, kind));
        let mut keep = |entry: &Entry<'_>| entry.with_bytes(|bytes| genuine.push(bytes.to_vec()));
        here.step(now, ANYONE, &request, &mut keep);
        let _ = here.admit(now, now.wall_us, &mut keep);
        keep(&Entry::State(here.to_bytes().into()));
        let damaged = dice.damaged(&genuine);
        let Some(entry) = Entry::from_bytes(&damaged) else { return false };
        entry.with_bytes(|bytes| assert_eq!(Entry::from_bytes(bytes).as_ref(), Some(&entry)));
        if let Entry::State(state) = &entry {
            let Ok(record) = Record::from_entry(state) else { return false };
            there = record;
        }
        there.repeat(&entry);
        // A lock that can't be stored would be lost at the next start.
        let stored = Record::from_bytes(&there.to_bytes());
        assert_eq!(stored.map(|record| record.lock), Ok(there.lock), "{entry:?}");
        true
    });
}

#[test]
fn parsed_arguments_are_within_limits_and_errors_repeat_nothing() {
    let genuine = [
        "30",
        "250 bound Wait 1.5 MS label hunter2 Permits 2 4",
        "1 MEMBER any SHARED",
        "9007199254740991 5000 ms",
        "TOKEN 5 NOW",
        "7 match a* COUNT 5",
        "COUNT 10000",
    ];
    fuzz::rounds("words", 20_000, |dice| {
        let line = dice.damaged(&genuine);
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let max_lease_ms = *dice.pick(&[&60_000, &limits::LEASE_MS_MAX]);
        let is_lease = |ms| limits::is_lease(ms) && ms <= max_lease_ms;
        let acquire = words::acquire(&words, max_lease_ms);
        if let Ok(AcquireWords { lease_ms, wait_ms, ask, .. }) = &acquire {
            assert!(is_lease(*lease_ms) && ask.is_possible(), "{words:?}");
            assert!(wait_ms.is_none_or(|ms| 0 < ms && ms <= limits::LEASE_MS_MAX), "{words:?}");
        }
        let renew = words::renew(&words, max_lease_ms);
        assert!(
            renew.as_ref().is_ok_and(|(secret, ms)| *secret > 0 && is_lease(*ms)) || renew.is_err()
        );
        let (break_, list, show) =
            (words::break_(&words), words::list(&words), words::show(&words));
        assert!(list.as_ref().is_ok_and(|list| list.count > 0) || list.is_err());
        assert!(show.as_ref().is_ok_and(|count| *count > 0) || show.is_err());
        let problems = [acquire.err(), renew.err(), break_.err(), list.err(), show.err()];
        for problem in problems.iter().flatten() {
            let said = problem.to_string();
            assert!(said.starts_with("ERR ") && !said.contains("hunter2"), "{said}");
        }
        problems.iter().any(Option::is_none)
    });
}

#[test]
fn a_binding_is_whole_or_none() {
    fuzz::rounds("bindings", 20_000, |dice| {
        let line = dice.damaged(&["run2\nrun1,run0\nmark 5\ntt:\x01run\n50\n60000\ntt:wake:"]);
        let words: Vec<&[u8]> = line.split(|byte| *byte == b'\n').collect();
        let Some(binding) = ProgramBinding::parse(&words) else { return false };
        assert!(binding.knows(&Arc::clone(&binding.run)), "{words:?}");
        assert!(binding.until_ms_at(u64::MAX) == 0);
        true
    });
}
