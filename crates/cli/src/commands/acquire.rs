//! `taketurns acquire`: acquires a lock for a shell script and leaves it held.

use rustix::process::{getpid, getppid};
use serde::Serialize;
use taketurns::{Handle, Locks, Member, Name, Token};

use crate::ask::{self, AskArgs, HoldTimes};
use crate::exit::{self, ExitFailure};
use crate::output;
use crate::signals::Signals;
use crate::store::{self, StoreConnection};

/// Acquire a lock for a shell script, and print its handle
///
/// The lock stays held until its lease ends. `taketurns renew` extends the lease, `taketurns release`
/// releases the lock. The handle is a secret: keep it in a variable and pass it in the environment.
///
///   TAKETURNS_HANDLE=$(taketurns acquire --lease 60 backup) && export TAKETURNS_HANDLE
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, after_help = exit::help())]
pub(crate) struct Args {
    #[command(flatten)]
    ask: AskArgs,

    /// Print a JSON document: handle, lock, token, member, valid_for_ms
    #[arg(long)]
    json: bool,
}

/// What `acquire --json` prints.
#[derive(Serialize)]
struct AcquireJson<'a> {
    /// The secret that renews and releases the lock.
    handle: String,
    /// The lock's name.
    lock: &'a Name,
    /// The fencing token; null only from a store that has none.
    token: Option<Token>,
    /// The pool's member that was taken, else null.
    member: Option<Member>,
    /// How long the lock is held from now without a renewal.
    valid_for_ms: u64,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    let mut signals = Signals::listen()?;
    // The script is shown as the holder: this process is gone in a moment.
    let holder = getppid().unwrap_or(getpid());
    let loading = args.ask.wait.loading();
    let opened = ask::open(store, "acquire", holder, loading, &mut signals).await?;
    let done = acquire(&opened, &args, &mut signals).await;
    store::close(opened.locks).await;
    done.map(|()| 0)
}

async fn acquire(
    opened: &StoreConnection,
    args: &Args,
    signals: &mut Signals,
) -> Result<(), ExitFailure> {
    let locks = &opened.locks;
    let guard = ask::acquire(opened, &args.ask, HoldTimes::default(), signals).await?;
    let member = guard.member().cloned();
    let handle = guard.into_handle().await?;
    if let Err(mut failure) = print(locks, args, &handle, member).await {
        // Nobody has the handle, so nobody could ever release it.
        let _ = locks.release(&handle).await;
        // A broken pipe is a failure here: the reader did not get the handle.
        if failure.code == 0 {
            failure.code = exit::OUTPUT;
        }
        return Err(failure);
    }
    Ok(())
}

async fn print(
    locks: &Locks,
    args: &Args,
    handle: &Handle,
    member: Option<Member>,
) -> Result<(), ExitFailure> {
    if !args.json {
        return output::text(handle.expose());
    }
    let valid_for = locks.renew(handle, None).await?;
    output::json(&AcquireJson {
        handle: handle.expose(),
        lock: &args.ask.lock,
        token: handle.token().fenced(),
        member,
        valid_for_ms: output::whole_millis(valid_for),
    })
}
