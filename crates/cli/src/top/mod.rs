//! `taketurns top`: the locks of a store, live in a terminal.
//!
//! ```text
//!   keys ──► App ──► Action ──► Looker ──► store     a thread reads keys, another asks the store;
//!             ▲                   │                  between them nothing waits
//!             └──── Report ◄──────┘
//!             └──► draw                              what is visible, and no more
//! ```
//!
//! [`app`] decides, [`draw`] draws, both without I/O. [`schedule`] sees to it that looking is no load.

mod app;
mod draw;
mod keys;
mod list;
mod look;
mod open;
mod order;
mod row;
mod schedule;
mod screen;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use ratatui::crossterm::event::Event;
use rustix::process::Signal;
use taketurns::Locks;
use tokio::signal::unix::{self, SignalKind};
use tokio::time::{sleep_until, timeout};

use self::app::{Action, App};
use self::look::{Looker, Report, Wish};
use self::schedule::Schedule;
use self::screen::Screen;
use crate::exit::{self, Failure};
use crate::output;
use crate::warnings::Kept;

/// The screen says how old the picture is, and so can't be older than this itself.
const TICK: Duration = Duration::from_millis(500);
/// How long the end waits for a break that is under way.
const BREAK_MAX: Duration = Duration::from_secs(10);

/// What to show.
pub(crate) struct Plan {
    /// The store as people know it.
    pub(crate) store: String,
    pub(crate) pattern: String,
    pub(crate) every: Duration,
}

/// Shows the locks until the user has seen enough.
pub(crate) async fn run(locks: Locks, plan: Plan) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    let mut top = Top {
        app: App::new(plan.store, plan.every),
        pattern: plan.pattern,
        looker: Looker::start(locks)?,
        list: Schedule::new(plan.every, Instant::now()),
        one: Schedule::new(plan.every, Instant::now()),
        asked: false,
        breaking: 0,
        kept: Kept::begin(),
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
    looker: Looker,
    /// Looks at all locks, and at the one that is open.
    list: Schedule,
    one: Schedule,
    /// The user wants a look, also while pausing.
    asked: bool,
    /// How many breaks are under way.
    breaking: usize,
    /// What the library warns of would be written over the screen.
    kept: Kept,
}

impl Top {
    async fn show(&mut self, screen: &mut Screen, signals: &mut Signals) -> Result<u8, Failure> {
        let mut events = screen::events();
        loop {
            let now = Instant::now();
            self.look(now);
            for warning in self.kept.take() {
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
                        Some(Action::Quit) => return Ok(0),
                        Some(Action::Suspend) => screen.suspend()?,
                        Some(_) | None => {}
                    }
                }
                report = self.looker.report() => {
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
            Some(open) if self.one.begin(now) => Wish::Inspect(open.row.name.clone()),
            None if self.list.begin(now) => Wish::List(self.pattern.clone()),
            _ => return,
        };
        self.asked = false;
        self.looker.ask(wish);
    }

    fn due(&self) -> Option<Instant> {
        if self.app.paused && !self.asked {
            return None;
        }
        if self.app.open.is_some() { self.one.due() } else { self.list.due() }
    }

    fn event(&mut self, event: &Event) -> Option<Action> {
        let now = Instant::now();
        let action = self.app.key(keys::key(event)?, now);
        match &action {
            Some(Action::Look) => {
                self.asked = true;
                self.one.hurry(now);
                if self.app.open.is_none() {
                    self.list.hurry(now);
                }
            }
            Some(Action::Break(asked)) => {
                self.breaking += 1;
                self.app.tell(format_args!("breaking {} …", asked.name), now);
                self.looker.ask(Wish::Break(asked.clone()));
            }
            _ => {}
        }
        action
    }

    fn hear(&mut self, report: Report) {
        let now = Instant::now();
        match report {
            Report::Listed(listed) => {
                self.list.end(now, listed.is_ok());
                match listed {
                    Ok(listed) => self.app.see(listed, now),
                    Err(error) => self.app.fail(error, now),
                }
            }
            Report::Inspected(name, view) => {
                self.one.end(now, view.is_ok());
                match view {
                    Ok(view) => self.app.see_one(&name, view, now),
                    Err(error) => self.app.fail(error, now),
                }
            }
            Report::Broken(asked, outcome) => {
                self.breaking -= 1;
                self.app.broke(&asked, &outcome, now);
                self.one.hurry(now);
                self.list.hurry(now);
            }
        }
    }

    /// A break that was confirmed is carried out, also if the user leaves at once.
    async fn finish(&mut self) -> Result<(), Failure> {
        while self.breaking > 0 {
            match timeout(BREAK_MAX, self.looker.report()).await {
                Ok(Some(Report::Broken(asked, outcome))) => {
                    self.breaking -= 1;
                    output::text(exit::one_line(&app::told(&asked, &outcome)))?;
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => {
                    let message = "the store has not answered whether the lock is broken";
                    return Err(Failure::new(exit::UNAVAILABLE, message));
                }
            }
        }
        Ok(())
    }
}

fn ended_by(signal: Signal) -> Failure {
    let name = if signal == Signal::HUP { "SIGHUP" } else { "SIGTERM" };
    Failure::signal(signal, false, format_args!("ended by {name}"))
}

/// The signals after which the terminal has to be seen to.
struct Signals {
    term: unix::Signal,
    hup: unix::Signal,
    cont: unix::Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen = |signal: Signal| {
            unix::signal(SignalKind::from_raw(signal.as_raw())).map_err(|error| {
                Failure::new(exit::UNAVAILABLE, format_args!("signals can't be handled: {error}"))
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
