//! A number of permits: six jobs share four GPUs, and some take two.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = taketurns::connect("memory:").await?;
    let busy = Arc::new(AtomicU32::new(0));
    let mut jobs = Vec::new();
    for job in 0..6_u32 {
        let (gpus, busy) = (locks.semaphore("gpu", 4), busy.clone());
        jobs.push(tokio::spawn(async move {
            let take = 1 + job % 2;
            let guard = gpus.acquire_many(take).await?;
            let now = busy.fetch_add(take, Ordering::SeqCst) + take;
            println!("job {job} has {take}; {now} of 4 are busy");
            assert!(now <= 4);
            tokio::time::sleep(Duration::from_millis(5)).await;
            busy.fetch_sub(take, Ordering::SeqCst);
            guard.release().await
        }));
    }
    for job in jobs {
        job.await??;
    }
    Ok(())
}
