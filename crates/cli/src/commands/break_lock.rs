//! `taketurns break`: takes a lock away from its holder.

use taketurns::{Name, Token};

use crate::ask;
use crate::exit::ExitFailure;
use crate::json;
use crate::output;
use crate::store;

/// Break a lock: its holder loses it and can't renew it
///
/// The next waiter gets the lock when the holder has stopped, at the latest when its lease ends. With --now
/// the next waiter gets it at once, even if the old holder is still running: then only the fencing token
/// protects the data that both write. It is no error if nobody holds the lock.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Grant the lock to the next waiter at once
    #[arg(long)]
    now: bool,

    /// Only the holder with this fencing token, as `show` prints it; default: all holders
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
        (0, Some(token)) => format!("{lock}: no holder with token {token}, nothing to break"),
        (0, None) => format!("{lock}: no holder, nothing to break"),
        _ if args.now => format!("{lock}: taken from {holders}"),
        (1, _) => format!(
            "{lock}: broken for 1 holder; free when the holder stops, at the latest when its lease ends"
        ),
        _ => format!(
            "{lock}: broken for {holders}; free when they stop, at the latest when their leases end"
        ),
    }
}

fn token(text: &str) -> Result<Token, String> {
    let token = text.parse().map_err(|_| "a token is a number, as `taketurns show` prints it")?;
    Ok(Token::from_raw(token))
}
