//! Several locks at once: two tasks name them in opposite order, and they don't deadlock.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = taketurns::connect("memory:").await?;
    let mut tasks = Vec::new();
    for names in [["from", "to"], ["to", "from"]] {
        let locks = locks.clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..100 {
                let both = locks.all(names).acquire().why("a transfer").await?;
                assert_eq!(both.check()?.len(), 2);
                both.release().await?;
            }
            Ok::<_, taketurns::Error>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    println!("two hundred transfers, no deadlock");
    Ok(())
}
