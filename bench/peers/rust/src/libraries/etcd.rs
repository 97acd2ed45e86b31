//! etcd's own lock service, with one lease for each client, as etcd's own libraries have it. Who waits is
//! told by the server.

use std::time::Duration;

use etcd_client::LockOptions;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::load::{self, Failure};

/// What etcd's own sessions have.
const LEASE_S: u32 = 60;

/// A client and its session.
pub struct Client {
    client: etcd_client::Client,
    lease: i64,
    renewal: JoinHandle<()>,
}

impl load::Client for Client {
    /// The key that stands for the place in the queue.
    type Held = Vec<u8>;

    async fn connect(url: &str) -> Result<Self, Failure> {
        let mut client = etcd_client::Client::connect([url], None).await?;
        let lease = client.lease_grant(LEASE_S.into(), None).await?.id();
        let (mut keeper, mut answers) = client.lease_keep_alive(lease).await?;
        let renewal = tokio::spawn(async move {
            loop {
                sleep(Duration::from_secs(LEASE_S.into()) / 3).await;
                // If the lease is over, so are the locks, and a release returns the error.
                if keeper.keep_alive().await.is_err() || answers.message().await.is_err() {
                    return;
                }
            }
        });
        Ok(Self { client, lease, renewal })
    }

    async fn acquire(&self, name: &str) -> Result<Vec<u8>, Failure> {
        let options = LockOptions::new().with_lease(self.lease);
        // A clone shares the connection.
        let held = self.client.clone().lock(name, Some(options)).await?;
        Ok(held.key().to_vec())
    }

    async fn release(&self, held: Vec<u8>) -> Result<(), Failure> {
        self.client.clone().unlock(held).await?;
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}
