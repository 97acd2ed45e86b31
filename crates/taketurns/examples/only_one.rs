//! Only one worker at a time: three stand by, one does the work, and when it ends the next takes
//! over. If the lock is lost, the work's future is dropped at once.

use std::time::Duration;

use taketurns::Locks;

async fn worker(name: &str, locks: Locks) -> Result<(), taketurns::Error> {
    let leads = locks.mutex("leader").acquire().lease(Duration::from_secs(2)).why(name);
    leads
        .run(async |token| {
            println!("{name} leads with token {token}");
            tokio::time::sleep(Duration::from_millis(20)).await;
            println!("{name} is done");
        })
        .await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = taketurns::connect("memory:").await?;
    let workers = ["anna", "bert", "carl"].map(|name| tokio::spawn(worker(name, locks.clone())));
    for worker in workers {
        worker.await??;
    }
    Ok(())
}
