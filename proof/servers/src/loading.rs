//! A server that is loading its data: it runs, and answers `-LOADING` to nearly everything.
//!
//! How long that takes must not depend on the machine. So the server is told to take minutes, and told
//! to hurry when the test has seen enough.

use crate::server::Readiness;
use crate::{Server, SetupError, eventually};

/// The settings under which a server takes minutes to load [`BALLAST_KEYS`], and answers in between: 20 ms
/// per key, and a look at its connections after every kilobyte.
const SLOW_LOAD: [&str; 4] =
    ["--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024"];

/// How many keys a slow load reads. They take 200 s, which is more than any test waits for.
const BALLAST_KEYS: &str = "10000";

impl Server {
    /// Restarts it so that it loads its data until [`Server::finish_loading`], or for some minutes, and
    /// answers `-LOADING` meanwhile. It keeps what it knows, and gets 10 000 keys named `ballast:*`. Only for
    /// a server that runs, without a log of its writes and with a plain port.
    ///
    /// # Errors
    ///
    /// If it can't save its data, or does not start.
    pub fn restart_loading(&self) -> Result<(), SetupError> {
        // Long values that are not compressed: it looks at its connections by the bytes that it has read.
        self.must(&["CONFIG", "SET", "rdbcompression", "no"])?;
        self.must(&["DEBUG", "POPULATE", BALLAST_KEYS, "ballast", "1100"])?;
        self.must(&["SAVE"])?;
        self.start_again(Readiness::Answering, &SLOW_LOAD)?;
        eventually("the server is loading its data", || self.is_loading().then_some(()))
    }

    /// Ends what [`Server::restart_loading`] began. Returns when the server serves.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn finish_loading(&self) -> Result<(), SetupError> {
        self.must(&["CONFIG", "SET", "key-load-delay", "0"])?;
        eventually("the server has loaded its data", || {
            (self.info("persistence").get("loading")? == "0").then_some(())
        })
    }

    /// Does the server say that it is loading its data?
    pub fn is_loading(&self) -> bool {
        self.info("persistence").get("loading").is_some_and(|loading| loading == "1")
    }
}
