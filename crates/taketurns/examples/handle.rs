//! A held lock that moves: acquired here, then adopted by a second client, as another process
//! would.

use std::time::Duration;

use taketurns::Handle;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let url = format!("file:{}", directory.path().join("locks.db").display());

    let here = taketurns::connect(&url).await?;
    let guard = here.mutex("import").acquire().lease(Duration::from_secs(5)).await?;
    println!("acquired with token {}", guard.check()?);
    let text = guard.into_handle().await?.expose(); // a secret: it is enough to release the lock
    here.close().await;

    let there = taketurns::connect(&url).await?;
    let guard = there.adopt(Handle::parse(&text)?).await?;
    println!("adopted, still with token {}; now it is renewed there", guard.check()?);
    guard.release().await?;
    Ok(())
}
