//! Without async: `wait()` where async code says `.await`.

use std::time::Duration;

use taketurns::blocking::Wait;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let url = format!("file:{}", directory.path().join("locks.db").display());
    let locks = taketurns::connect(&url).wait()?;

    let acquire = locks.mutex("backup").acquire().within(Duration::from_secs(5)).why("nightly");
    let guard = acquire.wait()?;
    println!("held with token {}", guard.check()?);
    println!("meanwhile another gets: {:?}", locks.mutex("backup").try_acquire().wait()?);
    guard.release().wait()?;

    let files = locks.mutex("backup").run(async |token| format!("by token {token}")).wait()?;
    println!("backed up {files}");

    drop(locks.mutex("backup").acquire().wait()?); // released in the background …
    locks.close().wait(); // … and surely by now: a process may end before a drop is done
    Ok(())
}
