//! What is said to a server: one step of a lock, by its scripts or by its module.
//!
//! ```text
//!   LockStep (keys, query) ─► dialect: module or scripts? ─► EVALSHA sha keys… args…
//!                                                         └► FENCELOCK.DO key id verb args
//! ```
//!
//! A [`Backend`] is what the handshake found out about one server: the hashes of the scripts that are bound to its
//! run, and the id by which its module knows the same binding. Nothing here does I/O.

mod dialect;

use std::time::Instant;

use redis::Cmd;
use taketurns_core::Request;
use taketurns_core::wire::{StepArgs, Verb, encode_request_to, sha1_hex};

use super::connection::command::{CommandBuffer, WriteCommand};
use super::scripts::{ScriptBinding, TimeFrom, text};
pub(crate) use dialect::{Dialect, DialectMemory, Repair, Retry, RetryBudget, WrongTypeAction};

/// The command for a step by the module: key, id, verb and arguments follow.
pub(crate) const DO: &str = "FENCELOCK.DO";

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

    /// Writes a step of the lock under these keys.
    fn write(
        &self,
        dialect: Dialect,
        verb: Verb,
        keys: &StepKeys,
        args: &StepArgs,
        out: &mut CommandBuffer,
    ) {
        match (dialect, &self.module) {
            (Dialect::Module, ModuleBinding::Bound(id)) => {
                write_module_step(id, verb, &keys.lock, args, out);
            }
            _ => self.write_script(verb, keys, args, out),
        }
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
    /// In which dialect this server has to be asked now.
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

    fn encode(self, args: &mut StepArgs) {
        match self {
            Self::Step(request) => encode_request_to(args, request),
            Self::View(waiters_max) => args.push_number(waiters_max as u64),
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
        out.with_args(
            |args| self.query.encode(args),
            |out, args| backend.write(dialect, self.query.verb(), &self.keys, args, out),
        );
    }

    fn handle_wrong_type(&self, backend: &Backend, dialect: Dialect) -> WrongTypeAction {
        self.dialects.handle_wrong_type(&self.keys.lock, dialect, &backend.module, Instant::now())
    }
}
