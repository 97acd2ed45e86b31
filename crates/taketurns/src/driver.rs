//! Where a client's tasks run: a thread with a small runtime of its own, or the caller's runtime.
//!
//! On a thread of its own a blocked or ended user runtime neither stops renewals nor makes a drop
//! panic, and the blocking API works anywhere.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};

use crate::Error;
use crate::client::Client;
use crate::engine::EngineError;
use crate::runtime::{Runtime, timeout};
use crate::sync::{self, Arc, thread};

/// Releases under way when the last handle is dropped get this long.
const DRAIN_WITHIN: Duration = Duration::from_secs(5);

/// Runs tasks. A thread of its own ends when this is dropped.
pub(crate) struct ClientDriver {
    runtime: Runtime,
    /// Dropping it ends the thread. `None` if there is none of our own.
    _thread: Option<oneshot::Sender<()>>,
}

impl ClientDriver {
    /// Starts a thread; on a machine that is simulated, nothing but tasks.
    pub(crate) fn start() -> Result<Self, Error> {
        #[cfg(feature = "simulation")]
        if crate::simulation::current().is_some() {
            return Ok(Self::on(Runtime::current()));
        }
        let failed = |error| {
            let why = format!("the driver thread can't be started: {error}");
            Error::Unreachable(EngineError::Unreachable(why))
        };
        let (started, starting) = sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        // Made in the thread: a runtime must not be dropped in async code, not even if this fails.
        let run = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let _ = started.send(Ok(runtime.handle().clone()));
                let _ = runtime.block_on(stopped);
                // Not to be waited for: a call that hangs must not keep the thread.
                #[cfg(not(shuttle))]
                runtime.shutdown_background();
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        };
        thread::Builder::new().name("taketurns".into()).spawn(run).map_err(failed)?;
        let runtime = starting.recv().map_err(|_| Error::Closed)?.map_err(failed)?;
        Ok(Self { runtime: Runtime::Tokio(runtime), _thread: Some(stop) })
    }

    /// Uses a runtime that somebody else runs.
    pub(crate) fn on(runtime: Runtime) -> Self {
        Self { runtime, _thread: None }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

/// What `Locks` and guards have in common. The client ends when the last of them is dropped.
pub(crate) struct ClientHandle {
    pub(crate) client: Arc<Client>,
    end: Option<ClientEnd>,
}

/// What ending the client takes.
struct ClientEnd {
    driver: ClientDriver,
    stop: watch::Sender<bool>,
}

impl ClientHandle {
    pub(crate) fn new(
        client: Arc<Client>,
        driver: ClientDriver,
        stop: watch::Sender<bool>,
    ) -> Self {
        Self { client, end: Some(ClientEnd { driver, stop }) }
    }

    /// Starts the end, and answers what resolves when it is done.
    pub(crate) fn finish(&mut self) -> Option<oneshot::Receiver<()>> {
        let ClientEnd { driver, stop } = self.end.take()?;
        let client = self.client.clone();
        let (done, finished) = oneshot::channel();
        driver.runtime().clone().spawn(async move {
            let drain = async {
                client.drain().await;
                client.engine.close().await;
            };
            let _ = timeout(DRAIN_WITHIN, drain).await;
            let _ = stop.send(true);
            drop(client);
            let _ = done.send(());
            drop(driver);
        });
        Some(finished)
    }
}

impl Drop for ClientHandle {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
