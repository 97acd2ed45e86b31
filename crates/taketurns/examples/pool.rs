//! Named members: take any browser that is free, or a named one.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = taketurns::connect("memory:").await?;
    let browsers = locks.pool("browsers");
    for member in ["b-1", "b-2", "b-3"] {
        browsers.add(member).await?;
    }
    let named = browsers.member("b-2").await?;
    let any = browsers.any().await?;
    let other = browsers.any().await?;
    for guard in [&named, &any, &other] {
        println!("{} with token {}", guard.member().expect("a pool has members"), guard.check()?);
    }
    println!("a fourth taker gets: {:?}", browsers.try_any().await?);

    other.release().await?;
    let again = browsers.any().await?;
    println!("once one is free: {}", again.member().expect("a pool has members"));
    Ok(())
}
