//! What comes out of a session, in words.

use taketurns_core::session::{
    Acquired, Anchor, Event, Hold, Refresh, Released, Renewal, Transmit, Turn,
};
use taketurns_core::{Acquire, Ask, Owner, Request};

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
        Request::Acquire(Acquire {
            owner, ask, lease_ms, waiter_lease_ms, not_after_ms, ..
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
        other => format!("{other:?}"),
    }
}

pub(super) fn granted(
    owner: Owner,
    hold: &Hold,
    turn: Option<&Turn>,
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

pub(super) fn acquired(acquired: &Acquired) -> String {
    match acquired {
        Acquired::Granted { .. } => "granted".into(),
        Acquired::Busy => "busy".into(),
        Acquired::TimedOut { was_answered, quarantine_left_us } => {
            let answered = if *was_answered { "" } else { ", without an answer" };
            let quarantined = quarantine_left_us
                .map_or(String::new(), |us| format!(", quarantined for {} ms", ms(us)));
            format!("timed out{answered}{quarantined}")
        }
        Acquired::Refused { refusal, now_ms } => format!("refused at {now_ms}: {refusal}"),
        Acquired::Malformed(reply) => format!("malformed reply: {reply:?}"),
        Acquired::Failed => "failed".into(),
    }
}

pub(super) fn released(released: Released) -> &'static str {
    match released {
        Released::Released => "released",
        Released::NotHeld => "not held",
        Released::Unknown => "not held, and it is not known what became of a try before",
        Released::Failed => "failed",
    }
}

pub(super) fn event(event: &Event) -> String {
    match event {
        Event::Lost { hold, cause } => format!("lost {}: {cause}", name(hold.owner())),
        Event::ClockSet => "clock set".into(),
        Event::Quarantined { lock, left_ms } => format!("quarantined {lock} for {left_ms} ms"),
        Event::Queued { ahead } => format!("queued behind {ahead}"),
        Event::Rejoined { lock } => format!("rejoined {lock}"),
        other => format!("{other:?}"),
    }
}

pub(super) fn transmit(transmit: &Transmit) -> String {
    match transmit {
        Transmit::Renew(renewals) => {
            let renewal = |Renewal { hold, lease_ms }: &Renewal| {
                format!("{} lease={lease_ms}", name(hold.owner()))
            };
            format!("renew {}", renewals.iter().map(renewal).collect::<Vec<_>>().join(", "))
        }
        Transmit::Refresh(refreshes) => {
            let lock = |Refresh { lock, .. }: &Refresh| lock.to_string();
            format!("refresh {}", refreshes.iter().map(lock).collect::<Vec<_>>().join(", "))
        }
        Transmit::Release { lock, owner, .. } => {
            format!("release {} of {lock}", name(*owner))
        }
    }
}
