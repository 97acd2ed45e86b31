//! Where a client's tasks run: on a thread with a small runtime of its own, or on the caller's
//! runtime.
//!
//! With a thread of its own, a blocked or ended user runtime can't stop renewals or make a drop
//! panic, and the blocking API works anywhere.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};

use crate::Error;
use crate::client::Client;
use crate::engine::EngineError;
use crate::runtime::{Runtime, timeout};
use crate::sync::{self, Arc, thread};

/// How long unfinished releases get after the last handle is dropped.
const DRAIN_WITHIN: Duration = Duration::from_secs(5);

/// Runs tasks. Its own thread ends when this is dropped.
pub(crate) struct ClientDriver {
    runtime: Runtime,
    /// Dropping it ends the thread. `None` if the tasks run on the caller's runtime.
    _thread: Option<oneshot::Sender<()>>,
}

impl ClientDriver {
    /// Starts a thread, or only tasks if the machine is simulated.
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
        // Built in the thread: a runtime must not be dropped in async code, not even after a
        // failure.
        let run = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let _ = started.send(Ok(runtime.handle().clone()));
                let _ = runtime.block_on(stopped);
                // Doesn't wait: a call that hangs must not keep the thread.
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

    /// Uses the caller's runtime.
    pub(crate) fn on(runtime: Runtime) -> Self {
        Self { runtime, _thread: None }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

/// The part that `Locks` and guards share. The client ends when the last of them is dropped.
pub(crate) struct ClientHandle {
    pub(crate) client: Arc<Client>,
    end: Option<ClientEnd>,
}

/// What is needed to end the client.
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

    /// Starts to end the client. Returns a receiver that resolves when that is done.
    pub(crate) fn finish(&mut self) -> Option<oneshot::Receiver<()>> {
        let ClientEnd { driver, stop } = self.end.take()?;
        let client = self.client.clone();
        // Nobody is left who could use them.
        client.drive(|session, now_us| session.end_keeps(now_us));
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
