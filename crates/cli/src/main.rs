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
mod json;
mod output;
mod paint;
mod process_group;
mod serve;
mod signals;
mod status;
mod store;
mod supervise;
mod terminal;
mod text;
mod top;
mod warnings;
mod watch;

use std::process::ExitCode;

use args::{Cli, CliCommand};
use exit::ExitFailure;

fn main() -> ExitCode {
    let code = args::parse(std::env::args_os()).and_then(|cli| cli.map_or(Ok(0), dispatch));
    ExitCode::from(code.unwrap_or_else(ExitFailure::report))
}

/// One thread, and that the first: a child's death signal is tied to the thread that forked it.
fn dispatch(cli: Cli) -> Result<u8, ExitFailure> {
    warnings::show(cli.command.takes_lock());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        ExitFailure::new(exit::UNAVAILABLE, format_args!("no runtime could be started: {error}"))
    })?;
    runtime.block_on(async {
        let store = cli.store.as_deref();
        match cli.command {
            CliCommand::Run(args) => commands::run::run(store, args).await,
            CliCommand::Elect(args) => commands::elect::run(store, args).await,
            CliCommand::Acquire(args) => commands::acquire::run(store, args).await,
            CliCommand::Renew(args) => commands::renew::run(store, args).await,
            CliCommand::Release(args) => commands::release::run(store, args).await,
            CliCommand::Ls(args) => commands::ls::run(store, args).await,
            CliCommand::Show(args) => commands::show::run(store, args).await,
            CliCommand::Top(args) => commands::top::run(store, args).await,
            CliCommand::Break(args) => commands::break_lock::run(store, args).await,
            CliCommand::Pool(args) => commands::pool::run(store, args).await,
            CliCommand::Serve(args) => commands::serve::run(store, args).await,
            CliCommand::Doctor(args) => commands::doctor::run(store, args).await,
            CliCommand::Completions(args) => commands::completions::run(args),
            CliCommand::Man(args) => commands::man::run(args),
        }
    })
}
