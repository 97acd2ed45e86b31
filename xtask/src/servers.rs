//! Servers to try things on: one alone, one set with Sentinel, one Cluster. They keep nothing, and
//! end with this process, however that ends.

use std::thread;

use taketurns_servers::{Cluster, Error, Flavor, Replicated, Server};

/// As docs/redis.md would have a set with Sentinel; without it, every command would warn.
const GUARDED: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "10"];

/// Starts them, says where they are, and stays until it is ended.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let flavor = flavor(args)?;
    eprintln!("==> starting {flavor}: a server, a Sentinel set, a Cluster");
    let (server, replicated, cluster) = start(flavor).map_err(|error| error.to_string())?;
    let urls = [
        ("alone", server.url()),
        ("with Sentinel", replicated.url()),
        ("as a Cluster", cluster.url()),
    ];
    print!("{}", table(&urls));
    loop {
        // Until a signal ends the process. The servers notice.
        thread::park();
    }
}

fn flavor(mut args: impl Iterator<Item = String>) -> Result<Flavor, String> {
    match (args.next().as_deref(), args.next()) {
        (None, _) => Ok(Flavor::Redis),
        (Some("--valkey"), None) => Ok(Flavor::Valkey),
        _ => Err("usage: cargo xtask servers [--valkey]".to_owned()),
    }
}

fn start(flavor: Flavor) -> Result<(Server, Replicated, Cluster), Error> {
    let starting = (
        thread::spawn(move || Server::start(flavor)),
        thread::spawn(move || Replicated::builder(flavor).args(GUARDED).start()),
        thread::spawn(move || Cluster::builder(flavor).replicas(true).start()),
    );
    let fault = "a start does not panic";
    Ok((
        starting.0.join().expect(fault)?,
        starting.1.join().expect(fault)?,
        starting.2.join().expect(fault)?,
    ))
}

fn table(urls: &[(&str, String)]) -> String {
    let width = urls.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let rows: String = urls.iter().map(|(name, url)| format!("  {name:width$}  {url}\n")).collect();
    let url = urls.first().map(|(_, url)| &url[..]).unwrap_or_default();
    format!(
        "\n{rows}\n\
         Try, in another terminal:\n\n  \
         export TAKETURNS_STORE={url}\n  \
         cargo run -- run hello -- sleep 60\n  \
         cargo run -- show hello\n\n\
         Ctrl-C ends all of them.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_aligned_and_the_first_is_tried() {
        let urls = [("alone", "redis://a".to_owned()), ("with Sentinel", "redis+b".to_owned())];
        let table = table(&urls);
        assert!(
            table.contains("  alone          redis://a\n  with Sentinel  redis+b\n"),
            "{table}"
        );
        assert!(table.contains("TAKETURNS_STORE=redis://a\n"));
    }

    #[test]
    fn valkey_is_asked_for() {
        let parsed = |args: &[&str]| flavor(args.iter().map(|&arg| arg.to_owned()));
        assert_eq!(parsed(&[]), Ok(Flavor::Redis));
        assert_eq!(parsed(&["--valkey"]), Ok(Flavor::Valkey));
        assert!(parsed(&["--redis"]).is_err());
        assert!(parsed(&["--valkey", "x"]).is_err());
    }
}
