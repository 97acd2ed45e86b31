//! The scripts: one per request. A script is its parts, one after the other, and nothing else.
//!
//! ```text
//!   a native acquire         with protocol=plain
//!
//!   constants                constants                 limits, and what the client is bound to
//!   head.lua                 head.lua                  how a lock is stored; reads the lock's head
//!   the time                 the time                  read once
//!   marker.lua               marker.lua                checks the marker
//!   acquire.alone.lua                                  the most frequent acquire
//!   calm.lua                                         ┐ may a short cut be taken?
//!   acquire.quick.lua                                │ the short cut: the most frequent cases
//!   quick.lua                                        ┘
//!   state.lua … steps.lua    state.lua … steps.lua     functions that all steps share
//!                            adapter.lua … plain.lua   redefines some of them, see below
//!   acquire.lua              acquire.lua               the request, which calls them
//! ```
//!
//! A step without a short cut is the same without it. That of the most frequent release, `release.alone.lua`,
//! comes before the time. A view is no step: it has `view.parts.lua` in place of all from `marker.lua` to
//! `steps.lua`.
//!
//! A native script contains nothing for foreign protocols. Their adapter follows the functions of the native parts
//! and redefines those that it has to. These are local variables of the script, so the native parts call the new
//! ones from then on:
//!
//! ```lua
//! function grant(...)                  -- in place of the native one
//!   local h = native.grant(...)        -- which is still to be had
//!   take(h)
//!   return h
//! end
//! ```
//!
//! A short cut creates no functions, since that takes longer than most steps. So there is nothing to redefine in it,
//! and a script with an adapter has none.
//!
//! The constants name the server's run, which makes a script's hash valid in that run alone: after a restart
//! or a failover EVALSHA answers NOSCRIPT, and the client has to verify before it loads anything (see
//! [`super::handshake`]).

use std::fmt::Write as _;

use taketurns_core::limits;
use taketurns_core::wire::{self, Verb};

use super::foreign::protocol::ForeignProtocol;

/// The part that is the request itself.
fn request(verb: Verb) -> &'static str {
    match verb {
        Verb::Acquire => include_str!("acquire.lua"),
        Verb::Refresh => include_str!("refresh.lua"),
        Verb::Renew => include_str!("renew.lua"),
        Verb::Release => include_str!("release.lua"),
        Verb::Break => include_str!("break.lua"),
        Verb::ClientGone => include_str!("client_gone.lua"),
        Verb::Resize => include_str!("resize.lua"),
        Verb::PoolAdd => include_str!("pool_add.lua"),
        Verb::PoolRemove => include_str!("pool_remove.lua"),
        Verb::Finish => include_str!("finish.lua"),
        Verb::Undo => include_str!("undo.lua"),
        Verb::Tick => include_str!("tick.lua"),
        Verb::View => include_str!("view.lua"),
    }
}

/// What the server may let it do. A server that is out of memory still has to take back what was
/// given out; and that frees memory.
fn flags(verb: Verb) -> &'static str {
    match verb {
        Verb::Acquire | Verb::PoolAdd => "",
        Verb::View => " flags=no-writes",
        _ => " flags=allow-oom",
    }
}

/// The short cut of a request, if it has one.
fn short_cut(verb: Verb) -> Option<&'static str> {
    match verb {
        Verb::Acquire => Some(include_str!("acquire.quick.lua")),
        Verb::Renew => Some(include_str!("renew.quick.lua")),
        Verb::Release => Some(include_str!("release.quick.lua")),
        _ => None,
    }
}

/// The functions that all steps share.
const STEP: [&str; 7] = [
    include_str!("state.lua"),
    include_str!("lists.lua"),
    include_str!("members.lua"),
    include_str!("queue.lua"),
    include_str!("once.lua"),
    include_str!("holders.lua"),
    include_str!("steps.lua"),
];

/// The parts of a script that follow its constants.
fn parts(verb: Verb, wire: Option<ForeignProtocol>, time: TimeFrom) -> Vec<&'static str> {
    let mut parts = vec![include_str!("head.lua")];
    if (verb, wire) == (Verb::Release, None) {
        parts.push(include_str!("release.alone.lua"));
    }
    parts.push(time.part());
    if verb == Verb::View {
        parts.push(include_str!("view.parts.lua"));
    } else {
        parts.push(include_str!("marker.lua"));
        if (verb, wire) == (Verb::Acquire, None) {
            parts.push(include_str!("acquire.alone.lua"));
        }
        if let (Some(short_cut), None) = (short_cut(verb), wire) {
            // In a block: Lua has room for 200 local variables at a time, and those of a short cut end with it.
            parts.extend([
                "do -- a short cut\n",
                include_str!("calm.lua"),
                short_cut,
                include_str!("quick.lua"),
                "end -- of it\n",
            ]);
        }
        parts.extend(STEP);
    }
    parts.extend(wire.map(|wire| wire.adapter(verb)).unwrap_or_default());
    parts.push(request(verb));
    parts
}

/// What scripts are bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptBinding {
    /// The server's run.
    pub(crate) run: String,
    /// Runs that this server is known to have had before, in one text.
    pub(crate) known: String,
    /// What the marker must say; empty where no script can look at it.
    pub(crate) mark: String,
    /// Until when this server grants nothing.
    pub(crate) until_ms: u64,
    /// How long a lock that comes from elsewhere grants nothing.
    pub(crate) max_lease_ms: u64,
    /// What the channels of clients begin with.
    pub(crate) channel: String,
    /// The foreign protocol in use, if any.
    pub(crate) wire: Option<ForeignProtocol>,
}

/// Short cuts print times without looking for zeros in front. Before this time, in 2001, there were more.
const SHORT_CUTS_FROM_MS: u64 = 1_000_000_000_000;

/// Where a script has the time from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeFrom {
    Server,
    /// The last key, in microseconds: so that tests can choose it.
    #[cfg(test)]
    Key,
}

impl TimeFrom {
    /// Sets `clock`: the time in microseconds, in 17 digits.
    fn part(self) -> &'static str {
        match self {
            TimeFrom::Server => include_str!("clock.lua"),
            #[cfg(test)]
            TimeFrom::Key => "local clock = sub('00000000000000000' .. KEYS[#KEYS], -17)\n",
        }
    }
}

/// The whole text of a script.
pub(crate) fn text(verb: Verb, binding: &ScriptBinding, time: TimeFrom) -> String {
    let mut text = format!("#!lua{}\n", flags(verb));
    for (name, value) in [
        ("RUN", &binding.run),
        ("KNOWN", &binding.known),
        ("MARK", &binding.mark),
        ("CHANNEL", &binding.channel),
        ("RUN_LINE", &format!("{}\n", binding.run)),
        ("NEW", &format!("{}m{}{}\n", zeros(134), zeros(7), binding.run)),
    ] {
        let _ = writeln!(text, "local {name} = {}", literal(value));
    }
    // Lua has room for 200 local variables at a time, and an adapter needs many.
    if binding.wire.is_none() {
        short_cut_constants(&mut text, binding);
    }
    for (name, value) in [
        ("UNTIL", binding.until_ms),
        ("MAX_LEASE", binding.max_lease_ms),
        ("QUARANTINE_MAX", limits::quarantine_ms_max(binding.max_lease_ms)),
        ("STEP_MAX", limits::STEP_MAX.into()),
        ("SWEEP", limits::SWEEP_PER_ENQUEUE.into()),
        ("HOLDERS_MAX", limits::HOLDERS_MAX as u64),
        ("MEMBERS_MAX", limits::MEMBERS_MAX as u64),
        ("QUEUE_MAX", limits::QUEUE_MAX as u64),
        ("TOMBS_MAX", limits::TOMBS_MAX as u64),
        ("PERMITS_MAX", limits::PERMITS_MAX.into()),
        ("LOCAL_TURNS_MAX", limits::LOCAL_TURNS_MAX.into()),
        ("TOKENS_AHEAD", limits::TOKENS_AHEAD_US),
        ("LEASE_MIN", limits::LEASE_MS_MIN),
        ("LEASE_MAX", limits::LEASE_MS_MAX),
        ("RETENTION", limits::RETENTION_MS),
        ("EXPIRY_SLACK", limits::EXPIRY_SLACK_MS),
        ("AGREED_MAX", limits::AGREED_MAX),
        ("TOKEN_CLOCK_MAX", limits::TOKEN_CLOCK_MAX),
        ("HINT_AHEAD", limits::HINT_AHEAD_US),
    ] {
        let _ = writeln!(text, "local {name} = {value}");
    }
    let (least, most) = (limits::REMEMBER_MS_MIN, limits::REMEMBER_MS_MAX);
    let _ = writeln!(text, "local REMEMBER = {{ {least}, {most} }}");
    let _ = writeln!(text, "local HOLDER = {}", 144 + binding.run.len());
    if let Some(wire) = binding.wire {
        let form = wire.form();
        let _ = writeln!(text, "local PROTOCOL = {}", literal(form.name));
        let _ = writeln!(text, "local KIND = {}", literal(&wire::kind_text(form.kind)));
        for (name, value) in wire.settings() {
            let _ = writeln!(text, "local {name} = {value}");
        }
    }
    parts(verb, binding.wire, time).into_iter().for_each(|part| text.push_str(part));
    text
}

/// Pieces of heads, and bounds in digits, for short cuts to compare with.
fn short_cut_constants(text: &mut String, binding: &ScriptBinding) {
    for (name, value) in [
        ("IDLE", &zeros(53)),
        ("CALM", &zeros(33)),
        ("FREE", &format!("{}m{}{}\n", zeros(86), zeros(7), binding.run)),
        ("MUTEX", &format!("{}00000010001{}m{}{}\n", zeros(8), zeros(6), zeros(7), binding.run)),
        ("CALM_FROM", &format!("{:014}", binding.until_ms.max(SHORT_CUTS_FROM_MS))),
        ("CALM_UNTIL", &format!("{:017}", limits::TOKEN_CLOCK_MAX)),
        ("LEASE_FROM", &format!("{:08}", limits::LEASE_MS_MIN)),
        ("LEASE_TO", &format!("{:08}", limits::LEASE_MS_MAX)),
        ("SLACK_DIGITS", &format!("{:08}", limits::EXPIRY_SLACK_MS)),
    ] {
        let _ = writeln!(text, "local {name} = {}", literal(value));
    }
}

fn zeros(count: usize) -> String {
    "0".repeat(count)
}

/// A Lua string literal, whatever is in it.
fn literal(text: &str) -> String {
    let mut literal = String::from("'");
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b' ' | b':' | b'-' | b'_' | b'/' | b'.' => {
                literal.push(char::from(byte));
            }
            _ => {
                let _ = write!(literal, "\\{byte:03}");
            }
        }
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_script_is_the_native_one_with_an_adapter_for_its_short_cut() {
        for verb in Verb::ALL {
            let native = parts(verb, None, TimeFrom::Server);
            let adapter = ForeignProtocol::FairQueue.adapter(verb);
            let foreign = parts(verb, Some(ForeignProtocol::FairQueue), TimeFrom::Server);
            assert!(adapter.iter().all(|part| !native.contains(part)), "{}", verb.name());
            let of_both: Vec<_> = foreign.iter().filter(|part| !adapter.contains(part)).collect();
            let without_short_cut: Vec<_> =
                native.iter().filter(|part| foreign.contains(part)).collect();
            assert_eq!(of_both, without_short_cut, "{}", verb.name());
            let left_out = native.len() - without_short_cut.len();
            let alone = usize::from(matches!(verb, Verb::Acquire | Verb::Release));
            let short_cuts = if short_cut(verb).is_some() { 5 } else { 0 };
            assert_eq!(left_out, short_cuts + alone, "{}", verb.name());
        }
    }

    #[test]
    fn what_goes_into_a_script_as_text_stays_text() {
        assert_eq!(literal("tt:wake:"), "'tt:wake:'");
        assert_eq!(literal("'x\n]]\\"), "'\\039x\\010\\093\\093\\092'");
        assert_eq!(literal("ü"), "'\\195\\188'");
    }
}
