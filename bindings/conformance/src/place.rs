//! Real servers for the tests of a package in another language: a Redis server, a quorum of three and a PostgreSQL, which
//! end when stdin does.
//!
//! It says where they are in one line, `{"redis": URL, "quorum": URL, "postgres": URL, "folder": PATH}`. Then it takes lines:
//! `pause`, `resume`, `kill`, `restart` (the Redis server), and answers each with `ok`.

use std::io::{self, BufRead, Write};

use serde_json::json;
use taketurns_servers::others::Postgres;
use taketurns_servers::{Flavor, Server, SetupError};

fn main() -> Result<(), SetupError> {
    let folder = tempfile::tempdir()?;
    let redis = Server::start(Flavor::Redis)?;
    let nodes = (0..3).map(|_| Server::start(Flavor::Redis)).collect::<Result<Vec<_>, _>>()?;
    let postgres = Postgres::builder().quick().start()?;
    let quorum = nodes.iter().map(Server::url).collect::<Vec<_>>().join(",");
    let mut stdout = io::stdout().lock();
    let places = json!({
        "redis": redis.url(),
        "quorum": format!("quorum:{quorum}"),
        "postgres": postgres.url(),
        "folder": folder.path(),
    });
    writeln!(stdout, "{places}")?;
    stdout.flush()?;
    for line in io::stdin().lock().lines() {
        match line?.trim() {
            "pause" => redis.pause(),
            "resume" => redis.resume(),
            "kill" => redis.kill(),
            "restart" => redis.restart()?,
            other => eprintln!("there is no command {other:?}"),
        }
        writeln!(stdout, "ok")?;
        stdout.flush()?;
    }
    Ok(())
}
