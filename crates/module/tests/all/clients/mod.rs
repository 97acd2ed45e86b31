//! Any client works: `redis-cli`, redis-py, ioredis and the Rust client take turns on one lock.
//!
//! ```text
//!   party    one client, told what to do: a process behind pipes
//!   rust     the same for the Rust client, on a thread
//!   turns    how they affect each other
//!   hundred  a hundred of one kind, in order
//! ```

mod hundred;
mod party;
mod rust;
mod turns;

use taketurns_servers::{Flavor, Server, ServerReply, eventually, module_path};

/// The Rust client uses `NAME` for the lock that all others call `KEY`.
const NAME: &str = "shared";
const KEY: &str = "tt:shared";

fn server(flavor: Flavor) -> Server {
    let module = module_path().expect("the module");
    Server::builder(flavor).module(&module, &[]).start().expect("a server")
}

fn show(server: &Server) -> ServerReply {
    server.cli(&["FENCELOCK.SHOW", KEY])
}

/// Returns when `count` clients wait.
fn until_waiting(server: &Server, count: usize) {
    let here = || show(server).field("waiting").and_then(ServerReply::int);
    let what = format!("{count} wait");
    eventually(&what, || (here() == Some(count as i64)).then_some(())).expect("they do");
}

/// Returns a number of the only holder, such as `left_ms`.
fn of_holder(server: &Server, name: &str) -> Option<i64> {
    show(server).field("holders")?.array()?.first()?.field(name)?.int()
}
