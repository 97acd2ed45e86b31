//! How a fault is written down. A stage has a list of them; to add one is to add an entry:
//!
//! ```text
//! Fault::new("stopped", |dice| {
//!     Blow::on("the server")
//!         .begin(|| server.pause())
//!         .lasting(dice.time(200, 4_000))
//!         .end(|| server.resume())
//! })
//! ```
//!
//! A promise that is not given under a fault is named with it, next to the reason. Nothing excuses a
//! fenced resource that was hurt.

use std::error::Error;
use std::time::Duration;

use taketurns_history::Guarantee;

use crate::dice::Dice;

/// What may fail here. If something does, it is the run that is worth nothing, and not the store.
pub(crate) type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;
/// How a step of a fault went.
pub(crate) type Done = Fallible<()>;

/// What a step of a fault may return: nothing, or whether it worked.
pub(crate) trait Outcome {
    fn done(self) -> Done;
}

impl Outcome for () {
    fn done(self) -> Done {
        Ok(())
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> Outcome for Result<(), E> {
    fn done(self) -> Done {
        self.map_err(Into::into)
    }
}

type Strike<'a> = Box<dyn Fn(&mut Dice) -> Blow<'a> + Send + Sync + 'a>;
type Step<'a> = Box<dyn FnOnce() -> Done + 'a>;

/// Something that may go wrong.
pub(crate) struct Fault<'a> {
    /// What it is called in the history.
    pub(crate) kind: &'static str,
    /// What is not promised while it lasts and until the longest lease after it.
    pub(crate) excuses: Vec<Guarantee>,
    strike: Strike<'a>,
}

/// A fault at one time: to whom, and for how long.
pub(crate) struct Blow<'a> {
    pub(crate) on: String,
    pub(crate) lasts: Duration,
    pub(crate) begin: Step<'a>,
    pub(crate) end: Step<'a>,
}

impl<'a> Fault<'a> {
    /// One that excuses nothing.
    pub(crate) fn new(
        kind: &'static str,
        strike: impl Fn(&mut Dice) -> Blow<'a> + Send + Sync + 'a,
    ) -> Self {
        Self { kind, excuses: Vec::new(), strike: Box::new(strike) }
    }

    /// These are not promised, for the reason that stands beside the call.
    pub(crate) fn excusing(mut self, excuses: &[Guarantee]) -> Self {
        assert!(!excuses.contains(&Guarantee::Fence), "a fence relies on nothing");
        self.excuses.extend(excuses);
        self
    }

    pub(crate) fn strike(&self, dice: &mut Dice) -> Blow<'a> {
        (self.strike)(dice)
    }
}

impl<'a> Blow<'a> {
    /// One that does nothing yet, and is over at once.
    pub(crate) fn on(target: impl Into<String>) -> Self {
        let nothing = || Box::new(|| Ok(()));
        Self { on: target.into(), lasts: Duration::ZERO, begin: nothing(), end: nothing() }
    }

    /// What goes wrong.
    pub(crate) fn begin<O: Outcome>(mut self, begin: impl FnOnce() -> O + 'a) -> Self {
        self.begin = Box::new(|| begin().done());
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
    pub(crate) fn end<O: Outcome>(mut self, end: impl FnOnce() -> O + 'a) -> Self {
        self.end = Box::new(|| end().done());
        self
    }
}
