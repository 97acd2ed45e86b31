//! `taketurns break`: take a lock away from its holder.

use taketurns::{Name, Token};

use crate::ask;
use crate::exit::ExitFailure;
use crate::json;
use crate::output;
use crate::store;

/// Break a lock: its holder is told that it is lost, and can't renew it any more
///
/// It passes on when the holder lets go, at the latest when its lease ends, so that the holder has
/// time to stop. With --now it passes on at once, also if the holder does not know yet: then only the fencing token protects
/// what both of them write to. It is no error if nobody holds the lock.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pass the lock on at once
    #[arg(long)]
    now: bool,

    /// Only the holder with this fencing token, as `show` says it; all of them if left out
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    #[arg(allow_negative_numbers = true)]
    token: Option<Token>,

    /// The lock's name
    #[arg(value_parser = ask::name)]
    lock: Name,

    /// Print a JSON document: lock, broken (how many holders), at_once
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    let locks = store::open(store).await?;
    let mut breaking = locks.break_lock(args.lock.as_str());
    if args.now {
        breaking = breaking.at_once();
    }
    if let Some(token) = args.token {
        breaking = breaking.token(token);
    }
    let broken = breaking.await;
    store::close(locks).await;
    let (lock, broken) = (&args.lock, broken?);
    if args.json {
        output::json(&json::BreakJson { lock, broken, at_once: args.now })?;
    } else {
        output::text(describe(lock, broken, &args))?;
    }
    Ok(0)
}

fn describe(lock: &Name, broken: u32, args: &Args) -> String {
    let holders = output::count(broken as usize, "holder");
    match (broken, args.token) {
        (0, Some(token)) => format!("{lock}: nobody holds it with token {token}, nothing to break"),
        (0, None) => format!("{lock}: nobody holds it, nothing to break"),
        _ if args.now => format!("{lock}: taken from {holders}"),
        (1, _) => format!(
            "{lock}: broken for 1 holder, and free when that lets go, at the latest when its lease ends"
        ),
        _ => format!(
            "{lock}: broken for {holders}, and free when those let go, at the latest when their leases \
             end"
        ),
    }
}

fn token(text: &str) -> Result<Token, String> {
    let token = text.parse().map_err(|_| "it is not a token, which is a number")?;
    Ok(Token::from_raw(token))
}
