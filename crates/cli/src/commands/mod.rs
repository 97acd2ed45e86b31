//! The commands, one file each with its arguments and its work.

pub(crate) mod acquire;
pub(crate) mod break_lock;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod elect;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod once;
pub(crate) mod pool;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod top;
pub(crate) mod undo;

use std::io::{self, IsTerminal, Read};

use taketurns::Handle;

use crate::exit::ExitFailure;

/// Most bytes read from stdin; a real handle is far shorter.
const HANDLE_BYTES_MAX: u64 = 8 * 1024;

/// Reads the handle from the environment or from stdin. Every user of the machine could read it on the
/// command line.
fn handle() -> Result<Handle, ExitFailure> {
    let given = std::env::var_os("TAKETURNS_HANDLE").unwrap_or_default();
    let given = given.to_str().ok_or(taketurns::Error::InvalidHandle)?;
    if !given.trim().is_empty() {
        // It ends with the lock's name, which may have spaces at its end.
        return Ok(Handle::parse(given.trim_start())?);
    }
    let missing =
        "no handle: pass what `taketurns acquire` printed in TAKETURNS_HANDLE or on stdin";
    if io::stdin().is_terminal() {
        return Err(ExitFailure::usage(missing));
    }
    let mut text = String::new();
    let read = io::stdin().take(HANDLE_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| {
        ExitFailure::usage(format_args!("can't read a handle from stdin: {error}"))
    })?;
    if text.trim().is_empty() {
        return Err(ExitFailure::usage(missing));
    }
    Ok(Handle::parse(text.trim_start())?)
}
