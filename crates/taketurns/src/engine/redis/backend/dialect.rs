//! Scripts or module: in which dialect a lock is asked for, and how often a command is sent again.
//!
//! ```text
//!             no module ──► scripts ── WRONGTYPE ─► verify: has the module come meanwhile?
//!                             │  ▲
//!    WRONGTYPE: it is the     │  │ WRONGTYPE: the scripts have it, and it is in use.
//!    module's by now: forget  ▼  │ Remembered
//!                           module
//! ```
//!
//! What answers WRONGTYPE was not carried out, so it can be asked in the other dialect. The module takes over
//! what the scripts have left idle, so an acquire tries the module again now and then.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use taketurns_core::wire::Verb;

use super::ModuleBinding;
use crate::engine::redis::connection::failure::Failure;
use crate::sync::lock;

/// An acquire tries the module again after this time: one more round trip for one caller.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// When there are more, all are forgotten: one more round trip for each.
const KEYS_MAX: usize = 16_384;

/// How a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Scripts,
    Module,
}

/// What to do about a key of another type. The command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WrongTypeAction {
    /// Ask in the other dialect.
    Switch,
    /// Verify the server again: it may have the module by now. If not, this may be why.
    Verify(Option<String>),
    /// There is no other dialect. This may be why.
    GiveUp(Option<String>),
}

/// The locks that the scripts have, on servers with the module, and when the module said so.
#[derive(Default)]
pub(crate) struct DialectMemory {
    on_scripts: Mutex<HashMap<Vec<u8>, Instant>>,
    /// Most clients never see such a lock.
    has_any: AtomicBool,
}

impl DialectMemory {
    /// On a server that has the module.
    pub(super) fn choose(&self, key: &[u8], verb: Verb) -> Dialect {
        if !self.has_any.load(Ordering::Relaxed) {
            return Dialect::Module;
        }
        self.choose_at(key, verb, Instant::now())
    }

    fn choose_at(&self, key: &[u8], verb: Verb, now: Instant) -> Dialect {
        let stays = |said: &Instant| {
            verb != Verb::Acquire || now.saturating_duration_since(*said) < TRY_AGAIN_AFTER
        };
        match lock(&self.on_scripts).get(key).is_some_and(stays) {
            true => Dialect::Scripts,
            false => Dialect::Module,
        }
    }

    /// A command in that dialect met a key of another type.
    pub(super) fn handle_wrong_type(
        &self,
        key: &[u8],
        dialect: Dialect,
        module: &ModuleBinding,
        now: Instant,
    ) -> WrongTypeAction {
        let mut on_scripts = lock(&self.on_scripts);
        match (dialect, module) {
            (Dialect::Module, _) => {
                if on_scripts.len() >= KEYS_MAX {
                    on_scripts.clear();
                }
                on_scripts.insert(key.to_vec(), now);
                self.has_any.store(true, Ordering::Relaxed);
                WrongTypeAction::Switch
            }
            (Dialect::Scripts, ModuleBinding::Bound(_)) => {
                on_scripts.remove(key);
                WrongTypeAction::Switch
            }
            (Dialect::Scripts, ModuleBinding::Missing) => WrongTypeAction::Verify(None),
            (Dialect::Scripts, ModuleBinding::Denied(why)) => {
                WrongTypeAction::Verify(Some(why.clone()))
            }
            (Dialect::Scripts, ModuleBinding::Off) => WrongTypeAction::GiveUp(Some(
                "module=off, or a foreign protocol, does not use it".to_owned(),
            )),
        }
    }
}

/// What has to be done before a command can be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    LoadScripts,
    Verify,
}

/// How a command is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    Now,
    After(Repair),
}

/// How often one call may be sent again after each repair: twice, since another client may flush scripts
/// just then; not for ever.
#[derive(Debug, Default)]
pub(crate) struct RetryBudget {
    loads: u8,
    verifications: u8,
    switches: u8,
    has_verified_for_type: bool,
}

const REPAIRS_MAX: u8 = 2;
/// A lock may be taken over, forgotten and made anew between two switches. Hardly twice.
const SWITCHES_MAX: u8 = 4;

impl RetryBudget {
    /// How to send the command again, or the error to give up with. `on_wrong_type` is asked about a key of
    /// another type.
    pub(crate) fn retry(
        &mut self,
        failure: Failure,
        on_wrong_type: impl FnOnce() -> WrongTypeAction,
    ) -> Result<Retry, Failure> {
        let (repair, count) = match failure {
            Failure::NoScript => (Repair::LoadScripts, &mut self.loads),
            Failure::Reverify => (Repair::Verify, &mut self.verifications),
            Failure::WrongType(why) => return self.retry_wrong_type(why, on_wrong_type()),
            failure => return Err(failure),
        };
        *count += 1;
        if *count <= REPAIRS_MAX { Ok(Retry::After(repair)) } else { Err(failure) }
    }

    fn retry_wrong_type(&mut self, why: String, action: WrongTypeAction) -> Result<Retry, Failure> {
        let perhaps = match action {
            WrongTypeAction::Switch if self.switches < SWITCHES_MAX => {
                self.switches += 1;
                return Ok(Retry::Now);
            }
            WrongTypeAction::Verify(_) if !self.has_verified_for_type => {
                self.has_verified_for_type = true;
                return Ok(Retry::After(Repair::Verify));
            }
            WrongTypeAction::Switch => None,
            WrongTypeAction::Verify(perhaps) | WrongTypeAction::GiveUp(perhaps) => perhaps,
        };
        Err(Failure::WrongType(match perhaps {
            Some(perhaps) => format!("{why} (or it is a lock of the server's module: {perhaps})"),
            None => why,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound() -> ModuleBinding {
        ModuleBinding::Bound("0123456789abcdef".to_owned())
    }

    #[test]
    fn a_lock_of_the_scripts_is_remembered_until_the_module_has_it() {
        let (memory, now) = (DialectMemory::default(), Instant::now());
        assert_eq!(memory.choose(b"k", Verb::Renew), Dialect::Module);
        assert_eq!(
            memory.handle_wrong_type(b"k", Dialect::Module, &bound(), now),
            WrongTypeAction::Switch
        );
        // A command that was sent before that was known gets the same answer.
        assert_eq!(
            memory.handle_wrong_type(b"k", Dialect::Module, &bound(), now),
            WrongTypeAction::Switch
        );
        for verb in [Verb::Acquire, Verb::Renew, Verb::View] {
            assert_eq!(memory.choose_at(b"k", verb, now), Dialect::Scripts);
        }
        assert_eq!(memory.choose_at(b"other", Verb::Renew, now), Dialect::Module);
        assert_eq!(
            memory.handle_wrong_type(b"k", Dialect::Scripts, &bound(), now),
            WrongTypeAction::Switch
        );
        assert_eq!(memory.choose_at(b"k", Verb::Renew, now), Dialect::Module);
    }

    #[test]
    fn an_acquire_tries_the_module_again_and_nothing_else_does() {
        let (memory, now) = (DialectMemory::default(), Instant::now());
        memory.handle_wrong_type(b"k", Dialect::Module, &bound(), now);
        let later = now + TRY_AGAIN_AFTER;
        assert_eq!(memory.choose_at(b"k", Verb::Acquire, later), Dialect::Module);
        for verb in Verb::ALL.into_iter().filter(|verb| *verb != Verb::Acquire) {
            assert_eq!(memory.choose_at(b"k", verb, later), Dialect::Scripts);
        }
        memory.handle_wrong_type(b"k", Dialect::Module, &bound(), later);
        assert_eq!(memory.choose_at(b"k", Verb::Acquire, later), Dialect::Scripts, "not at once");
    }

    #[test]
    fn without_a_module_it_is_looked_for_unless_it_is_not_wanted() {
        let (memory, now) = (DialectMemory::default(), Instant::now());
        let turn = |module| memory.handle_wrong_type(b"k", Dialect::Scripts, &module, now);
        assert_eq!(turn(ModuleBinding::Missing), WrongTypeAction::Verify(None));
        assert_eq!(
            turn(ModuleBinding::Denied("no".to_owned())),
            WrongTypeAction::Verify(Some("no".to_owned()))
        );
        assert!(
            matches!(turn(ModuleBinding::Off), WrongTypeAction::GiveUp(Some(why)) if why.contains("off"))
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (memory, now) = (DialectMemory::default(), Instant::now());
        for number in 0..=KEYS_MAX {
            memory.handle_wrong_type(&number.to_le_bytes(), Dialect::Module, &bound(), now);
            assert!(lock(&memory.on_scripts).len() <= KEYS_MAX);
        }
    }

    fn wrong_type() -> Failure {
        Failure::WrongType("something else".to_owned())
    }

    #[test]
    fn a_key_of_another_type_in_both_dialects_is_given_up() {
        let mut budget = RetryBudget::default();
        for _ in 0..SWITCHES_MAX {
            assert_eq!(budget.retry(wrong_type(), || WrongTypeAction::Switch), Ok(Retry::Now));
        }
        assert_eq!(budget.retry(wrong_type(), || WrongTypeAction::Switch), Err(wrong_type()));
    }

    #[test]
    fn a_server_is_verified_once_to_find_another_dialect() {
        let mut budget = RetryBudget::default();
        let verify = Ok(Retry::After(Repair::Verify));
        assert_eq!(budget.retry(wrong_type(), || WrongTypeAction::Verify(None)), verify);
        assert_eq!(budget.retry(wrong_type(), || WrongTypeAction::Switch), Ok(Retry::Now));
        assert_eq!(budget.retry(wrong_type(), || WrongTypeAction::Verify(None)), Err(wrong_type()));
        // Verifications for other reasons are counted apart.
        assert_eq!(budget.retry(Failure::Reverify, || WrongTypeAction::Switch), verify);
    }

    #[test]
    fn the_error_says_why_there_is_no_other_dialect() {
        for action in [
            WrongTypeAction::Verify(Some("denied".to_owned())),
            WrongTypeAction::GiveUp(Some("denied".to_owned())),
        ] {
            let mut budget = RetryBudget { has_verified_for_type: true, ..RetryBudget::default() };
            let Err(Failure::WrongType(why)) = budget.retry(wrong_type(), || action) else {
                panic!("it is not given up");
            };
            assert!(why.starts_with("something else") && why.contains("denied"), "{why}");
        }
    }
}
