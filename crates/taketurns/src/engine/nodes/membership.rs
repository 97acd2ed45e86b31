//! Which quorum a node belongs to: written on the node itself, as the one member of a pool. So a node of
//! another quorum, or one that is named by two addresses, is found before it can vote.

use taketurns_core::{Member, Name, Reply, Request};

use super::super::{Engine, EngineError};
use crate::telling::target;

/// The pool with that member. It shows in the listing of a node, not in that of the quorum.
pub(crate) const NAME: &str = "taketurns:quorum";

/// The number of a node in its quorum, and the quorum's fingerprint.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) number: usize,
    pub(crate) of: usize,
    pub(crate) fingerprint: String,
}

impl Membership {
    pub(super) fn member(&self) -> String {
        format!("node {} of {}, {}", self.number, self.of, self.fingerprint)
    }

    /// Writes it down, unless somebody has, and makes sure that nothing else is written there. True if it
    /// was not there before.
    pub(crate) async fn join(
        &self,
        engine: &dyn Engine,
        address: &str,
    ) -> Result<bool, EngineError> {
        let (name, member) = self.entry()?;
        // Reads first: a client with another set of nodes must not write, not even for a moment.
        if self.is_written(engine, &name, address).await? {
            return Ok(false);
        }
        let added = engine.call(&name, Request::PoolAdd { member }).await?.reply;
        if matches!(added, Reply::Refused(_)) {
            return Err(EngineError::Broken(self.refuse(address, "something else")));
        }
        let is_new = added == Reply::Changed(true);
        let written = self.is_written(engine, &name, address).await;
        if is_new && matches!(written, Err(EngineError::Broken(_))) {
            // Another has come at the same moment.
            self.leave(engine).await;
        }
        written.map(|_| is_new)
    }

    /// Is it written there, and nothing else?
    async fn is_written(
        &self,
        engine: &dyn Engine,
        name: &Name,
        address: &str,
    ) -> Result<bool, EngineError> {
        let members = engine.view(name, 0).await?.unwrap_or_default().members;
        let ours = self.member();
        match members.iter().map(|member| member.name.as_str()).find(|name| *name != ours) {
            Some(other) => Err(EngineError::Broken(self.refuse(address, other))),
            None => Ok(!members.is_empty()),
        }
    }

    /// Takes back what was written down by mistake.
    pub(crate) async fn leave(&self, engine: &dyn Engine) {
        let Ok((name, member)) = self.entry() else { return };
        if let Err(error) = engine.call(&name, Request::PoolRemove { member }).await {
            tracing::warn!(target: target::QUORUM, %error, "a wrong entry of lock {NAME} on a node could not be removed");
        }
    }

    fn entry(&self) -> Result<(Name, Member), EngineError> {
        let invalid = |why: &dyn std::fmt::Display| EngineError::Broken(why.to_string());
        let name = Name::new(NAME).map_err(|why| invalid(&why))?;
        let member = Member::new(&self.member()).map_err(|why| invalid(&why))?;
        Ok((name, member))
    }

    pub(super) fn refuse(&self, address: &str, other: &str) -> String {
        if other.ends_with(&self.fingerprint) {
            return format!("{address} is another node of this quorum, too ({other})");
        }
        format!(
            "{address} belongs to another quorum ({other}, and not {}): all clients have to name the \
             same nodes by the same addresses; to change them, stop all clients for as long as the \
             longest lease, and remove what the lock {NAME} says on each node",
            self.member()
        )
    }
}
