//! What comes of a task, and how JavaScript sees it.

use napi_derive::napi;
use taketurns::{
    AllGuard, Begun, Completion, Error, Guard, Handle, HolderView, LossCause, Name, Observer,
    Token, View,
};

use crate::failure::Failure;
use crate::view::{CompletionObject, HolderObject, LockObject};

/// What a task comes to.
pub(crate) enum Outcome {
    /// A client is connected.
    Client(taketurns::Locks),
    /// A lock is held, or others have it.
    Guard(Option<Guard>),
    /// An attempt is under way, or the work is done; `None` if others attempt it.
    Begun(Option<Begun>),
    /// By whom and when work was done, if it is done.
    Completion(Option<Completion>),
    /// Several locks are held.
    All(AllGuard),
    /// A guard became a handle.
    Handle(Handle),
    /// A held lock was lost.
    Lost(Name, LossCause),
    /// The observer of this number saw another leader, and goes back to its table.
    Observed(i64, Box<ClientObserver>, Option<HolderView>),
    /// Done, with nothing to tell.
    Done,
    /// Whether something changed.
    Changed(bool),
    /// A number: milliseconds, or of holders.
    Number(f64),
    /// Who leads.
    Leader(Option<HolderView>),
    /// One lock.
    Lock(Name, Option<View>),
    /// Locks, sorted by name.
    List(Vec<(Name, View)>),
    /// It failed.
    Failed(Error),
}

/// An observer, and the number of its client: it keeps the connection open.
pub(crate) struct ClientObserver {
    pub(crate) client: i64,
    pub(crate) observer: Observer,
}

impl Outcome {
    /// Returns the outcome of a result.
    pub(crate) fn of<T>(result: Result<T, Error>, done: impl FnOnce(T) -> Self) -> Self {
        result.map_or_else(Self::Failed, done)
    }
}

/// An outcome as JavaScript sees it: the object has the fields that its operation is known to have.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct Answer {
    /// It failed, and there is nothing else.
    pub failure: Option<Failure>,
    /// The operation goes on: its store is loading its data, as this sentence says.
    pub loading: Option<String>,
    /// Others have the lock.
    pub is_busy: Option<bool>,
    /// The fencing token; `null` if the store has none.
    pub token: Option<f64>,
    /// The lock's name.
    pub name: Option<String>,
    /// The member of a pool.
    pub member: Option<String>,
    /// The tokens of several locks, as `tokens[n]` of `names[n]`.
    pub tokens: Option<Vec<Option<f64>>>,
    /// The names of several locks.
    pub names: Option<Vec<String>>,
    /// The text of a handle, which is a secret; or the id of a client.
    pub text: Option<String>,
    /// Whether something changed.
    pub changed: Option<bool>,
    /// A number.
    pub number: Option<f64>,
    /// Who leads.
    pub leader: Option<HolderObject>,
    /// One lock.
    pub lock: Option<LockObject>,
    /// Locks.
    pub locks: Option<Vec<LockObject>>,
    /// Who did the work of a once, and when.
    pub completion: Option<CompletionObject>,
    /// What the store guarantees.
    pub guarantees: Option<GuaranteesObject>,
}

/// What the engine of a store guarantees.
#[napi(object, object_from_js = false)]
pub struct GuaranteesObject {
    /// First come, first served.
    pub fair: bool,
    /// Every grant has a larger token.
    pub fenced: bool,
    /// A release wakes the next waiter.
    pub event_driven: bool,
}

/// The outcome of an operation that went on after its call.
#[napi(object, object_from_js = false)]
pub struct Settled {
    /// The number of the operation.
    pub id: i64,
    /// What came of it.
    pub answer: Answer,
}

impl Answer {
    pub(crate) fn failed(error: &Error) -> Self {
        Self { failure: Some(error.into()), ..Self::default() }
    }

    pub(crate) fn of_guard(guard: &Guard) -> Self {
        Self {
            token: number(guard.token()),
            name: Some(guard.name().to_string()),
            member: guard.member().map(ToString::to_string),
            ..Self::default()
        }
    }

    pub(crate) fn of_all(guards: &[(Name, Option<Token>)]) -> Self {
        let (names, tokens) =
            guards.iter().map(|(name, token)| (name.to_string(), token.and_then(number))).unzip();
        Self { names: Some(names), tokens: Some(tokens), ..Self::default() }
    }

    pub(crate) fn of_completion(done: Option<&Completion>) -> Self {
        Self { completion: done.map(Into::into), ..Self::default() }
    }

    pub(crate) fn of_handle(handle: &Handle) -> Self {
        Self {
            token: number(handle.token()),
            name: Some(handle.name().to_string()),
            text: Some(handle.expose()),
            ..Self::default()
        }
    }
}

/// Returns the number of a token. Every token is below 2^53, so that a double has it exactly.
pub(crate) fn number(token: Token) -> Option<f64> {
    token.fenced().map(|token| token.raw() as f64)
}
