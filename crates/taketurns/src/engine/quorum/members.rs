//! Who belongs to the quorum is written down on each of its nodes, as the one member of a pool: a node
//! of another quorum, or one that is reached by two addresses, is found before it can vote.

use taketurns_core::{Member, Name, Reply, Request};

use super::super::{Engine, EngineError};

/// The lock that says so. It shows in the listing of a node, not in that of the quorum.
pub(super) const NAME: &str = "taketurns:quorum";

/// As which node of which quorum.
pub(super) struct Membership {
    pub(super) number: usize,
    pub(super) of: usize,
    pub(super) fingerprint: String,
}

impl Membership {
    fn member(&self) -> String {
        format!("node {} of {}, {}", self.number, self.of, self.fingerprint)
    }

    /// Writes it down, unless somebody has, and makes sure that nothing else is written there.
    pub(super) async fn join(&self, engine: &dyn Engine, address: &str) -> Result<(), EngineError> {
        let invalid = |why: String| EngineError::Broken(why);
        let name = Name::new(NAME).map_err(|why| invalid(why.to_string()))?;
        let ours = self.member();
        let member = Member::new(&ours).map_err(|why| invalid(why.to_string()))?;
        let added = engine.call(&name, Request::PoolAdd { member: member.clone() }).await?;
        let is_pool = !matches!(added.reply, Reply::Refused(_));
        let view = engine.view(&name, 0).await?.unwrap_or_default();
        let other =
            view.members.iter().map(|member| member.name.as_str()).find(|name| *name != ours);
        let Some(other) = other.or((!is_pool).then_some("something else")) else { return Ok(()) };
        let why = self.refuse(address, other);
        if added.reply == Reply::Changed(true) {
            // It was not ours to write.
            engine.call(&name, Request::PoolRemove { member }).await?;
        }
        Err(EngineError::Broken(why))
    }

    fn refuse(&self, address: &str, other: &str) -> String {
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
