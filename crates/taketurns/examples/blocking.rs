//! Without async, and between processes: a store in a file, a lock carried over as a handle.

use std::time::Duration;

use taketurns::{Handle, blocking};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let url = format!("file:{}", directory.path().join("locks.db").display());

    let locks = blocking::connect(&url)?;
    let guard =
        locks.mutex("backup").acquire().within(Duration::from_secs(5)).why("nightly").wait()?;
    println!("held with token {}", guard.check()?);
    let text = guard.into_handle()?.expose(); // a secret: whoever has it can release the lock

    let another_process = blocking::connect(&url)?;
    println!("meanwhile: {:?}", another_process.mutex("backup").try_acquire().wait()?);
    let guard = another_process.adopt(Handle::parse(&text)?)?;
    println!("adopted, still with token {}", guard.check()?);
    guard.release()?;
    Ok(())
}
