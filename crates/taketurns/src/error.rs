//! [`Error`]: what can go wrong. Each message says what happened, to which lock, and what to do.

use std::fmt;
use std::time::Duration;

use taketurns_core::session::LossCause;
use taketurns_core::{InvalidLabel, InvalidName, InvalidNote, Kind, Name, Refusal};

use crate::engine::EngineError;

/// An error of this crate. [`source`](std::error::Error::source) is the engine's own error, or what is wrong with the
/// input, where there is one.
///
/// ```
/// # use taketurns::blocking::Wait;
/// # let locks = taketurns::connect("memory:").wait()?;
/// use std::error::Error as _;
///
/// let error = locks.mutex("").acquire().wait().expect_err("no lock has an empty name");
/// assert_eq!(error.kind(), taketurns::ErrorKind::InvalidName);
/// assert!(!error.is_retryable() && error.source().is_some());
/// # Ok::<(), taketurns::Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Others held the lock for all of the time given by `within`.
    #[error(
        "lock {lock} was not acquired within {within:?}: it is held, or others are ahead in its queue"
    )]
    Timeout {
        /// Which lock.
        lock: Name,
        /// How long it was waited for.
        within: Duration,
    },
    /// The store could not be reached, and the request was never placed there.
    #[error("the store can't be reached: {0}")]
    Unreachable(#[source] EngineError),
    /// Too few nodes of a quorum could be reached, and the request was never placed there.
    #[error("{0}")]
    NoQuorum(#[source] NoQuorum),
    /// The request was sent, but its outcome is unknown.
    #[error(
        "lock {lock} may or may not have changed ({source}); if it is held, it becomes free when its lease ends"
    )]
    Indeterminate {
        /// Which lock.
        lock: Name,
        /// What came in between.
        source: EngineError,
    },
    /// The lock was held, and is not any more.
    #[error("lock {lock} was lost: {cause}")]
    Lost {
        /// Which lock.
        lock: Name,
        /// How.
        cause: LossCause,
    },
    /// The lock is not held by this handle, or no longer.
    #[error(
        "lock {lock} is not held by this handle: it was released, its lease ended, or it is a lock of another store"
    )]
    NotHeld {
        /// Which lock.
        lock: Name,
    },
    /// The lock is in use as another kind, or as a semaphore of another size.
    #[error(
        "lock {lock} is in use as another kind ({is}): acquire it as that kind, or wait until it is idle"
    )]
    KindMismatch {
        /// Which lock.
        lock: Name,
        /// What it is.
        is: Kind,
    },
    /// The queue has its greatest length.
    #[error("the queue of lock {lock} is full ({max} waiters)", max = taketurns_core::limits::QUEUE_MAX)]
    QueueFull {
        /// Which lock.
        lock: Name,
    },
    /// The pool has the most members that it can have.
    #[error("pool {lock} is full ({max} members)", max = taketurns_core::limits::MEMBERS_MAX)]
    PoolFull {
        /// Which pool.
        lock: Name,
    },
    /// The store speaks a foreign protocol that has no fencing tokens.
    #[error(
        "lock {lock} has no fencing token, since the foreign protocol of its store has none: to acquire it \
         without one, add unfenced=ok to the store's URL"
    )]
    Unfenced {
        /// Which lock.
        lock: Name,
    },
    /// The lock is granted to nobody for now: its store was restarted or failed over, and may have forgotten a holder.
    #[error(
        "lock {lock} is in quarantine for {left:.1?} more: its store was restarted or failed over, and \
         grants nothing until every lease that it may have forgotten has ended"
    )]
    Quarantined {
        /// Which lock.
        lock: Name,
        /// For how long.
        left: Duration,
    },
    /// No lock and no member can have that name.
    #[error("invalid name: {0}")]
    InvalidName(#[from] InvalidName),
    /// The label is too long or not plain text.
    #[error("invalid label: {0}")]
    InvalidLabel(#[from] InvalidLabel),
    /// The lease is shorter or longer than the store takes.
    #[error(
        "a lease or waiter lease must be between 10 ms and {max:?} on this store, not {given:?}"
    )]
    InvalidLease {
        /// What was asked for.
        given: Duration,
        /// The most that this store takes.
        max: Duration,
    },
    /// The `max_hold` is too short to hold anything.
    #[error("max_hold must be at least 10 ms, not {0:?}")]
    InvalidMaxHold(Duration),
    /// The semaphore does not have this number of permits.
    #[error(
        "a semaphore has 1 to {max} permits, and an acquire takes at least 1 and at most all of them",
        max = taketurns_core::limits::PERMITS_MAX
    )]
    InvalidPermits,
    /// The lock can't be kept like that: see [`Keep`](crate::Keep).
    #[error(
        "only a mutex can be kept for its process: for at least 1 turn and at most {max}, or without max_hold until \
         it is wanted",
        max = taketurns_core::limits::LOCAL_TURNS_MAX
    )]
    InvalidKeep,
    /// Nobody else can be kept from the lock for so long, or not from what was asked for: see
    /// [`Acquire::at_least`](crate::Acquire::at_least).
    #[error(
        "at_least must be between 10 ms and {max:?} on this store, not {given:?}, and goes with neither keep nor once"
    )]
    InvalidAtLeast {
        /// What was asked for.
        given: Duration,
        /// The most that this store takes.
        max: Duration,
    },
    /// No once has these options.
    #[error("invalid options of a once: {0}")]
    InvalidOnce(&'static str),
    /// The result of the work is too long or not plain text.
    #[error("invalid result: {0}")]
    InvalidNote(#[from] InvalidNote),
    /// The work of a once failed as often as it may.
    #[error(
        "the work of {lock} failed {attempts} times and may not be tried again: find out why, then undo it, or wait \
         until that is forgotten"
    )]
    Exhausted {
        /// Which once.
        lock: Name,
        /// How often it failed.
        attempts: u32,
    },
    /// The store URL can't be understood.
    #[error("invalid store URL: {0}")]
    InvalidUrl(String),
    /// The handle can't be understood.
    #[error(
        "invalid handle: pass it exactly as `Handle::expose` or `taketurns acquire` returned it"
    )]
    InvalidHandle,
    /// The store can be reached but not used: damaged, full, of another format, not ours.
    #[error("the store can't be used: {0}")]
    Store(#[source] EngineError),
    /// The store can't do what was asked for.
    #[error("this store can't do that: {0}")]
    Unsupported(#[source] EngineError),
    /// The client was closed, or its runtime has ended.
    #[error("this client was closed")]
    Closed,
}

/// Too few nodes answer for a majority: how many are needed, and what is wrong with the others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoQuorum {
    /// How many make a majority.
    pub needed: usize,
    /// How many there are.
    pub of: usize,
    /// Those that are of no use now.
    pub nodes: Vec<NodeTrouble>,
}

/// Why one node of a quorum is of no use now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeTrouble {
    /// Where it is, without a password.
    pub node: String,
    /// What is wrong, as what follows its name.
    pub why: String,
    /// The node is loading its data, and will serve when it has. Known while connecting.
    pub loading: bool,
}

impl std::error::Error for NoQuorum {}

impl NodeTrouble {
    /// For an engine that has nodes: why one of them is of no use. Default: it is not loading its data.
    pub fn new(node: impl Into<String>, why: impl Into<String>) -> Self {
        Self { node: node.into(), why: why.into(), loading: false }
    }
}

impl NoQuorum {
    /// For an engine that has nodes: `needed` of the `of` nodes are a majority, and these can't be used.
    pub fn new(needed: usize, of: usize, nodes: Vec<NodeTrouble>) -> Self {
        Self { needed, of, nodes }
    }

    /// Will there be a majority once the nodes that are loading their data have done so?
    pub(crate) fn is_loading(&self) -> bool {
        let loading = self.nodes.iter().filter(|node| node.loading).count();
        loading > 0 && self.of.saturating_sub(self.nodes.len()) + loading >= self.needed
    }
}

impl fmt::Display for NoQuorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} nodes are needed", self.needed, self.of)?;
        for (number, trouble) in self.nodes.iter().enumerate() {
            write!(f, "{}{trouble}", if number == 0 { ": " } else { "; " })?;
        }
        Ok(())
    }
}

impl fmt::Display for NodeTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, why, .. } = self;
        // What an engine says of a server names it already.
        let address = node.split_once("://").map_or(node.as_str(), |(_, address)| address);
        let named = why.split(' ').any(|word| word.trim_end_matches(':') == address);
        if named { f.write_str(why) } else { write!(f, "{node} {why}") }
    }
}

/// The variants of [`Error`] without what they are about: for matching, and for exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is explained at the variant of Error with its name")]
pub enum ErrorKind {
    Timeout,
    Unreachable,
    NoQuorum,
    Indeterminate,
    Lost,
    NotHeld,
    KindMismatch,
    QueueFull,
    PoolFull,
    Unfenced,
    Quarantined,
    InvalidName,
    InvalidLabel,
    InvalidLease,
    InvalidMaxHold,
    InvalidPermits,
    InvalidKeep,
    InvalidAtLeast,
    InvalidOnce,
    InvalidNote,
    Exhausted,
    InvalidUrl,
    InvalidHandle,
    Store,
    Unsupported,
    Closed,
}

/// The error for a reply that answers another question than the one that was asked.
pub(crate) fn malformed(question: &str, reply: &impl fmt::Debug) -> Error {
    Error::Store(EngineError::Broken(format!("{question} was answered with {reply:?}")))
}

impl Error {
    /// Returns whether the same call may succeed later, without anybody changing anything: the lock or its store was
    /// busy or out of reach. After [`ErrorKind::Indeterminate`] the first call may have succeeded too. A lock that was
    /// lost is not retryable, since its guard is worth nothing any more; acquiring it anew is another call.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Timeout
                | ErrorKind::Unreachable
                | ErrorKind::NoQuorum
                | ErrorKind::Indeterminate
                | ErrorKind::QueueFull
                | ErrorKind::Quarantined
        )
    }

    /// Returns the lock that it is about, if it is about one.
    pub fn lock(&self) -> Option<&Name> {
        match self {
            Error::Timeout { lock, .. }
            | Error::Indeterminate { lock, .. }
            | Error::Lost { lock, .. }
            | Error::NotHeld { lock }
            | Error::KindMismatch { lock, .. }
            | Error::QueueFull { lock }
            | Error::PoolFull { lock }
            | Error::Unfenced { lock }
            | Error::Exhausted { lock, .. }
            | Error::Quarantined { lock, .. } => Some(lock),
            _ => None,
        }
    }

    /// Returns which variant it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Timeout { .. } => ErrorKind::Timeout,
            Error::Unreachable(_) => ErrorKind::Unreachable,
            Error::NoQuorum(_) => ErrorKind::NoQuorum,
            Error::Indeterminate { .. } => ErrorKind::Indeterminate,
            Error::Lost { .. } => ErrorKind::Lost,
            Error::NotHeld { .. } => ErrorKind::NotHeld,
            Error::KindMismatch { .. } => ErrorKind::KindMismatch,
            Error::QueueFull { .. } => ErrorKind::QueueFull,
            Error::PoolFull { .. } => ErrorKind::PoolFull,
            Error::Unfenced { .. } => ErrorKind::Unfenced,
            Error::Quarantined { .. } => ErrorKind::Quarantined,
            Error::InvalidName(_) => ErrorKind::InvalidName,
            Error::InvalidLabel(_) => ErrorKind::InvalidLabel,
            Error::InvalidLease { .. } => ErrorKind::InvalidLease,
            Error::InvalidMaxHold(_) => ErrorKind::InvalidMaxHold,
            Error::InvalidPermits => ErrorKind::InvalidPermits,
            Error::InvalidKeep => ErrorKind::InvalidKeep,
            Error::InvalidAtLeast { .. } => ErrorKind::InvalidAtLeast,
            Error::InvalidOnce(_) => ErrorKind::InvalidOnce,
            Error::InvalidNote(_) => ErrorKind::InvalidNote,
            Error::Exhausted { .. } => ErrorKind::Exhausted,
            Error::InvalidUrl(_) => ErrorKind::InvalidUrl,
            Error::InvalidHandle => ErrorKind::InvalidHandle,
            Error::Store(_) => ErrorKind::Store,
            Error::Unsupported(_) => ErrorKind::Unsupported,
            Error::Closed => ErrorKind::Closed,
        }
    }

    /// The same error, of an acquire that waited for so long.
    pub(crate) fn after(self, within: Duration) -> Self {
        match self {
            Error::Timeout { lock, .. } => Error::Timeout { lock, within },
            error => error,
        }
    }

    /// The error of a request about no lock in particular.
    pub(crate) fn from_store(error: EngineError) -> Self {
        match error {
            EngineError::Unreachable(_) | EngineError::Loading(_) | EngineError::Unknown(_) => {
                Error::Unreachable(error)
            }
            EngineError::NoQuorum(missing) => Error::NoQuorum(missing),
            EngineError::Broken(_) => Error::Store(error),
            EngineError::Unsupported(_) | EngineError::Unfenced => Error::Unsupported(error),
        }
    }

    /// The error of a request about this lock.
    pub(crate) fn from_engine(lock: &Name, error: EngineError) -> Self {
        match error {
            source @ EngineError::Unknown(_) => Error::Indeterminate { lock: lock.clone(), source },
            EngineError::Unfenced => Error::Unfenced { lock: lock.clone() },
            error => Self::from_store(error),
        }
    }

    /// The error of a refusal at this engine time.
    pub(crate) fn from_refusal(lock: &Name, refusal: Refusal, now_ms: u64) -> Self {
        let lock = lock.clone();
        match refusal {
            Refusal::KindMismatch(is) => Error::KindMismatch { lock, is },
            Refusal::QueueFull => Error::QueueFull { lock },
            Refusal::PoolFull => Error::PoolFull { lock },
            Refusal::InvalidPermits => Error::InvalidPermits,
            Refusal::Exhausted { failed } => Error::Exhausted { lock, attempts: failed },
            Refusal::Quarantined { until_ms } => Error::Quarantined {
                lock,
                left: Duration::from_millis(until_ms.saturating_sub(now_ms)),
            },
            // The client never sends what they are about.
            Refusal::InvalidLease
            | Refusal::InvalidTerms
            | Refusal::TooLate
            | Refusal::Cancelled => Error::Store(EngineError::Broken(refusal.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(node: &str, why: &str) -> NodeTrouble {
        NodeTrouble { node: node.to_owned(), why: why.to_owned(), loading: false }
    }

    #[test]
    fn a_majority_comes_by_itself_only_if_enough_nodes_are_loading() {
        let is_loading = |loading: &[bool]| {
            let nodes = loading.iter().map(|&loading| NodeTrouble { loading, ..trouble("a", "x") });
            NoQuorum { needed: 2, of: 3, nodes: nodes.collect() }.is_loading()
        };
        assert!(is_loading(&[true, true, true]) && is_loading(&[true, true, false]));
        assert!(is_loading(&[true, false]), "one is there, and one will be");
        assert!(!is_loading(&[true, false, false]) && !is_loading(&[false, false]));
    }

    #[test]
    fn an_error_of_the_engine_is_kept_and_says_whether_to_try_again() {
        use std::error::Error as _;
        let lock = Name::new("l").unwrap();
        let is_retryable = |error: EngineError| {
            let error = Error::from_engine(&lock, error);
            let source = error.source().expect("what the engine said").to_string();
            assert!(error.to_string().contains(&source), "{error}");
            error.is_retryable()
        };
        assert!(is_retryable(EngineError::Unreachable("refused".into())));
        assert!(is_retryable(EngineError::Unknown("cut off".into())));
        assert!(is_retryable(EngineError::NoQuorum(NoQuorum::new(2, 3, Vec::new()))));
        assert!(!is_retryable(EngineError::Broken("full".into())));
        assert!(!is_retryable(EngineError::Unsupported("pools".into())));
        assert!(!Error::Lost { lock, cause: LossCause::Gone }.is_retryable());
    }

    #[test]
    fn a_missing_quorum_is_one_line_that_names_each_node_once() {
        let nodes = vec![
            trouble("redis://a:6379", "does not answer"),
            trouble("redis://b:6379", "b:6379: Connection refused"),
            trouble("c:6379", "the connection to c:6379 is lost"),
            trouble("d", "did not answer"),
        ];
        let error = Error::NoQuorum(NoQuorum { needed: 3, of: 5, nodes });
        assert_eq!(
            error.to_string(),
            "3 of 5 nodes are needed: redis://a:6379 does not answer; b:6379: Connection refused; \
             the connection to c:6379 is lost; d did not answer"
        );
        assert_eq!(error.kind(), ErrorKind::NoQuorum);
        let unsaid = NoQuorum { needed: 2, of: 3, nodes: Vec::new() };
        assert_eq!(unsaid.to_string(), "2 of 3 nodes are needed");
    }
}
