//! Command lines, damaged: what is taken is within limits, and what is refused is refused in one line
//! that repeats no secret.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use taketurns::limits;
use taketurns_servers::fuzz::{self, Dice};

use crate::ask::{self, Permits};
use crate::{args, exit};

const LINES: [&str; 13] = [
    "run -w 10 --why release --lease 30 --max-hold 60 deploy -- make -n deploy",
    "run --permits 1/4 gpu -- ./train.py",
    "run --pool browsers --member b-1 -E 3 -- sh",
    "acquire -s --lease 60 import",
    "renew --lease 0.5",
    "break --now --token 1790000000000001 backup",
    "pool add browsers b-1 b-2",
    "--store file:x ls orders/*",
    "show --watch=0.5 --json backup",
    "top --every 2 orders/*",
    "serve --listen 127.0.0.1:0 --closed --allow-host locks.example --every 0.5 orders/*",
    "elect --why node-1 --lease 10 scheduler -- ./plan.sh",
    "doctor --json redis://host",
];

/// Words that are secret, or have a secret in them.
const SECRETS: [&str; 5] = [
    "tt1.5ec7e75ec7e75ec7e75ec7e75ec7e700.1.30000.3.door",
    "--lease=tt1.5ec7e75ec7e75ec7e75ec7e75ec7e700.1.30000.3.door",
    "redis://:hunter2@a.host.with.a.rather.long.name.example.com:6379",
    "--stor=rediss+sentinel://u:hunter2@h/m",
    "--token=redis://:hunter2@h",
];

fn line(dice: &mut Dice) -> Vec<OsString> {
    let line = LINES[dice.below(LINES.len())];
    let mut words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    for _ in 0..dice.below(3) {
        let at = dice.below(words.len());
        match dice.below(5) {
            0 => drop(words.remove(at)),
            1 => words.insert(at, words[at].clone()),
            _ => words[at] = dice.damaged(&words[at..=at]),
        }
        if words.is_empty() {
            break;
        }
    }
    if dice.percent(30) {
        words.insert(dice.below(words.len() + 1), dice.pick(&SECRETS).into());
    }
    std::iter::once(b"taketurns".to_vec()).chain(words).map(OsString::from_vec).collect()
}

#[test]
fn a_command_line_is_taken_or_refused_in_one_line_that_repeats_no_secret() {
    fuzz::rounds("command lines", 1_500, |dice| {
        let line = line(dice);
        let failure = match args::read(&line) {
            Ok(taken) => return taken.is_ok(),
            Err(failure) => failure,
        };
        assert_eq!(failure.code, exit::USAGE, "{line:?}");
        let said = failure.to_string();
        assert!(!said.is_empty() && !said.contains("\n\n"), "{line:?}: {said:?}");
        assert!(!said.contains("hunter2") && !said.contains("5ec7e7"), "{line:?}: {said}");
        false
    });
}

#[test]
fn a_span_is_one_that_a_lock_takes_or_refused() {
    let (lease_min, lease_max) = (limits::LEASE_MS_MIN, limits::LEASE_MS_MAX);
    let year = Duration::from_secs(366 * 24 * 60 * 60);
    fuzz::rounds("spans of time", 20_000, |dice| {
        let text = dice.damaged_text(&["30", "0.01", "86400", "1e3", "-1", "inf", "31536000"]);
        let (lease, hold, wait) = (ask::lease(&text), ask::max_hold(&text), ask::wait_limit(&text));
        for why in [&lease, &hold, &wait].into_iter().filter_map(|span| span.as_ref().err()) {
            assert!(!why.is_empty() && !why.contains('\n'), "{why:?}");
        }
        // The longer a span may be, the more are taken.
        assert!(lease.is_err() || hold == lease && wait == lease, "{text:?}");
        assert!(hold.is_err() || wait == hold, "{text:?}");
        assert!(wait.is_err() || wait.is_ok_and(|wait| wait <= year), "{text:?}");
        let Ok(lease) = lease else { return false };
        let range = u128::from(lease_min)..=u128::from(lease_max);
        assert!(range.contains(&lease.as_millis()), "{text:?}");
        true
    });
}

#[test]
fn permits_and_codes_are_within_limits_or_refused() {
    fuzz::rounds("permits and exit codes", 20_000, |dice| {
        let text = dice.damaged_text(&["1/4", "4", "1000000", "255", "0/0"]);
        let permits = text.parse::<Permits>();
        if let Ok(Permits { take, of }) = permits {
            assert!(1 <= take && take <= of && of <= limits::PERMITS_MAX, "{text:?}");
            assert_eq!(format!("{take}/{of}").parse(), permits, "{text:?}");
        }
        let code = ask::exit_code(&text);
        assert!(code.is_err() || code == ask::exit_code(&code.clone().unwrap_or(0).to_string()));
        permits.is_ok()
    });
}
