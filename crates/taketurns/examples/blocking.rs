//! Without async: the same names, and what async code awaits, this waits for.

use std::time::Duration;

use taketurns::blocking;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let url = format!("file:{}", directory.path().join("locks.db").display());
    let locks = blocking::connect(&url)?;

    let guard =
        locks.mutex("backup").acquire().within(Duration::from_secs(5)).why("nightly").wait()?;
    println!("held with token {}", guard.check()?);
    println!("meanwhile another gets: {:?}", locks.mutex("backup").try_acquire().wait()?);
    guard.release()?;

    let files =
        locks.mutex("backup").acquire().run(|guard| format!("by token {:?}", guard.token()))?;
    println!("backed up {files}");
    Ok(())
}
