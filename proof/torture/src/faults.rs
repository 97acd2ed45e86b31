//! What a fault is, and how to add one.
//!
//! Each file under [`stages`](crate::stages) is one kind of store with the faults that may happen to it. To add a
//! fault, add an entry to a list of faults in the file of that store. An entry says three things: what goes
//! wrong, for how long, and how it is mended. A fault that may happen to every server is an entry in four files:
//! `single.rs` (Redis, Valkey and the module; `self.module` tells them apart), `sentinel.rs`, `cluster.rs` and
//! `quorum.rs`.
//!
//! ```text
//! StoreFault::new("server stopped", move |dice| {   // its name in the history and in summary.txt
//!     Injection::on("the server")                   // to whom it happens
//!         .begin(|| self.server.pause())            // 1. what goes wrong
//!         .lasting(dice.time(200, 4_000))           // 2. for how long, in ms, before it is mended
//!         .end(|| self.server.resume())             // 3. how it is mended
//! })
//! ```
//!
//! Without `.lasting(…)` it is mended at once. `.settling(time)`, after `.end(…)`, is for a store that needs some time
//! once the fault is mended: until then no other fault comes, and the history does not call the fault mended.
//!
//! One sentence of the docs names the faults, and has to follow: "Torture" in `docs/proof.md`, under "How it is tried".
//!
//! The rest follows by itself: [`nemesis`](crate::nemesis) injects every fault of the list once, in an order
//! that the seed decides, before any comes again. Faults of the way to a server are in `stages/network.rs`, for
//! every store that has a proxy. `cargo xtask torture --engine ENGINE --seconds 60` tries it, and
//! `summary.txt` says how often it happened.
//!
//! If a guarantee does not hold under a fault, name it with `.excusing(&[…])`, and say why in a comment beside it.
//! Nothing excuses a fenced resource that was written to by a stale holder.

use std::error::Error;
use std::time::Duration;

use taketurns_history::Guarantee;

use crate::dice::RunDice;

/// What may fail while a run is set up or a fault is injected. Then the run is worth nothing: it says nothing of the
/// store.
pub(crate) type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;
/// How a step of a fault went.
pub(crate) type StepResult = Fallible<()>;

/// What a step of a fault may return: nothing, or whether it worked.
pub(crate) trait IntoStepResult {
    fn into_step_result(self) -> StepResult;
}

impl IntoStepResult for () {
    fn into_step_result(self) -> StepResult {
        Ok(())
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> IntoStepResult for Result<(), E> {
    fn into_step_result(self) -> StepResult {
        self.map_err(Into::into)
    }
}

type InjectFn<'a> = Box<dyn Fn(&mut RunDice) -> Injection<'a> + Send + Sync + 'a>;
type StepFn<'a> = Box<dyn FnOnce() -> StepResult + 'a>;

/// A kind of fault that may happen to a store.
pub(crate) struct StoreFault<'a> {
    /// What it is called in the history.
    pub(crate) kind: &'static str,
    /// What is not promised while it lasts and until the longest lease after it.
    pub(crate) excuses: Vec<Guarantee>,
    inject: InjectFn<'a>,
}

/// One occurrence of a fault: to whom it happens, and for how long.
pub(crate) struct Injection<'a> {
    pub(crate) on: String,
    pub(crate) lasts: Duration,
    pub(crate) begin: StepFn<'a>,
    pub(crate) end: StepFn<'a>,
}

impl<'a> StoreFault<'a> {
    /// One that excuses nothing.
    pub(crate) fn new(
        kind: &'static str,
        inject: impl Fn(&mut RunDice) -> Injection<'a> + Send + Sync + 'a,
    ) -> Self {
        Self { kind, excuses: Vec::new(), inject: Box::new(inject) }
    }

    /// These are not promised, for the reason that stands beside the call.
    pub(crate) fn excusing(mut self, excuses: &[Guarantee]) -> Self {
        assert!(!excuses.contains(&Guarantee::Fence), "a fence relies on nothing");
        self.excuses.extend(excuses);
        self
    }

    pub(crate) fn inject(&self, dice: &mut RunDice) -> Injection<'a> {
        (self.inject)(dice)
    }
}

impl<'a> Injection<'a> {
    /// One that does nothing yet, and is over at once.
    pub(crate) fn on(target: impl Into<String>) -> Self {
        let nothing = || Box::new(|| Ok(()));
        Self { on: target.into(), lasts: Duration::ZERO, begin: nothing(), end: nothing() }
    }

    /// What goes wrong.
    pub(crate) fn begin<O: IntoStepResult>(mut self, begin: impl FnOnce() -> O + 'a) -> Self {
        self.begin = Box::new(|| begin().into_step_result());
        self
    }

    /// For how long.
    pub(crate) fn lasting(mut self, lasts: Duration) -> Self {
        self.lasts = lasts;
        self
    }

    /// For how long it is not over yet once it is mended: no other fault comes meanwhile.
    pub(crate) fn settling(mut self, time: Duration) -> Self {
        let end = self.end;
        self.end = Box::new(move || {
            end()?;
            std::thread::sleep(time);
            Ok(())
        });
        self
    }

    /// How it is mended.
    pub(crate) fn end<O: IntoStepResult>(mut self, end: impl FnOnce() -> O + 'a) -> Self {
        self.end = Box::new(|| end().into_step_result());
        self
    }
}
