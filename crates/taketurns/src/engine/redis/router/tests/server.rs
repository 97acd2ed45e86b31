//! What these tests want of the servers of `taketurns_servers`, in a word each.

use taketurns_servers::{Flavor, Server, ServerReply, eventually};

/// `rename-command` takes HELLO away, as some hosters and proxies do.
pub(crate) const NO_HELLO: [&str; 3] = ["--rename-command", "HELLO", ""];

pub(crate) fn serve(flavor: Flavor, args: &[&str]) -> Server {
    Server::builder(flavor).args(args.iter().copied()).start().expect("a server")
}

pub(crate) fn redis(args: &[&str]) -> Server {
    serve(Flavor::Redis, args)
}

/// One that has ended. As long as this is kept nobody else listens at its port.
pub(crate) fn gone() -> Server {
    let server = redis(&[]);
    server.kill();
    server
}

/// A command that has to work.
#[track_caller]
pub(crate) fn ask(server: &Server, words: &[&str]) -> ServerReply {
    let reply = server.cli(words);
    assert_eq!(reply.error(), None, "{words:?}");
    reply
}

/// The connections that it has, but the one that asks.
pub(crate) fn connections(server: &Server) -> usize {
    let list = ask(server, &["CLIENT", "LIST"]);
    list.text().expect("a list").lines().count() - 1
}

/// Waits for what has to become true.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(what, || is_so().then_some(())).unwrap_or_else(|error| panic!("{error}"));
}
