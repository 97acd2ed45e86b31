//! `cargo xtask servers`: starts servers to try things on: one alone, one set with Sentinel, one Cluster, three for a quorum. They keep
//! nothing, and end with this process, however that ends.

use std::path::PathBuf;
use std::thread;

use taketurns_servers::{
    Builder, Cluster, Flavor, ReplicaSet, Server, SetupError, module_in, target_dir,
};

use crate::install::{self, Dependency};
use crate::{run_all, task};

/// As docs/redis.md would have a set with Sentinel; without it, every command would warn.
const GUARDED: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "10"];

/// What is asked for on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    flavor: Flavor,
    module: bool,
}

/// Starts them, says where they are, and stays until it is ended.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let options = Options::parse(args)?;
    let module = options.module.then(build).transpose()?;
    eprintln!("==> starting {}: a server, a Sentinel set, a Cluster, a quorum", options.flavor);
    let started = start(options.flavor, module).map_err(|error| error.to_string())?;
    let (server, replicated, cluster, nodes) = started;
    let quorum: Vec<String> = nodes.iter().map(Server::url).collect();
    let urls = [
        ("alone", server.url()),
        ("with Sentinel", replicated.url()),
        ("as a Cluster", cluster.url()),
        ("as a quorum", format!("quorum:{}", quorum.join(","))),
    ];
    let client = format!("{} -p {}", options.flavor.client(), server.port());
    print!("{}", table(&urls, options.module.then_some(client.as_str())));
    loop {
        // Until a signal ends the process. The servers notice.
        thread::park();
    }
}

impl Options {
    fn parse(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { flavor: Flavor::Redis, module: false };
        for arg in args {
            match arg.as_str() {
                "--valkey" => options.flavor = Flavor::Valkey,
                "--module" => options.module = true,
                _ => return Err("usage: cargo xtask servers [--valkey] [--module]".to_owned()),
            }
        }
        Ok(options)
    }
}

/// Builds the module for release, and returns its path.
fn build() -> Result<PathBuf, String> {
    install::missing(&[Dependency::Libclang])?;
    run_all(&[task("module", &["build", "--release", "--package", "taketurns-module"])])?;
    Ok(module_in(&target_dir().join("release")))
}

type ServerSet = (Server, ReplicaSet, Cluster, Vec<Server>);

fn start(flavor: Flavor, module: Option<PathBuf>) -> Result<ServerSet, SetupError> {
    let mut server = Server::builder(flavor);
    let mut replicated = ReplicaSet::builder(flavor).args(GUARDED);
    let mut cluster = Cluster::builder(flavor).replicas(true);
    if let Some(path) = module {
        server = server.module(&path, &[]);
        replicated = replicated.module(&path, &[]);
        cluster = cluster.module(&path, &[]);
    }
    let node = server.clone();
    let starting = (
        thread::spawn(|| server.start()),
        thread::spawn(|| replicated.start()),
        thread::spawn(|| cluster.start()),
        thread::spawn(move || nodes_of(&node)),
    );
    let fault = "a start does not panic";
    Ok((
        starting.0.join().expect(fault)?,
        starting.1.join().expect(fault)?,
        starting.2.join().expect(fault)?,
        starting.3.join().expect(fault)?,
    ))
}

fn nodes_of(node: &Builder) -> Result<Vec<Server>, SetupError> {
    (0..3).map(|_| node.clone().start()).collect()
}

/// `client` is for those that have the module, which any client can use.
fn table(urls: &[(&str, String)], client: Option<&str>) -> String {
    let width = urls.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let rows: String = urls.iter().map(|(name, url)| format!("  {name:width$}  {url}\n")).collect();
    let url = urls.first().map(|(_, url)| &url[..]).unwrap_or_default();
    let module = client.map(|client| format!("  {client} FENCELOCK.ACQUIRE hello 60\n"));
    let module = module.unwrap_or_default();
    format!(
        "\n{rows}\n\
         Try, in another terminal:\n\n  \
         export TAKETURNS_STORE={url}\n  \
         cargo run -- run hello -- sleep 60\n  \
         cargo run -- show hello\n{module}\n\
         Ctrl-C ends all of them.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_aligned_and_the_first_is_tried() {
        let urls = [("alone", "redis://a".to_owned()), ("with Sentinel", "redis+b".to_owned())];
        let text = table(&urls, None);
        assert!(text.contains("  alone          redis://a\n  with Sentinel  redis+b\n"), "{text}");
        assert!(text.contains("TAKETURNS_STORE=redis://a\n"));
        assert!(!text.contains("FENCELOCK"), "{text}");
        let text = table(&urls, Some("redis-cli -p 1"));
        assert!(text.contains("  redis-cli -p 1 FENCELOCK.ACQUIRE hello 60\n\nCtrl-C"), "{text}");
    }

    #[test]
    fn valkey_and_the_module_are_asked_for_in_any_order() {
        let parsed = |args: &[&str]| Options::parse(args.iter().map(|&arg| arg.to_owned()));
        let options = |flavor, module| Ok(Options { flavor, module });
        assert_eq!(parsed(&[]), options(Flavor::Redis, false));
        assert_eq!(parsed(&["--valkey"]), options(Flavor::Valkey, false));
        assert_eq!(parsed(&["--module"]), options(Flavor::Redis, true));
        assert_eq!(parsed(&["--module", "--valkey"]), options(Flavor::Valkey, true));
        assert_eq!(parsed(&["--valkey", "--module"]), options(Flavor::Valkey, true));
        assert!(parsed(&["--redis"]).is_err());
        assert!(parsed(&["--valkey", "x"]).is_err());
    }
}
