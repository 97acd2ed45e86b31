//! Clients of this workspace and the module: which of them use it, what they do when it is loaded
//! while they are at work, and what they report about it.

mod fleet;
mod lost;
#[path = "../../../../taketurns/tests/all/support/patience.rs"]
mod patience;
mod replicas;
mod rights;
mod takeover;

use patience::soon;
use taketurns::{Connect, Locks};
use taketurns_servers::{Builder, Flavor, Server, module_path};

/// Prepares a server that has the module from the start.
fn with_module(flavor: Flavor) -> Builder {
    Server::builder(flavor).module(&module_path().expect("the module"), &[])
}

/// Without this a server loads modules only from its configuration.
const ENABLE_MODULES: [&str; 2] = ["--enable-module-command", "yes"];

/// Starts a server that can load the module later.
fn without_module(flavor: Flavor) -> Server {
    let builder = Server::builder(flavor).args(ENABLE_MODULES);
    builder.start().expect("a server")
}

fn load_module(server: &Server) {
    let path = module_path().expect("the module");
    let reply = server.cli(&["MODULE", "LOAD", path.to_str().expect("a path")]);
    assert!(reply.is_ok(), "{reply}");
}

fn type_of(server: &Server, lock: &str) -> String {
    let reply = server.cli(&["TYPE", &format!("tt:{lock}")]);
    reply.text().unwrap_or_else(|| panic!("{reply}")).to_owned()
}

async fn connect(url: &str) -> Locks {
    soon("connecting", Connect::new(url).open()).await.expect("a server")
}

/// Connects a client that does not know the module.
async fn connect_old(server: &Server) -> Locks {
    connect(&format!("{}?module=off", server.url())).await
}
