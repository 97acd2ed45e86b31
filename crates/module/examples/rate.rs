//! Measures what a lock costs the server, beside the raw commands that people lock with. Both are
//! pipelined, in turns, on the same server. The unit is the time that the server's main thread
//! spends, so other load on the machine does not matter.
//!
//! ```text
//! cargo build --release -p taketurns-module
//! cargo run --release -p taketurns-module --example rate
//! ```

use std::error::Error;
use std::path::Path;

use taketurns_servers::{Connection, Flavor, Server, ServerReply};

/// Names that are locked and released again and again.
const NAMES: usize = 10_000;
const ROUNDS: usize = 15;
const PIPELINE: usize = 64;
const HAND_OVERS: usize = 1_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let module = Path::new("target/release/libtaketurns_module.so");
    if !module.exists() {
        return Err("build it first: cargo build --release -p taketurns-module".into());
    }
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let server = Server::builder(flavor).module(module, &[]).start()?;
        pairs(&server)?;
        hand_overs(&server)?;
    }
    Ok(())
}

/// Returns what the server's main thread has spent so far, in microseconds.
fn spent_us(server: &Server) -> f64 {
    let info = server.info("cpu");
    let seconds = |field: &str| info.get(field).and_then(|text| text.parse::<f64>().ok());
    let spent = ["used_cpu_user_main_thread", "used_cpu_sys_main_thread"].map(seconds);
    spent.into_iter().flatten().sum::<f64>() * 1e6
}

/// Sends all commands in pipelines. Returns the replies and the cost of one command.
fn cost(
    server: &Server,
    client: &mut Connection,
    commands: &[Vec<String>],
) -> Outcome<(Vec<ServerReply>, f64)> {
    let before = spent_us(server);
    let mut replies = Vec::with_capacity(commands.len());
    for batch in commands.chunks(PIPELINE) {
        client.send_all(batch)?;
        for _ in batch {
            replies.push(client.read()?);
        }
    }
    Ok((replies, (spent_us(server) - before) / commands.len() as f64))
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

fn pairs(server: &Server) -> Outcome<()> {
    let mut client = server.connect()?;
    let each = |text: &dyn Fn(usize) -> String| -> Vec<Vec<String>> {
        (0..NAMES).map(|n| words(&text(n))).collect()
    };
    let (mut set, mut del, mut acquire, mut release) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let (replies, spent) =
            cost(server, &mut client, &each(&|n| format!("SET raw:{n} me NX PX 30000")))?;
        assert!(replies.iter().all(ServerReply::is_ok), "each was free");
        set.push(spent);
        del.push(cost(server, &mut client, &each(&|n| format!("DEL raw:{n}")))?.1);
        let (replies, spent) =
            cost(server, &mut client, &each(&|n| format!("FENCELOCK.ACQUIRE lk:{n} 30")))?;
        acquire.push(spent);
        let secrets: Vec<i64> = replies
            .iter()
            .map(|reply| reply.array().and_then(|grant| grant[0].int()).ok_or("not granted"))
            .collect::<Result<_, _>>()?;
        let releases = each(&|n| format!("FENCELOCK.RELEASE lk:{n} {}", secrets[n]));
        let (replies, spent) = cost(server, &mut client, &releases)?;
        assert!(replies.iter().all(ServerReply::is_ok), "each was held");
        release.push(spent);
    }
    let [set, del, acquire, release] = [set, del, acquire, release].map(median);
    println!("{}: server µs, median of {ROUNDS} rounds of {NAMES}", server.flavor());
    println!("  SET NX PX {set:.2}   ACQUIRE {acquire:.2}   rate {:.2} ×", set / acquire);
    println!("  DEL       {del:.2}   RELEASE {release:.2}   rate {:.2} ×", del / release);
    let rate = (set + del) / (acquire + release);
    println!("  the pair  {:.2}   the pair {:.2}  rate {rate:.2} ×", set + del, acquire + release);
    Ok(())
}

/// Measures a release that hands over, with different numbers of waiters.
fn hand_overs(server: &Server) -> Outcome<()> {
    let run = &server.info("server")["run_id"];
    let mut client = server.connect()?;
    let bind = ["FENCELOCK.BIND", run, "", "", "", "0", "60000", "wake:"];
    let binding = client.command(&bind)?.text().ok_or("not bound")?.to_owned();
    let acquire = |owner: usize| {
        let mut words = words(&format!(
            "FENCELOCK.DO crowd {binding} acquire {owner:032x} {:016x} m 30000 86400000 \
             99999999999999",
            owner % 1_000 + 1
        ));
        words.push("who\nwhy".into());
        words
    };
    let mut first = None;
    for crowd in [1, 100, 10_000, 99_000] {
        client.command(&["DEL", "crowd"])?;
        let crowd_of: Vec<Vec<String>> = (0..=crowd).map(acquire).collect();
        cost(server, &mut client, &crowd_of)?;
        // Each client releases and asks again, so the number of waiters stays the same.
        let mut spent = Vec::new();
        let turns: Vec<Vec<String>> = (0..HAND_OVERS)
            .flat_map(|turn| {
                let release = words(&format!("FENCELOCK.DO crowd {binding} release {turn:032x} 0"));
                [release, acquire(turn + crowd + 1)]
            })
            .collect();
        for batch in turns.chunks(200) {
            spent.push(2.0 * cost(server, &mut client, batch)?.1);
        }
        let spent = median(spent);
        let flat = spent / *first.get_or_insert(spent);
        println!("  a turn with {crowd:>6} waiting: {spent:.2} µs, {flat:.2} × that with one");
    }
    Ok(())
}
