//! One holder at a time: four tasks count to twenty without losing a step.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = taketurns::connect("memory:").await?;
    let count = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for task in 0..4 {
        let (locks, count) = (locks.clone(), count.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..5 {
                let guard = locks.mutex("count").acquire().why(format!("task {task}")).await?;
                let read = count.load(Ordering::Relaxed);
                tokio::task::yield_now().await; // anyone could come in between, but for the lock
                count.store(read + 1, Ordering::Relaxed);
                guard.release().await?;
            }
            Ok::<_, taketurns::Error>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    println!("counted to {}", count.load(Ordering::Relaxed));
    assert_eq!(count.load(Ordering::Relaxed), 20);
    Ok(())
}
