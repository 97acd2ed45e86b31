//! Servers that load a module: alone, with Sentinel, as a Cluster; and `redis-cli` at them.

use std::path::{Path, PathBuf};
use std::process::Command;

use taketurns_servers::{
    Cluster, Flavor, ReplicaSet, Server, ServerReply, SetupError, eventually, on_both,
};
use tempfile::TempDir;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/module/least.c");

/// Arguments as they are, with nothing in them that needs a quote.
const ARGS: [&str; 2] = ["max-lease", "30"];

/// A minimal module, in a folder whose name needs quotes.
struct Built {
    folder: TempDir,
}

impl Built {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("a \"built\" ü ").tempdir().expect("a folder");
        let built = Self { folder };
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", SOURCE, "-o"]).arg(built.path());
        assert!(compiler.status().expect("a C compiler").success());
        built
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("least.so")
    }
}

/// The arguments with which the module was loaded, if it was.
fn loaded(server: &Server) -> Option<Vec<String>> {
    let list = server.cli(&["MODULE", "LIST"]);
    let least = list.array()?.first()?;
    assert_eq!(least.field("name").and_then(ServerReply::text), Some("least"));
    let args = least.field("args")?.array()?.iter();
    Some(args.filter_map(ServerReply::text).map(str::to_owned).collect())
}

on_both! {
    fn a_module_is_loaded_at_every_start(flavor: Flavor) {
        let built = Built::new();
        let args = ["two words", "", "a \"quoted\" \\ one", "ü"];
        let server = Server::builder(flavor).module(&built.path(), &args).start();
        let server = server.expect("a server");
        assert_eq!(loaded(&server).expect("a module"), args);
        server.kill();
        server.restart().expect("a restart");
        assert_eq!(loaded(&server).expect("a module"), args);
        assert_eq!(loaded(&Server::start(flavor).expect("another")), None, "nobody asked for it");
    }

    fn every_server_of_a_set_has_it_also_after_a_fail_over(flavor: Flavor) {
        let built = Built::new();
        let set = ReplicaSet::builder(flavor).replicas(1).module(&built.path(), &ARGS).start();
        let set = set.expect("a set");
        let old = set.master().expect("a master");
        old.kill();
        let new = set.failed_over(old).expect("a fail-over");
        // The sentinels have it follow the new master, and write that into its file.
        old.restart().expect("the old master");
        let demoted = || (old.info("replication").get("role")? == "slave").then_some(());
        eventually("the old master follows the new one", demoted).expect("a demotion");
        new.kill();
        for server in &set.servers {
            let file = std::fs::read_to_string(server.dir().join("server.conf")).expect("a file");
            assert!(file.contains("CONFIG REWRITE"), "it was rewritten: {file}");
            server.restart().expect("a restart with the rewritten file");
            assert_eq!(loaded(server).expect("a module"), ARGS);
        }
    }

    fn every_node_of_a_cluster_has_it(flavor: Flavor) {
        let built = Built::new();
        let cluster = Cluster::builder(flavor).spare(true).module(&built.path(), &ARGS).start();
        let cluster = cluster.expect("a cluster");
        assert_eq!(cluster.nodes.len(), 4);
        for node in &cluster.nodes {
            assert_eq!(loaded(node).expect("a module"), ARGS);
        }
    }

    fn a_module_that_is_not_there_is_told_in_the_error(flavor: Flavor) {
        let error = Server::builder(flavor).module(Path::new("/no/such.so"), &[]).start();
        let error = error.expect_err("there is none");
        assert!(matches!(&error, SetupError::NoModule(path) if path == "/no/such.so"), "{error}");
    }

    fn its_own_command_line_reaches_it(flavor: Flavor) {
        let server = Server::builder(flavor).requirepass("secret").start().expect("a server");
        let output = server.redis_cli().args(["SET", "a b", "1"]).output().expect("a client");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "OK\n");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert_eq!(server.cli(&["GET", "a b"]).text(), Some("1"));
    }
}
