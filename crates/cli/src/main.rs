//! `taketurns`: runs a command while holding a distributed lock, and manages locks from the shell.
//!
//! The program is glue: `taketurns-core` is the lock, `taketurns` the client and its stores. Here are
//! the command line ([`args`]), one file per command ([`commands`]), running a child under a lock
//! ([`supervise`], [`terminal`], [`child`]), watching a store ([`mod@top`], [`watch`]), showing the
//! library's warnings ([`warnings`]), and exit codes ([`exit`]).

mod args;
mod ask;
mod child;
mod commands;
mod exit;
#[cfg(test)]
mod fuzz;
mod held;
mod json;
mod output;
mod paint;
mod period;
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
mod work;

use std::process::ExitCode;

use args::{Cli, CliCommand};
use exit::ExitFailure;

fn main() -> ExitCode {
    let code = args::parse(std::env::args_os()).and_then(|cli| cli.map_or(Ok(0), dispatch));
    ExitCode::from(code.unwrap_or_else(ExitFailure::report))
}

/// Runs the command on the main thread alone: a child's death signal is tied to the thread that forked it.
fn dispatch(cli: Cli) -> Result<u8, ExitFailure> {
    warnings::show(cli.command.takes_lock());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        ExitFailure::new(exit::UNAVAILABLE, format_args!("can't start the async runtime: {error}"))
    })?;
    runtime.block_on(async {
        let store = cli.store.as_deref();
        match cli.command {
            CliCommand::Run(args) => commands::run::run(store, args).await,
            CliCommand::Once(args) => commands::once::run(store, args).await,
            CliCommand::Undo(args) => commands::undo::run(store, args).await,
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
            CliCommand::Schema(args) => commands::schema::run(args),
            CliCommand::Completions(args) => commands::completions::run(args),
            CliCommand::Man(args) => commands::man::run(args),
        }
    })
}
