//! A link, and what is known of the run at its other end.

use std::sync::Arc;

use super::failure::Failure;
use super::link::Link;
use crate::engine::EngineFuture;
use crate::engine::redis::greeter::Bound;

/// Replaced as a whole when what is known changes; the link stays.
pub(crate) struct Session {
    pub(crate) link: Arc<Link>,
    pub(crate) bound: Bound,
    /// The key under which the marker of this server is. Empty on a node of a Cluster that has no
    /// slot, and so can have no key.
    pub(crate) home_key: Vec<u8>,
}

/// Gets to know the servers.
pub(crate) trait Greet: Send + Sync {
    /// A link was opened, or a script answered that it has to be looked at again.
    fn greet<'a>(
        &'a self,
        link: &'a Link,
        home_key: Vec<u8>,
    ) -> EngineFuture<'a, Result<Bound, Failure>>;

    /// The server does not know the scripts.
    fn load<'a>(
        &'a self,
        link: &'a Link,
        home_key: Vec<u8>,
    ) -> EngineFuture<'a, Result<Bound, Failure>>;
}

/// What has to be done before a command can be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    Load,
    Greet,
}

/// How often one call may be sent again after each: twice, since somebody else may flush scripts
/// just then; not for ever.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    loads: u8,
    greets: u8,
}

const TIMES_MAX: u8 = 2;

impl Patience {
    /// What to do about it before sending again; `None` if that is no use.
    pub(crate) fn again(&mut self, failure: &Failure) -> Option<Again> {
        let (again, count) = match failure {
            Failure::NoScript => (Again::Load, &mut self.loads),
            Failure::Reverify => (Again::Greet, &mut self.greets),
            _ => return None,
        };
        *count += 1;
        (*count <= TIMES_MAX).then_some(again)
    }
}
