//! Many readers or one writer: readers share, and new readers don't overtake a waiting writer.

use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = taketurns::connect("memory:").await?;
    let config = locks.rwlock("config");
    let (one, two) = (config.read().await?, config.read().await?);
    println!("two readers at once: tokens {} and {}", one.check()?, two.check()?);

    let writer = tokio::spawn({
        let config = config.clone();
        async move { config.write().why("new settings").await }
    });
    while locks.inspect("config").await?.is_none_or(|view| view.waiting == 0) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!("a writer waits, so a new reader gets: {:?}", config.try_read().await?);

    one.release().await?;
    two.release().await?;
    let writer = writer.await??;
    println!("the writer holds alone with token {}", writer.check()?);
    writer.release().await?;
    Ok(())
}
