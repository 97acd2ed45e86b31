//! The signals that are meant for the child: given up on while there is none, forwarded to it later.

use std::fmt::Display;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::child;
use crate::exit::{self, ExitFailure};
use crate::terminal::Terminal;

const FORWARDED: [(Signal, &str); 6] = [
    (Signal::INT, "SIGINT"),
    (Signal::TERM, "SIGTERM"),
    (Signal::HUP, "SIGHUP"),
    (Signal::QUIT, "SIGQUIT"),
    (Signal::USR1, "SIGUSR1"),
    (Signal::USR2, "SIGUSR2"),
];

/// Is it one that programs end by, unless they have other plans?
pub(crate) fn ends(signal: Signal) -> bool {
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].contains(&signal)
}

/// What comes in for us and for the child.
pub(crate) struct Signals {
    forwarded: Vec<(Signal, &'static str, unix::Signal)>,
    changes: [unix::Signal; 2],
}

impl Signals {
    /// Listens from now on. A signal that was ignored when we were started stays ignored.
    pub(crate) fn listen() -> Result<Self, ExitFailure> {
        Self::try_listen().map_err(|error| {
            ExitFailure::new(exit::UNAVAILABLE, format_args!("signals can't be handled: {error}"))
        })
    }

    fn try_listen() -> io::Result<Self> {
        let mut forwarded = Vec::new();
        for (signal, name) in FORWARDED {
            if !child::is_ignored(signal) {
                let stream = unix::signal(SignalKind::from_raw(signal.as_raw()))?;
                forwarded.push((signal, name, stream));
            }
        }
        let listen = |signal: Signal| unix::signal(SignalKind::from_raw(signal.as_raw()));
        Ok(Self { forwarded, changes: [listen(Signal::CHILD)?, listen(Signal::CONT)?] })
    }

    /// The next signal to pass on, and its name.
    pub(crate) async fn next(&mut self) -> (Signal, &'static str) {
        poll_fn(|context| self.poll_forwarded(context)).await
    }

    /// As `next`, and also `None` when a child has changed its state or we were continued.
    pub(crate) async fn next_or_change(&mut self) -> Option<(Signal, &'static str)> {
        poll_fn(|context| {
            if let Poll::Ready(forwarded) = self.poll_forwarded(context) {
                return Poll::Ready(Some(forwarded));
            }
            // Both are polled, so that both wake us.
            let [changed, continued] =
                self.changes.each_mut().map(|stream| stream.poll_recv(context).is_ready());
            if changed || continued { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }

    fn poll_forwarded(&mut self, context: &mut Context<'_>) -> Poll<(Signal, &'static str)> {
        for (signal, name, stream) in &mut self.forwarded {
            if stream.poll_recv(context).is_ready() {
                return Poll::Ready((*signal, *name));
            }
        }
        Poll::Pending
    }

    /// Waits for the work unless a signal comes first: then it is dropped, which gives up whatever
    /// place it had, and the program ends as after that signal. `given_up` is what the user is told.
    pub(crate) async fn unless<T>(
        &mut self,
        given_up: impl Display,
        work: impl Future<Output = T>,
    ) -> Result<T, ExitFailure> {
        tokio::select! {
            biased;
            (signal, name) = self.next() => {
                let message = format_args!("{given_up} on {name}");
                Err(ExitFailure::signal(signal, Terminal::is_ours_now(), message))
            }
            done = work => Ok(done),
        }
    }
}
