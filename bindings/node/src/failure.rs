//! An error of the client, as JavaScript makes one of its own of it.

use napi_derive::napi;
use taketurns::Error;

/// What the JavaScript error says.
#[napi(object, object_from_js = false)]
pub struct Failure {
    /// The name of its variant, as [`taketurns::ErrorKind`] has it.
    pub kind: String,
    /// What happened, to which lock, and what to do.
    pub message: String,
    /// Which lock, if it is about one.
    pub lock: Option<String>,
    /// The same call may succeed later.
    pub retryable: bool,
    /// Why a lock was lost.
    pub loss_cause: Option<String>,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self {
            kind: format!("{:?}", error.kind()),
            message: error.to_string(),
            lock: error.lock().map(ToString::to_string),
            retryable: error.is_retryable(),
            loss_cause: match error {
                Error::Lost { cause, .. } => Some(cause.word().to_owned()),
                _ => None,
            },
        }
    }
}
