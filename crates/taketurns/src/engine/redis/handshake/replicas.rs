//! Whether the replicas of a master have its module too. One that lacks it can't load what the module
//! keeps: a fail-over to it would lose every lock.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use redis::cmd;
use tokio::time::timeout;

use super::Handshake;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::url::Address;

/// For each, and all at once: a dead one must not delay the connect.
const WITHIN: Duration = Duration::from_secs(1);

/// Those that are known to lack it. One that can't be reached is not known to.
pub(crate) async fn without_module(handshake: &Handshake, replicas: &[Address]) -> Vec<Address> {
    let looks = replicas.iter().map(|replica| {
        Box::pin(lacks(handshake, replica)) as Pin<Box<dyn Future<Output = bool> + Send + '_>>
    });
    let lacking = join_all(looks).await;
    replicas.iter().zip(lacking).filter(|(_, lacks)| *lacks).map(|(at, _)| at.clone()).collect()
}

/// It is asked without arguments, which needs no right: who knows the command says that they are
/// missing, or that we may not.
async fn lacks(handshake: &Handshake, replica: &Address) -> bool {
    let asked = async {
        let credentials = &handshake.config().credentials;
        let connection = handshake.connector.connect_plain(replica, credentials).await?;
        connection.send(&cmd("FENCELOCK.DO")).await
    };
    matches!(timeout(WITHIN, asked).await, Ok(Err(Failure::NoCommand(_))))
}
