//! A connection that only pops from lists, whichever is pushed to first.

use std::sync::Arc;
use std::time::Duration;

use redis::{Value, cmd};

use crate::engine::EngineError;
use crate::engine::redis::connection::ServerConnection;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::connection::subscriber::Subscriber;
use crate::engine::redis::router::Router;

/// Beside the connection to the one server that there is, as the same user.
pub(super) struct ListPopper {
    subscriber: Subscriber,
    beside: Arc<ServerConnection>,
}

impl ListPopper {
    pub(super) async fn open(router: &Router) -> Result<Self, EngineError> {
        if !router.has_one_server() {
            return Err(EngineError::Unsupported("each list of a Cluster has its node".into()));
        }
        let lost = || EngineError::Unreachable("the server is gone".into());
        let session = router.masters().await?.pop().ok_or_else(lost)?;
        let (connector, beside) = (router.connector(), session.connection().clone());
        let (credentials, db) = (&connector.config.credentials, connector.config.db);
        let mut subscriber = connector.subscriber(&beside.address, credentials).await?;
        if db != 0 {
            subscriber.ask(&beside.address, cmd("SELECT").arg(db), Duration::ZERO).await?;
        }
        Ok(Self { subscriber, beside })
    }

    /// Is the connection that it is beside still in use?
    pub(super) fn is_wanted(&self) -> bool {
        self.beside.is_alive()
    }

    /// Waits for something in one of the lists, takes it out, and says in which it was. `None` if there
    /// is nothing for so long. The first list comes first.
    pub(super) async fn pop(
        &mut self,
        lists: &[String],
        within: Duration,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let mut command = cmd("BLPOP");
        command.arg(lists).arg(within.as_secs_f64());
        let popped = self.subscriber.ask(&self.beside.address, &command, within).await?;
        Ok(match popped.as_sequence() {
            Some([Value::BulkString(list), _]) => Some(list.clone()),
            _ => None,
        })
    }

    /// Puts something into a list again, for others who pop from it: for a second.
    pub(super) async fn push_back(&mut self, list: &str) -> Result<(), Failure> {
        for command in [cmd("RPUSH").arg(list).arg(1), cmd("PEXPIRE").arg(list).arg(1_000)] {
            self.subscriber.ask(&self.beside.address, command, Duration::ZERO).await?;
        }
        Ok(())
    }
}
