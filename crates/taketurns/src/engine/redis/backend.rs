//! What is said to a server: one step of a lock, by its scripts or by its module.
//!
//! ```text
//!   LockStep (keys, query) ─► dialect: module or scripts? ─► EVALSHA sha keys… args…
//!                                                         └► FENCELOCK.DO key id verb args
//! ```
//!
//! A [`Backend`] is what the handshake found out about one server: the hashes of the scripts that are bound to its
//! run, and the id by which its module knows the same binding. Nothing here does I/O.
//!
//! In which dialect a lock is asked for:
//!
//! ```text
//!             no module ──► scripts ── WRONGTYPE ─► verify: has the module come meanwhile?
//!                             │  ▲
//!    WRONGTYPE: the module    │  │ WRONGTYPE: the scripts have the lock, and it is in use.
//!    has it by now: forget    ▼  │ Remembered
//!                           module
//! ```
//!
//! A request that is answered with WRONGTYPE was not carried out, so it can be sent in the other dialect. The
//! module takes over what the scripts have left idle, so an acquire tries the module again now and then.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis::Cmd;
use taketurns_core::Request;
use taketurns_core::wire::{StepArgs, Verb, encode_request_to, sha1_hex};

use super::connection::failure::Failure;
use super::connection::{CommandBuffer, WriteCommand};
use super::scripts::{ScriptBinding, TimeFrom, text};
use crate::sync::lock;

/// The command for a step by the module: key, id, verb and arguments follow.
pub(crate) const DO: &str = "FENCELOCK.DO";

/// An acquire tries the module again after this time: one more round trip for one caller.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// When there are more, all are forgotten: one more round trip for each.
const KEYS_MAX: usize = 16_384;

/// The keys that a step is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepKeys {
    pub(crate) lock: Vec<u8>,
    /// Those of a foreign protocol, if one is used.
    pub(crate) foreign: Vec<Vec<u8>>,
}

/// The module as one run of a server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModuleBinding {
    /// It is there, and knows our binding by this id.
    Bound(String),
    Missing,
    /// It is there, but this user may not use it.
    Denied(String),
    /// The URL turns it off.
    Off,
}

/// The scripts, and the module, as one run of a server knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Backend {
    pub(crate) binding: ScriptBinding,
    /// In the order of [`Verb::ALL`].
    shas: Vec<String>,
    /// Scripts look at the marker themselves, under this key.
    pub(crate) marker_key: Option<Vec<u8>>,
    pub(crate) module: ModuleBinding,
    /// What the marker has to say still after an acquire on a server whose scripts can't look.
    pub(crate) to_confirm: Option<String>,
}

impl Backend {
    pub(crate) fn new(binding: ScriptBinding) -> Self {
        let sha = |script| sha1_hex(text(script, &binding, TimeFrom::Server));
        let shas = Verb::ALL.into_iter().map(sha).collect();
        Self { binding, shas, marker_key: None, module: ModuleBinding::Off, to_confirm: None }
    }

    /// Bound to nothing but a run.
    #[cfg(test)]
    pub(crate) fn of_run(run: &str) -> Self {
        let none = String::new;
        let binding = ScriptBinding {
            run: run.to_owned(),
            known: none(),
            mark: none(),
            until_ms: 0,
            max_lease_ms: 0,
            channel: none(),
            wire: None,
        };
        Self::new(binding)
    }

    #[cfg(test)]
    pub(crate) fn run(&self) -> &str {
        &self.binding.run
    }

    /// Does this server grant nothing at that time, and can its scripts not see whether it still is
    /// what it was?
    pub(crate) fn is_in_quarantine(&self, now_ms: u64) -> bool {
        self.to_confirm.is_some() && now_ms < self.binding.until_ms
    }

    pub(crate) fn has_module(&self) -> bool {
        matches!(self.module, ModuleBinding::Bound(_))
    }

    /// The lock's key comes first, then the marker's, then those of a foreign protocol.
    fn write_script(&self, verb: Verb, keys: &StepKeys, args: &StepArgs, out: &mut CommandBuffer) {
        let count = 1 + usize::from(self.marker_key.is_some()) + keys.foreign.len();
        out.begin(3 + count + args.count());
        out.word(b"EVALSHA");
        out.word(self.shas[verb as usize].as_bytes());
        out.number(count);
        let keys = std::iter::once(&keys.lock).chain(&self.marker_key).chain(&keys.foreign);
        keys.for_each(|key| out.word(key));
        args.iter().for_each(|arg| out.word(arg));
    }
}

fn write_module_step(id: &str, verb: Verb, key: &[u8], args: &StepArgs, out: &mut CommandBuffer) {
    out.begin(4 + usize::from(args.count() > 0));
    out.word(DO.as_bytes());
    out.word(key);
    out.word(id.as_bytes());
    out.word(verb.name().as_bytes());
    // All arguments in one word, since each word costs the server time. No argument has a tab in it.
    if args.count() > 0 {
        out.joined(args);
    }
}

/// A command for the server that has a key. It is written when that server is known.
pub(crate) trait RoutedCommand: Send + Sync {
    /// Returns the dialect for the next request to this server.
    fn dialect(&self, _backend: &Backend) -> Dialect {
        Dialect::Scripts
    }

    /// Writes the command for this server.
    fn write(&self, backend: &Backend, dialect: Dialect, out: &mut CommandBuffer);

    /// The server answered that the key has another type.
    fn handle_wrong_type(&self, _backend: &Backend, _dialect: Dialect) -> WrongTypeAction {
        WrongTypeAction::GiveUp(None)
    }
}

/// A command that is the same in both dialects.
impl<F: Fn(&Backend) -> Cmd + Send + Sync> RoutedCommand for F {
    fn write(&self, backend: &Backend, _dialect: Dialect, out: &mut CommandBuffer) {
        self(backend).write(out);
    }
}

/// A command for one server, in one dialect.
pub(crate) struct BoundCommand<'a> {
    pub(crate) command: &'a dyn RoutedCommand,
    pub(crate) backend: &'a Backend,
    pub(crate) dialect: Dialect,
}

impl WriteCommand for BoundCommand<'_> {
    fn write(&self, out: &mut CommandBuffer) {
        self.command.write(self.backend, self.dialect, out);
    }
}

/// What is asked about one lock.
#[derive(Clone, Copy)]
pub(crate) enum StepQuery<'a> {
    Step(&'a Request),
    /// What people see of it, with at most this many waiters.
    View(usize),
}

impl StepQuery<'_> {
    fn verb(self) -> Verb {
        match self {
            Self::Step(request) => Verb::of(request),
            Self::View(_) => Verb::View,
        }
    }
}

/// One query about one lock.
pub(crate) struct LockStep<'a> {
    pub(crate) dialects: &'a DialectMemory,
    pub(crate) keys: StepKeys,
    pub(crate) query: StepQuery<'a>,
}

impl RoutedCommand for LockStep<'_> {
    fn dialect(&self, backend: &Backend) -> Dialect {
        match backend.has_module() {
            true => self.dialects.choose(&self.keys.lock, self.query.verb()),
            false => Dialect::Scripts,
        }
    }

    fn write(&self, backend: &Backend, dialect: Dialect, out: &mut CommandBuffer) {
        let (verb, mut args) = (self.query.verb(), out.take_args());
        match self.query {
            StepQuery::Step(request) => encode_request_to(&mut args, request),
            StepQuery::View(waiters_max) => args.push_number(waiters_max as u64),
        }
        match (dialect, &backend.module) {
            (Dialect::Module, ModuleBinding::Bound(id)) => {
                write_module_step(id, verb, &self.keys.lock, &args, out);
            }
            _ => backend.write_script(verb, &self.keys, &args, out),
        }
        out.keep_args(args);
    }

    fn handle_wrong_type(&self, backend: &Backend, dialect: Dialect) -> WrongTypeAction {
        self.dialects.handle_wrong_type(&self.keys.lock, dialect, &backend.module, Instant::now())
    }
}

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
    fn choose(&self, key: &[u8], verb: Verb) -> Dialect {
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
    fn handle_wrong_type(
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

/// What must happen before a command can be sent again.
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
mod tests;
