//! `taketurns serve` as browsers, programs and Prometheus see it.

mod api;
mod browser;
mod described;
mod hardened;
mod http;
mod load;
mod page;

pub(crate) use api::a_lock_is_listed_shown_and_counted;

use std::process::Command;

use crate::cli::helper::{Running, Store};

/// What the servers of these tests are started with.
const TOKEN: &str = "a-token-that-nobody-guesses";

/// A server, until it is dropped.
struct Serving {
    running: Running,
    /// Where it listens: `127.0.0.1:7411`.
    at: String,
}

impl Serving {
    /// Starts it on a port that is free.
    fn start(store: &Store, args: &[&str]) -> Self {
        Self::of(&mut command(store, args))
    }

    fn of(command: &mut Command) -> Self {
        let mut running = Running::start(command);
        let line = running.line();
        let at = line.strip_prefix("http://").and_then(|rest| rest.split('/').next());
        let at = at.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        Self { running, at }
    }
}

fn command(store: &Store, args: &[&str]) -> Command {
    let often: &[&str] = if args.contains(&"--every") { &[] } else { &["--every", "0.2"] };
    let args = [&["serve", "--listen", "127.0.0.1:0"], often, args].concat();
    let mut command = store.command(&args);
    command.env("TAKETURNS_SERVE_TOKEN", TOKEN);
    command
}
