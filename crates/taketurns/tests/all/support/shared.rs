//! One server of each flavor, shared by tests that keep apart: each uses a prefix or a database of its own.
//!
//! A test that reads the server's counters, or that stops, empties or reconfigures the server, starts one of
//! its own. Nothing drops a static, so these servers run until the watchdog of `taketurns_servers` ends
//! them together with this process.

use std::sync::LazyLock;

use taketurns_servers::{Flavor, Server};

/// For tests that need a database each. Those that have a prefix share database 0.
const DATABASES: &str = "1000";

/// The shared server of a flavor.
pub(crate) fn server(flavor: Flavor) -> &'static Server {
    static REDIS: LazyLock<Server> = LazyLock::new(|| start(Flavor::Redis));
    static VALKEY: LazyLock<Server> = LazyLock::new(|| start(Flavor::Valkey));
    match flavor {
        Flavor::Redis => &REDIS,
        Flavor::Valkey => &VALKEY,
    }
}

fn start(flavor: Flavor) -> Server {
    Server::builder(flavor).args(["--databases", DATABASES]).start().expect("a server")
}
