//! Why a lock alone is not enough, and what the token is for: a holder that was paused for longer
//! than its lease resumes and writes. The fence refuses the write.

use std::time::Duration;

use taketurns::fence::Fence;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = taketurns::connect("memory:").await?;
    let fence = Fence::new(); // on the resource's side; SqliteFence remembers across restarts
    let mut report = String::new();

    let slow = locks.mutex("report").acquire().lease(Duration::from_millis(500)).await?;
    let stale = slow.check()?;
    fence.write("report", stale, || report = "first draft".into())?;
    println!("the slow writer holds token {stale}, and is stopped");
    let nobody_renews = slow.into_handle().await?; // as if its process had been suspended

    let quick = locks.mutex("report").acquire().await?;
    let fresh = quick.check()?;
    fence.write("report", fresh, || report = "final".into())?;
    println!("its lease ran out; the next one holds token {fresh} and writes");

    println!("the slow writer goes on as if nothing had happened …");
    let refused = fence.write("report", stale, || report = "first draft, revised".into());
    println!("… and is refused: {}", refused.expect_err("the fence refuses what is stale"));
    println!(
        "its lock is gone too: {}",
        locks.renew(&nobody_renews, None).await.expect_err("gone")
    );
    assert_eq!(report, "final");
    Ok(())
}
