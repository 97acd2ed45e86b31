//! The signals that end the wait for the lock, and are forwarded to the child while one runs.

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

/// Returns whether the signal ends a program by default.
pub(crate) fn ends(signal: Signal) -> bool {
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].contains(&signal)
}

/// The signals that this program handles.
pub(crate) struct Signals {
    forwarded: Vec<(Signal, &'static str, unix::Signal)>,
    changes: [unix::Signal; 2],
}

impl Signals {
    /// Installs the handlers. A signal that was ignored at the start of the program stays ignored.
    pub(crate) fn listen() -> Result<Self, ExitFailure> {
        Self::try_listen().map_err(|error| {
            ExitFailure::new(
                exit::UNAVAILABLE,
                format_args!("can't install signal handlers: {error}"),
            )
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

    /// Waits for the next signal to forward, and returns it with its name.
    pub(crate) async fn next(&mut self) -> (Signal, &'static str) {
        poll_fn(|context| self.poll_forwarded(context)).await
    }

    /// Like `next`, but returns `None` when a child has changed its state or this program was continued.
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

    /// Runs the work unless a signal comes first. Then the work is dropped, which leaves the queue, and the
    /// program ends as after that signal with the message `given_up`.
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
