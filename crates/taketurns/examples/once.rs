//! Work that is done once: three workers want the report of the night. One writes it; the others are told who did.

use std::time::Duration;

use taketurns::{Locks, OnceOutcome};

async fn worker(name: &str, locks: Locks) -> Result<(), taketurns::Error> {
    let week = Duration::from_secs(7 * 24 * 60 * 60);
    let report = locks.once("report/2026-11-16").remember_for(week).why(name);
    let outcome = report
        .run(async |token| {
            println!("{name} writes the report with token {token}");
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, std::io::Error>("3 pages")
        })
        .await?;
    match outcome {
        OnceOutcome::DidIt(pages) => println!("{name} wrote {pages}"),
        OnceOutcome::DoneBefore(done) => println!("{name} has nothing to do: {} did it", done.by),
        // Nothing is recorded, so the next worker tries.
        OnceOutcome::Failed(error) => println!("{name} failed: {error}"),
    }
    Ok(())
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
