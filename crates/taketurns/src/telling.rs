//! The named spans and events of `tracing`, and the targets of all events. Names and targets are stable, because people
//! filter by them. No field is ever an owner, which is a secret. `docs/metrics.md` lists them.

#[cfg(feature = "redis")]
use std::fmt::Display;

use taketurns_core::session::{Hold, LossCause, SessionEvent};
use taketurns_core::{Ask, Kind, Name, Token};
use tracing::field::Empty;
use tracing::{Span, debug, debug_span};

use crate::clock::local_us;
use crate::meter::{self, HoldOutcome, WaitMeasure, WaitOutcome};

/// The targets of log events. None is the path of a module, because paths may change.
pub(crate) mod target {
    /// Spans, and successful events about one lock.
    pub(crate) const TAKETURNS: &str = "taketurns";
    /// What an acquire did with its lock.
    pub(crate) const ACQUIRE: &str = "taketurns::acquire";
    /// The client and its store as a whole.
    pub(crate) const CLIENT: &str = "taketurns::client";
    /// Connecting.
    pub(crate) const CONNECT: &str = "taketurns::connect";
    /// Leader election.
    pub(crate) const ELECTION: &str = "taketurns::election";
    /// The file engine.
    #[cfg(feature = "file")]
    pub(crate) const FILE: &str = "taketurns::file";
    /// Locks that are held: renewals, losses.
    pub(crate) const HELD: &str = "taketurns::held";
    /// The PostgreSQL engine.
    #[cfg(feature = "postgres")]
    pub(crate) const POSTGRES: &str = "taketurns::postgres";
    /// The nodes of a quorum.
    #[cfg(feature = "redis")]
    pub(crate) const QUORUM: &str = "taketurns::quorum";
    /// Servers: which one is used, wake-ups, quarantine.
    #[cfg(feature = "redis")]
    pub(crate) const REDIS: &str = "taketurns::redis";
    /// A server whose settings may cost a client its lock.
    #[cfg(feature = "redis")]
    pub(crate) const SETUP: &str = "taketurns::setup";
    /// Places in queues.
    pub(crate) const WAITS: &str = "taketurns::waits";
}

/// The span of one acquire, and the measurement of its wait.
pub(crate) struct AcquireSpan {
    kind: Kind,
    /// Set from the first poll on.
    span: Option<Span>,
    wait: Option<WaitMeasure>,
}

impl AcquireSpan {
    pub(crate) fn new(ask: &Ask) -> Self {
        Self { kind: ask.kind(), span: None, wait: None }
    }

    /// Returns the span of the acquire. The first call begins it.
    pub(crate) fn enter(&mut self, lock: &Name) -> Span {
        let Self { kind, span, wait } = self;
        let span = span.get_or_insert_with(|| {
            *wait = Some(WaitMeasure::begin(*kind));
            debug_span!(
                target: target::TAKETURNS,
                "taketurns.acquire",
                %lock,
                kind = kind.word(),
                outcome = Empty,
                token = Empty,
                waited_ms = Empty,
            )
        });
        span.clone()
    }

    /// Records that the acquire was granted, and how long it waited.
    pub(crate) fn granted(&mut self, lock: &Name, token: Option<Token>, waited_us: u64) {
        let waited_ms = self.end(WaitOutcome::Granted, waited_us);
        let token = token.map(Token::raw);
        let Some(span) = &self.span else { return };
        span.record("token", token);
        debug!(
            name: "taketurns.granted",
            target: target::TAKETURNS,
            parent: span,
            %lock,
            token,
            waited_ms,
            "granted"
        );
    }

    /// Records that the acquire ended without a grant. Does nothing after the end was recorded.
    pub(crate) fn over(&mut self, how: WaitOutcome, began_us: u64) {
        if self.wait.is_some() {
            self.end(how, local_us().saturating_sub(began_us));
        }
    }

    fn end(&mut self, how: WaitOutcome, waited_us: u64) -> u64 {
        if let Some(wait) = self.wait.take() {
            wait.end(how, waited_us);
        }
        let waited_ms = waited_us / 1_000;
        if let Some(span) = &self.span {
            span.record("outcome", how.word());
            span.record("waited_ms", waited_ms);
        }
        waited_ms
    }
}

/// Records that a lock was released that was held until then.
pub(crate) fn released(lock: &Name, token: Option<Token>, held_us: u64, how: HoldOutcome) {
    debug!(
        name: "taketurns.released",
        target: target::TAKETURNS,
        %lock,
        token = token.map(Token::raw),
        held_ms = held_us / 1_000,
        outcome = how.word(),
        "let go"
    );
}

/// Logs and counts an event of the session.
pub(crate) fn tell(event: SessionEvent) {
    match event {
        SessionEvent::Lost { hold, cause } => announce(&hold, cause),
        SessionEvent::ClockSet => tracing::warn!(
            target: target::CLIENT,
            "the clock of the store was set forward; what is held there counts as lost"
        ),
        SessionEvent::Quarantined { lock, left_ms } => {
            tracing::warn!(
                target: target::WAITS,
                %lock,
                left_ms,
                "in quarantine: its store was restarted or failed over"
            );
        }
        SessionEvent::Queued { ahead } => meter::queued(ahead),
        SessionEvent::Rejoined { lock } => tracing::warn!(
            name: "taketurns.rejoined",
            target: target::WAITS,
            %lock,
            "the place lapsed; waiting again at the tail"
        ),
        _ => {}
    }
}

/// Tells everybody that a lock is lost, for the first and only time. If nobody has it, because it is kept for later
/// turns, nobody lost it.
pub(crate) fn announce(hold: &Hold, cause: LossCause) {
    if let Some(since_us) = hold.end_turn() {
        tracing::warn!(
            name: "taketurns.lost",
            target: target::HELD,
            lock = %hold.name(),
            %cause,
            "the lock was lost"
        );
        meter::lost(cause);
        meter::hold_ended(local_us().saturating_sub(since_us), HoldOutcome::Lost);
    }
    hold.take_watchers().into_iter().for_each(std::task::Waker::wake);
}

/// Returns the span of one write that renews this many locks.
pub(crate) fn renew(locks: usize) -> Span {
    debug_span!(target: target::TAKETURNS, "taketurns.renew", locks, failed = Empty)
}

/// The span of a connection that should replace an earlier one.
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(crate) struct Reconnect(Span);

#[cfg(any(feature = "redis", feature = "postgres"))]
impl Reconnect {
    pub(crate) fn begin() -> Self {
        let span = debug_span!(
            target: target::TAKETURNS,
            "taketurns.reconnect",
            server = Empty,
            outcome = Empty,
        );
        Self(span)
    }

    pub(crate) fn span(&self) -> Span {
        self.0.clone()
    }

    /// Records the server, if the connection succeeded.
    pub(crate) fn end(self, server: Option<&impl Display>) {
        if let Some(server) = server {
            self.0.record("server", tracing::field::display(server));
            meter::reconnected();
        }
        self.0.record("outcome", if server.is_some() { "connected" } else { "failed" });
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::collections::BTreeSet;

    /// All names of spans and events between such marks.
    fn named(text: &str, mark: char) -> BTreeSet<&str> {
        let is_name = |part: &&str| {
            let rest = part.strip_prefix("taketurns.").unwrap_or_default();
            !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_lowercase())
        };
        text.split(mark).filter(is_name).collect()
    }

    #[test]
    fn the_page_names_every_span_and_event_and_no_other() {
        let told = named(include_str!("telling.rs"), '"');
        assert_eq!(named(include_str!("../../../docs/metrics.md"), '`'), told);
        assert_eq!(told.len(), 7, "{told:?}");
    }

    #[test]
    fn the_page_names_every_target() {
        let page = include_str!("../../../docs/metrics.md");
        let source = include_str!("telling.rs").lines();
        let targets =
            source.filter_map(|line| line.split_once(": &str = \"")?.1.strip_suffix("\";"));
        let targets: BTreeSet<&str> = targets.collect();
        assert_eq!(targets.len(), 12, "{targets:?}");
        for target in targets {
            assert!(page.contains(&format!("`{target}`")), "{target}");
        }
    }
}
