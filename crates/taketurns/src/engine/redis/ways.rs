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
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::Cmd;
use taketurns_core::wire::Verb;

use super::greeter::Keys;
use super::module::Module;
use super::net::errand::{Errand, Turn, Way};
use super::net::line::lock;
use super::net::session::Session;

/// An acquire tries the module again after so long: one round trip more for somebody.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// More than this are forgotten, all at once: one round trip more for each.
const KEYS_MAX: usize = 16_384;

/// The locks that the scripts have, on servers with the module; and when the module said so.
#[derive(Default)]
pub(super) struct Ways {
    on_scripts: Mutex<HashMap<Vec<u8>, Instant>>,
}

impl Ways {
    fn way(&self, key: &[u8], verb: Verb, module: &Module, now: Instant) -> Way {
        if !module.is_bound() {
            return Way::Scripts;
        }
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

/// One request about one lock.
pub(super) struct Step {
    pub(super) ways: Arc<Ways>,
    pub(super) keys: Keys,
    pub(super) verb: Verb,
    pub(super) args: Vec<Vec<u8>>,
}

impl Errand for Step {
    fn way(&self, session: &Session) -> Way {
        self.ways.way(&self.keys.lock, self.verb, &session.bound.module, Instant::now())
    }

    fn command(&self, session: &Session, way: Way) -> Cmd {
        session.bound.command(way, self.verb, &self.keys, &self.args)
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
        let (ways, now) = (Ways::default(), Instant::now());
        assert_eq!(ways.way(b"k", Verb::Renew, &bound(), now), Way::Module);
        for module in [Module::Missing, Module::Off, Module::Denied("no".to_owned())] {
            assert_eq!(ways.way(b"k", Verb::Renew, &module, now), Way::Scripts);
        }
    }

    #[test]
    fn a_lock_of_the_scripts_is_remembered_until_the_module_has_it() {
        let (ways, now) = (Ways::default(), Instant::now());
        assert_eq!(ways.turn(b"k", Way::Module, &bound(), now), Turn::Over);
        // Whoever was sent before that was known hears the same again.
        assert_eq!(ways.turn(b"k", Way::Module, &bound(), now), Turn::Over);
        for verb in [Verb::Acquire, Verb::Renew, Verb::View] {
            assert_eq!(ways.way(b"k", verb, &bound(), now), Way::Scripts);
        }
        assert_eq!(ways.way(b"other", Verb::Renew, &bound(), now), Way::Module);
        assert_eq!(ways.turn(b"k", Way::Scripts, &bound(), now), Turn::Over);
        assert_eq!(ways.way(b"k", Verb::Renew, &bound(), now), Way::Module);
    }

    #[test]
    fn an_acquire_tries_the_module_again_and_nothing_else_does() {
        let (ways, now) = (Ways::default(), Instant::now());
        ways.turn(b"k", Way::Module, &bound(), now);
        let later = now + TRY_AGAIN_AFTER;
        assert_eq!(ways.way(b"k", Verb::Acquire, &bound(), later), Way::Module);
        for verb in Verb::ALL.into_iter().filter(|verb| *verb != Verb::Acquire) {
            assert_eq!(ways.way(b"k", verb, &bound(), later), Way::Scripts);
        }
        ways.turn(b"k", Way::Module, &bound(), later);
        assert_eq!(ways.way(b"k", Verb::Acquire, &bound(), later), Way::Scripts, "not at once");
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
