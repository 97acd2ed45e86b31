//! What comes out of a session, in words.

use taketurns_core::session::{
    AcquireOutcome, Anchor, Hold, HoldRenewal, LocalTurn, PlaceRefresh, ReleaseOutcome,
    SessionEvent, Transmit,
};
use taketurns_core::{AcquireRequest, Ask, AttemptEnd, Owner, Request};

use crate::golden::words::name;

/// A local time in milliseconds.
pub(super) fn ms(us: u64) -> String {
    match us % 1_000 {
        0 => format!("{}", us / 1_000),
        part => format!("{}.{part:03}", us / 1_000),
    }
}

pub(super) fn request(request: &Request) -> String {
    match request {
        Request::Acquire(AcquireRequest {
            owner,
            ask,
            lease_ms,
            waiter_lease_ms,
            not_after_ms,
            ..
        }) => {
            let wait = waiter_lease_ms.map_or("no".into(), |ms| ms.to_string());
            let ask = if *ask == Ask::Mutex { String::new() } else { format!(" ({ask})") };
            let who = name(*owner);
            format!("acquire {who} lease={lease_ms} wait={wait} not_after={not_after_ms}{ask}")
        }
        Request::Renew { owner, lease_ms, .. } => {
            format!("renew {} lease={lease_ms}", name(*owner))
        }
        Request::Release { owner, bury_until_ms, last_used } => {
            let bury = match bury_until_ms {
                0 => String::new(),
                until_ms => format!(" bury={until_ms}"),
            };
            let used = last_used.map_or(String::new(), |token| format!(" used={token}"));
            format!("release {}{bury}{used}", name(*owner))
        }
        Request::Finish { owner, token, end, bury_until_ms } => {
            let end = match end {
                AttemptEnd::Done(_) => "done",
                AttemptEnd::Failed => "fail",
            };
            let bury = match bury_until_ms {
                0 => String::new(),
                until_ms => format!(" bury={until_ms}"),
            };
            format!("{end} {} token={token}{bury}", name(*owner))
        }
        other => format!("{other:?}"),
    }
}

pub(super) fn granted(
    owner: Owner,
    hold: &Hold,
    turn: Option<&LocalTurn>,
    woken: Option<(Anchor, u64)>,
) -> String {
    let token = turn.map_or(hold.token(), |turn| turn.token);
    let token = token.map_or("none".into(), |token| token.to_string());
    let until = ms(hold.valid_until_us());
    let of = if hold.owner() == owner {
        String::new()
    } else {
        format!(", a turn of {}", name(hold.owner()))
    };
    let woken = woken.map_or(String::new(), |(Anchor { sent_us, engine_ms }, deadline_ms)| {
        let sent = ms(sent_us);
        format!(", by a wake-up: {deadline_ms}, judged by sent={sent} engine={engine_ms}")
    });
    format!("granted token={token} until={until}{of}{woken}")
}

pub(super) fn acquired(acquired: &AcquireOutcome) -> String {
    match acquired {
        AcquireOutcome::Granted { .. } => "granted".into(),
        AcquireOutcome::Busy => "busy".into(),
        AcquireOutcome::DoneBefore(done) => format!("done before, by {}", done.by),
        AcquireOutcome::TimedOut { was_answered, quarantine_left_us } => {
            let answered = if *was_answered { "" } else { ", without an answer" };
            let quarantined = quarantine_left_us
                .map_or(String::new(), |us| format!(", quarantined for {} ms", ms(us)));
            format!("timed out{answered}{quarantined}")
        }
        AcquireOutcome::Refused { refusal, now_ms } => format!("refused at {now_ms}: {refusal}"),
        AcquireOutcome::Malformed(reply) => format!("malformed reply: {reply:?}"),
        AcquireOutcome::Failed => "failed".into(),
    }
}

pub(super) fn released(released: ReleaseOutcome) -> &'static str {
    match released {
        ReleaseOutcome::Released => "released",
        ReleaseOutcome::NotHeld => "not held",
        ReleaseOutcome::Unknown => "not held, and it is not known what became of a try before",
        ReleaseOutcome::Failed => "failed",
    }
}

pub(super) fn event(event: &SessionEvent) -> String {
    match event {
        SessionEvent::Lost { hold, cause } => format!("lost {}: {cause}", name(hold.owner())),
        SessionEvent::ClockSet => "clock set".into(),
        SessionEvent::Quarantined { lock, left_ms } => {
            format!("quarantined {lock} for {left_ms} ms")
        }
        SessionEvent::Queued { ahead } => format!("queued behind {ahead}"),
        SessionEvent::Rejoined { lock } => format!("rejoined {lock}"),
        other => format!("{other:?}"),
    }
}

pub(super) fn transmit(transmit: &Transmit) -> String {
    match transmit {
        Transmit::Renew(renewals) => {
            let renewal = |HoldRenewal { hold, lease_ms }: &HoldRenewal| {
                format!("{} lease={lease_ms}", name(hold.owner()))
            };
            format!("renew {}", renewals.iter().map(renewal).collect::<Vec<_>>().join(", "))
        }
        Transmit::Refresh(refreshes) => {
            let lock = |PlaceRefresh { lock, .. }: &PlaceRefresh| lock.to_string();
            format!("refresh {}", refreshes.iter().map(lock).collect::<Vec<_>>().join(", "))
        }
        Transmit::Release { lock, owner, .. } => {
            format!("release {} of {lock}", name(*owner))
        }
    }
}
