//! `taketurns top`: the locks of a store, live in a terminal.
//!
//! ```text
//!   keys ──► App ──► UserAction ──► StoreReader ──► store     a thread reads keys, another queries the store;
//!             ▲                          │                    neither waits for the other
//!             └──── StoreReply ◄─────────┘
//!             └──► draw                              what is visible, and no more
//! ```
//!
//! [`app`] decides, [`draw`] draws, both without I/O. [`schedule`] sees to it that looking is no load.

mod app;
mod details;
mod draw;
mod keys;
mod list;
mod order;
mod row;
mod schedule;
mod screen;
mod store_reader;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use ratatui::crossterm::event::Event;
use rustix::process::Signal;
use taketurns::Locks;
use tokio::signal::unix::{self, SignalKind};
use tokio::time::{sleep_until, timeout};

use self::app::{App, UserAction};
use self::schedule::Schedule;
use self::screen::Screen;
use self::store_reader::{StoreQuery, StoreReader, StoreReply};
use crate::exit::{self, ExitFailure};
use crate::output;
use crate::text;
use crate::warnings::WarningBuffer;

/// The screen says how old the picture is, and so can't be older than this itself.
const TICK: Duration = Duration::from_millis(500);
/// How long the end waits for a break that is under way.
const BREAK_MAX: Duration = Duration::from_secs(10);

/// What to show.
pub(crate) struct TopOptions {
    /// The store as people know it.
    pub(crate) store: String,
    pub(crate) pattern: String,
    pub(crate) every: Duration,
}

/// Shows the locks until the user has seen enough.
pub(crate) async fn run(locks: Locks, plan: TopOptions) -> Result<u8, ExitFailure> {
    let mut signals = TerminalSignals::listen()?;
    let mut top = Top {
        app: App::new(plan.store, plan.every),
        pattern: plan.pattern,
        reader: StoreReader::start(locks)?,
        list: Schedule::new(plan.every, Instant::now()),
        one: Schedule::new(plan.every, Instant::now()),
        asked: false,
        breaking: 0,
        warnings: WarningBuffer::begin(),
    };
    let mut screen = Screen::enter()?;
    let ended = top.show(&mut screen, &mut signals).await;
    drop(screen);
    top.finish().await?;
    ended
}

struct Top {
    app: App,
    pattern: String,
    reader: StoreReader,
    /// Looks at all locks, and at the one that is open.
    list: Schedule,
    one: Schedule,
    /// The user wants a look, also while pausing.
    asked: bool,
    /// How many breaks are under way.
    breaking: usize,
    /// What the library warns of would be written over the screen.
    warnings: WarningBuffer,
}

impl Top {
    async fn show(
        &mut self,
        screen: &mut Screen,
        signals: &mut TerminalSignals,
    ) -> Result<u8, ExitFailure> {
        let mut events = screen::events();
        loop {
            let now = Instant::now();
            self.look(now);
            for warning in self.warnings.take() {
                self.app.tell(warning, now);
            }
            self.app.interval =
                if self.app.open.is_some() { self.one.interval() } else { self.list.interval() };
            screen.draw(|frame| {
                self.app.fit(draw::page(frame.area()));
                draw::draw(frame, &self.app, now);
            })?;
            let next = self.due().unwrap_or(now + TICK).min(now + TICK);
            tokio::select! {
                biased;
                signal = signals.next() => match signal {
                    Some(signal) => return Err(ended_by(signal)),
                    None => screen.resume()?,
                },
                event = events.recv() => {
                    let event = event.ok_or_else(screen::gone)?;
                    match self.event(&event) {
                        Some(UserAction::Quit) => return Ok(0),
                        Some(UserAction::Suspend) => screen.suspend()?,
                        Some(_) | None => {}
                    }
                }
                report = self.reader.report() => {
                    if let Some(report) = report {
                        self.hear(report);
                    }
                }
                () = sleep_until(next.into()) => {}
            }
        }
    }

    /// Looks at what is on the screen, if that is due.
    fn look(&mut self, now: Instant) {
        if self.app.paused && !self.asked {
            return;
        }
        let wish = match &self.app.open {
            Some(open) if self.one.begin(now) => StoreQuery::Inspect(open.row.name.clone()),
            None if self.list.begin(now) => StoreQuery::List(self.pattern.clone()),
            _ => return,
        };
        self.asked = false;
        self.reader.ask(wish);
    }

    fn due(&self) -> Option<Instant> {
        if self.app.paused && !self.asked {
            return None;
        }
        if self.app.open.is_some() { self.one.due() } else { self.list.due() }
    }

    fn event(&mut self, event: &Event) -> Option<UserAction> {
        let now = Instant::now();
        let action = self.app.key(keys::key(event)?, now);
        match &action {
            Some(UserAction::Look) => {
                self.asked = true;
                self.one.hurry(now);
                if self.app.open.is_none() {
                    self.list.hurry(now);
                }
            }
            Some(UserAction::Break(asked)) => {
                self.breaking += 1;
                self.app.tell(format_args!("breaking {} …", asked.name), now);
                self.reader.ask(StoreQuery::Break(asked.clone()));
            }
            _ => {}
        }
        action
    }

    fn hear(&mut self, report: StoreReply) {
        let now = Instant::now();
        match report {
            StoreReply::Listed(listed) => {
                self.list.end(now, listed.is_ok());
                match listed {
                    Ok(listed) => self.app.see(listed, now),
                    Err(error) => self.app.fail(error, now),
                }
            }
            StoreReply::Inspected(name, view) => {
                self.one.end(now, view.is_ok());
                match view {
                    Ok(view) => self.app.see_one(&name, view, now),
                    Err(error) => self.app.fail(error, now),
                }
            }
            StoreReply::Broken(asked, outcome) => {
                self.breaking -= 1;
                self.app.broke(&asked, &outcome, now);
                self.one.hurry(now);
                self.list.hurry(now);
            }
        }
    }

    /// A break that was confirmed is carried out, also if the user leaves at once.
    async fn finish(&mut self) -> Result<(), ExitFailure> {
        while self.breaking > 0 {
            match timeout(BREAK_MAX, self.reader.report()).await {
                Ok(Some(StoreReply::Broken(asked, outcome))) => {
                    self.breaking -= 1;
                    output::text(text::escaped(&app::told(&asked, &outcome)))?;
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => {
                    let message = "the store has not answered whether the lock is broken";
                    return Err(ExitFailure::new(exit::UNAVAILABLE, message));
                }
            }
        }
        Ok(())
    }
}

fn ended_by(signal: Signal) -> ExitFailure {
    let name = if signal == Signal::HUP { "SIGHUP" } else { "SIGTERM" };
    ExitFailure::signal(signal, false, format_args!("ended by {name}"))
}

/// The signals that require restoring or redrawing the terminal.
struct TerminalSignals {
    term: unix::Signal,
    hup: unix::Signal,
    cont: unix::Signal,
}

impl TerminalSignals {
    fn listen() -> Result<Self, ExitFailure> {
        let listen = |signal: Signal| {
            unix::signal(SignalKind::from_raw(signal.as_raw())).map_err(|error| {
                ExitFailure::new(
                    exit::UNAVAILABLE,
                    format_args!("signals can't be handled: {error}"),
                )
            })
        };
        Ok(Self {
            term: listen(Signal::TERM)?,
            hup: listen(Signal::HUP)?,
            cont: listen(Signal::CONT)?,
        })
    }

    /// What to end by; nothing if we were stopped, and go on.
    async fn next(&mut self) -> Option<Signal> {
        tokio::select! {
            _ = self.term.recv() => Some(Signal::TERM),
            _ = self.hup.recv() => Some(Signal::HUP),
            _ = self.cont.recv() => None,
        }
    }
}
