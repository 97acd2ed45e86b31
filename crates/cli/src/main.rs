//! `taketurns`: run a command while holding a lock, and look after locks from the shell.
//!
//! The program is glue: the lock is in `taketurns-core`, everything about time and stores in
//! `taketurns`. Here are the command line ([`args`]), one file for each command ([`commands`]), what
//! it takes to run a child under a lock ([`supervise`], [`terminal`], [`child`]), a store that is watched
//! ([`mod@top`], [`watch`]), what the library warns of ([`warnings`]), and how all of it ends ([`exit`]).

mod args;
mod ask;
mod child;
mod commands;
mod exit;
#[cfg(test)]
mod fuzz;
mod job;
mod json;
mod output;
mod paint;
mod serve;
mod signals;
mod status;
mod store;
mod supervise;
mod terminal;
mod text;
mod top;
mod waiting;
mod warnings;
mod watch;

use std::process::ExitCode;

use args::{Cli, Command};
use exit::Failure;

fn main() -> ExitCode {
    let code = args::parse(std::env::args_os()).and_then(|cli| cli.map_or(Ok(0), dispatch));
    ExitCode::from(code.unwrap_or_else(Failure::report))
}

/// One thread, and that the first: a child's death signal is tied to the thread that forked it.
fn dispatch(cli: Cli) -> Result<u8, Failure> {
    warnings::show(cli.command.takes_lock());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Failure::new(exit::UNAVAILABLE, format_args!("no runtime could be started: {error}"))
    })?;
    runtime.block_on(async {
        let store = cli.store.as_deref();
        match cli.command {
            Command::Run(args) => commands::run::run(store, args).await,
            Command::Elect(args) => commands::elect::run(store, args).await,
            Command::Acquire(args) => commands::acquire::run(store, args).await,
            Command::Renew(args) => commands::renew::run(store, args).await,
            Command::Release(args) => commands::release::run(store, args).await,
            Command::Ls(args) => commands::ls::run(store, args).await,
            Command::Show(args) => commands::show::run(store, args).await,
            Command::Top(args) => commands::top::run(store, args).await,
            Command::Break(args) => commands::break_lock::run(store, args).await,
            Command::Pool(args) => commands::pool::run(store, args).await,
            Command::Serve(args) => commands::serve::run(store, args).await,
            Command::Doctor(args) => commands::doctor::run(store, args).await,
            Command::Completions(args) => commands::completions::run(args),
            Command::Man(args) => commands::man::run(args),
        }
    })
}
