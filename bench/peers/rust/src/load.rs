//! The two loads, for any library.

use std::error::Error;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::args::{Args, Load};
use crate::clock::now_us;

/// Whatever went wrong. The run is of no use then.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A lease that outlasts any hold and any run of a library that wants one to be named.
pub const LEASE: Duration = Duration::from_secs(30);

/// How long the tasks run before anything counts.
const WARM_UP: Duration = Duration::from_millis(200);

/// How long after its time a run may end. A library that loses a wake-up may wait for ever.
const GRACE: Duration = Duration::from_secs(30);

/// A library's client, with one connection where that is up to us.
pub trait Client: Send + Sync + Sized + 'static {
    /// What stands for a held lock.
    type Held: Send;

    fn connect(url: &str) -> impl Future<Output = Result<Self, Failure>> + Send;

    /// Waits until the lock is held.
    fn acquire(&self, name: &str) -> impl Future<Output = Result<Self::Held, Failure>> + Send;

    /// Returns when the server has confirmed it.
    fn release(&self, held: Self::Held) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Runs a load, and prints what came of it.
pub async fn run<C: Client>(args: &Args) -> Result<(), Failure> {
    let load = load::<C>(args);
    let printed = timeout(args.duration + GRACE, load).await.map_err(|_| "it does not end")??;
    print!("{printed}");
    Ok(())
}

async fn load<C: Client>(args: &Args) -> Result<String, Failure> {
    match args.load {
        Load::Pairs { tasks } => pairs::<C>(&args.url, tasks, args.duration).await,
        Load::Crowd { clients, hold } => crowd::<C>(&args.url, clients, hold, args.duration).await,
    }
}

async fn pairs<C: Client>(url: &str, tasks: usize, duration: Duration) -> Result<String, Failure> {
    let client = Arc::new(C::connect(url).await?);
    let from = now_us() + WARM_UP.as_micros() as u64;
    let until = from + duration.as_micros() as u64;
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let client = Arc::clone(&client);
        running.spawn(async move {
            let name = format!("pairs-{task}");
            let mut pairs = 0_u64;
            loop {
                let held = client.acquire(&name).await?;
                client.release(held).await?;
                match now_us() {
                    now if now >= until => return Ok::<_, Failure>(pairs),
                    now if now >= from => pairs += 1,
                    _ => {}
                }
            }
        });
    }
    let mut pairs = 0;
    while let Some(done) = running.join_next().await {
        pairs += done??;
    }
    Ok(format!("{{\"pairs\": {pairs}, \"seconds\": {}}}\n", duration.as_secs_f64()))
}

/// When a client asked, when it got the lock, and when it called release.
struct Turn {
    asked: u64,
    got: u64,
    released: u64,
}

async fn crowd<C: Client>(
    url: &str,
    clients: usize,
    hold: Duration,
    duration: Duration,
) -> Result<String, Failure> {
    let ready = Arc::new(Barrier::new(clients));
    let mut running = JoinSet::new();
    for number in 0..clients {
        let (url, ready) = (url.to_owned(), Arc::clone(&ready));
        running.spawn(async move {
            let client = C::connect(&url).await?;
            // So that scripts are loaded and buffers are there.
            let held = client.acquire(&format!("crowd-{number}")).await?;
            client.release(held).await?;
            ready.wait().await;
            let turns = take_turns(&client, hold, duration).await?;
            Ok::<_, Failure>((number, turns))
        });
    }
    let mut printed = String::new();
    while let Some(done) = running.join_next().await {
        let (number, turns) = done??;
        for Turn { asked, got, released } in turns {
            writeln!(printed, "turn {number} {asked} {got} {released}")?;
        }
    }
    Ok(printed)
}

/// Who waits when the time is over waits to the end, so that the longest wait is among the turns.
async fn take_turns<C: Client>(
    client: &C,
    hold: Duration,
    duration: Duration,
) -> Result<Vec<Turn>, Failure> {
    let until = now_us() + duration.as_micros() as u64;
    let mut turns = Vec::new();
    loop {
        let asked = now_us();
        if asked >= until {
            return Ok(turns);
        }
        let held = client.acquire("crowd").await?;
        let got = now_us();
        // The runtime's own timer counts in milliseconds, and rounds up.
        let _ = tokio::task::spawn_blocking(move || std::thread::sleep(hold)).await;
        let released = now_us();
        client.release(held).await?;
        turns.push(Turn { asked, got, released });
    }
}
