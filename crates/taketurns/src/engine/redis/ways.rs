//! Which way a lock is used: by the module where the server has one, or by the scripts.
//!
//! ```text
//!             no module ──► scripts ── WRONGTYPE ─► greet: has the module come meanwhile?
//!                             │  ▲
//!    WRONGTYPE: it is the     │  │ WRONGTYPE: the scripts have it, and it is in use.
//!    module's by now: forget  ▼  │ Remembered
//!                           module
//! ```
//!
//! What answers WRONGTYPE was not carried out, so it can be asked the other way. The module takes over
//! what the scripts have left idle; so whoever wants a lock anew tries the module again now and then.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use taketurns_core::Request;
use taketurns_core::wire::{Args, Verb, encode_request_to};

use super::greeter::Keys;
use super::module::Module;
use super::net::errand::{Errand, Turn, Way};
use super::net::session::Session;
use super::net::words::Out;
use crate::sync::lock;

/// An acquire tries the module again after so long: one round trip more for somebody.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// More than this are forgotten, all at once: one round trip more for each.
const KEYS_MAX: usize = 16_384;

/// The locks that the scripts have, on servers with the module; and when the module said so.
#[derive(Default)]
pub(super) struct Ways {
    on_scripts: Mutex<HashMap<Vec<u8>, Instant>>,
    /// There was such a lock at some time: most clients never see one.
    has_any: AtomicBool,
}

impl Ways {
    fn way(&self, key: &[u8], verb: Verb, module: &Module) -> Way {
        if !module.is_bound() {
            return Way::Scripts;
        }
        if !self.has_any.load(Ordering::Relaxed) {
            return Way::Module;
        }
        self.way_at(key, verb, Instant::now())
    }

    fn way_at(&self, key: &[u8], verb: Verb, now: Instant) -> Way {
        let stays = |said: &Instant| {
            verb != Verb::Acquire || now.saturating_duration_since(*said) < TRY_AGAIN_AFTER
        };
        if lock(&self.on_scripts).get(key).is_some_and(stays) { Way::Scripts } else { Way::Module }
    }

    /// That way led to something of another type.
    fn turn(&self, key: &[u8], way: Way, module: &Module, now: Instant) -> Turn {
        let mut on_scripts = lock(&self.on_scripts);
        match (way, module) {
            (Way::Module, _) => {
                if on_scripts.len() >= KEYS_MAX {
                    on_scripts.clear();
                }
                on_scripts.insert(key.to_vec(), now);
                self.has_any.store(true, Ordering::Relaxed);
                Turn::Over
            }
            (Way::Scripts, Module::Bound(_)) => {
                on_scripts.remove(key);
                Turn::Over
            }
            (Way::Scripts, Module::Missing) => Turn::Look(None),
            (Way::Scripts, Module::Denied(why)) => Turn::Look(Some(why.clone())),
            (Way::Scripts, Module::Off) => {
                Turn::Never(Some("module=off, or a protocol, does not use it".to_owned()))
            }
        }
    }
}

/// What is asked about one lock.
#[derive(Clone, Copy)]
pub(super) enum Question<'a> {
    Step(&'a Request),
    /// What people see of it, with at most this many waiters.
    View(usize),
}

impl Question<'_> {
    fn verb(self) -> Verb {
        match self {
            Self::Step(request) => Verb::of(request),
            Self::View(_) => Verb::View,
        }
    }

    fn encode(self, args: &mut Args) {
        match self {
            Self::Step(request) => encode_request_to(args, request),
            Self::View(waiters_max) => args.push_number(waiters_max as u64),
        }
    }
}

/// One question about one lock.
pub(super) struct Step<'a> {
    pub(super) ways: &'a Ways,
    pub(super) keys: Keys,
    pub(super) question: Question<'a>,
}

impl Errand for Step<'_> {
    fn way(&self, session: &Session) -> Way {
        self.ways.way(&self.keys.lock, self.question.verb(), &session.bound.module)
    }

    fn write(&self, session: &Session, way: Way, out: &mut Out) {
        let (bound, verb) = (&session.bound, self.question.verb());
        out.with_args(
            |args| self.question.encode(args),
            |out, args| bound.write(way, verb, &self.keys, args, out),
        );
    }

    fn turn(&self, session: &Session, way: Way) -> Turn {
        self.ways.turn(&self.keys.lock, way, &session.bound.module, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound() -> Module {
        Module::Bound("0123456789abcdef".to_owned())
    }

    #[test]
    fn the_module_is_used_where_there_is_one() {
        let ways = Ways::default();
        assert_eq!(ways.way(b"k", Verb::Renew, &bound()), Way::Module);
        for module in [Module::Missing, Module::Off, Module::Denied("no".to_owned())] {
            assert_eq!(ways.way(b"k", Verb::Renew, &module), Way::Scripts);
        }
    }

    #[test]
    fn a_lock_of_the_scripts_is_remembered_until_the_module_has_it() {
        let (ways, now) = (Ways::default(), Instant::now());
        assert_eq!(ways.turn(b"k", Way::Module, &bound(), now), Turn::Over);
        // Whoever was sent before that was known hears the same again.
        assert_eq!(ways.turn(b"k", Way::Module, &bound(), now), Turn::Over);
        for verb in [Verb::Acquire, Verb::Renew, Verb::View] {
            assert_eq!(ways.way_at(b"k", verb, now), Way::Scripts);
        }
        assert_eq!(ways.way_at(b"other", Verb::Renew, now), Way::Module);
        assert_eq!(ways.turn(b"k", Way::Scripts, &bound(), now), Turn::Over);
        assert_eq!(ways.way_at(b"k", Verb::Renew, now), Way::Module);
    }

    #[test]
    fn an_acquire_tries_the_module_again_and_nothing_else_does() {
        let (ways, now) = (Ways::default(), Instant::now());
        ways.turn(b"k", Way::Module, &bound(), now);
        let later = now + TRY_AGAIN_AFTER;
        assert_eq!(ways.way_at(b"k", Verb::Acquire, later), Way::Module);
        for verb in Verb::ALL.into_iter().filter(|verb| *verb != Verb::Acquire) {
            assert_eq!(ways.way_at(b"k", verb, later), Way::Scripts);
        }
        ways.turn(b"k", Way::Module, &bound(), later);
        assert_eq!(ways.way_at(b"k", Verb::Acquire, later), Way::Scripts, "not at once");
    }

    #[test]
    fn without_a_module_it_is_looked_for_unless_it_is_not_wanted() {
        let (ways, now) = (Ways::default(), Instant::now());
        let turn = |module| ways.turn(b"k", Way::Scripts, &module, now);
        assert_eq!(turn(Module::Missing), Turn::Look(None));
        assert_eq!(turn(Module::Denied("no".to_owned())), Turn::Look(Some("no".to_owned())));
        assert!(matches!(turn(Module::Off), Turn::Never(Some(why)) if why.contains("off")));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (ways, now) = (Ways::default(), Instant::now());
        for number in 0..=KEYS_MAX {
            ways.turn(&number.to_le_bytes(), Way::Module, &bound(), now);
            assert!(lock(&ways.on_scripts).len() <= KEYS_MAX);
        }
    }
}
