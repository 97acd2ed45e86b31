//! The stores to look at, and the test of each.

use std::fs;

use taketurns_servers::others::Postgres;
use taketurns_servers::{Cluster, Flavor, ReplicaSet, Server, module_path, on_both};

use crate::left::{nothing_on, nothing_on_postgres, nothing_on_sentinel};
use crate::{alone, leaves_nothing};

/// A store that nobody else uses.
pub(crate) struct Store {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) mutexes_only: bool,
    kept: StoreHome,
}

/// Where its state is.
enum StoreHome {
    Memory,
    File(tempfile::TempDir),
    Server(Box<Server>),
    Cluster(Cluster),
    ReplicaSet(ReplicaSet),
    Nodes(Vec<Server>),
    Postgres(Box<Postgres>),
}

impl Store {
    fn new(name: &str, url: String, kept: StoreHome) -> Self {
        let mutexes_only = matches!(kept, StoreHome::Nodes(_));
        Self { name: name.to_owned(), url, mutexes_only, kept }
    }

    /// Nothing is left there of clients that are gone.
    pub(crate) fn has_nothing(&self) {
        match &self.kept {
            StoreHome::Memory => {}
            StoreHome::File(folder) => {
                let sockets = fs::read_dir(folder.path().join("locks.db-wake")).expect("made");
                assert_eq!(sockets.count(), 0, "sockets were left");
            }
            StoreHome::Server(server) => nothing_on(server),
            StoreHome::Cluster(cluster) => cluster.nodes.iter().for_each(nothing_on),
            StoreHome::ReplicaSet(set) => {
                set.servers.iter().for_each(nothing_on);
                set.sentinels.iter().for_each(nothing_on_sentinel);
            }
            StoreHome::Nodes(servers) => servers.iter().for_each(nothing_on),
            StoreHome::Postgres(server) => nothing_on_postgres(server),
        }
    }
}

#[test]
fn nothing_is_left_in_memory() {
    let _alone = alone();
    leaves_nothing(&Store::new("memory", "memory:leaks".to_owned(), StoreHome::Memory));
}

#[test]
fn nothing_is_left_in_a_file() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let url = format!("file:{}", folder.path().join("locks.db").display());
    leaves_nothing(&Store::new("file", url, StoreHome::File(folder)));
}

#[test]
fn nothing_is_left_in_postgresql() {
    let _alone = alone();
    let server = Postgres::builder().quick().start().expect("a server");
    // How fast it answers is not what this is about.
    let url = format!("{}?connect_timeout=60&response_timeout=60", server.url());
    leaves_nothing(&Store::new("PostgreSQL", url, StoreHome::Postgres(Box::new(server))));
}

#[test]
fn nothing_is_left_on_a_quorum() {
    let _alone = alone();
    let module = module_path().expect("the module");
    let builders = [
        Server::builder(Flavor::Redis),
        Server::builder(Flavor::Valkey).module(&module, &[]),
        Server::builder(Flavor::Valkey),
    ];
    let servers: Vec<Server> =
        builders.into_iter().map(|builder| builder.start().expect("a server")).collect();
    let nodes: Vec<String> = servers.iter().map(Server::url).collect();
    leaves_nothing(&Store::new(
        "quorum",
        format!("quorum:{}", nodes.join(",")),
        StoreHome::Nodes(servers),
    ));
}

on_both! {
    fn nothing_is_left_on_a_server(flavor: Flavor) {
        let _alone = alone();
        let server = Server::start(flavor).expect("a server");
        let name = format!("{flavor}");
        leaves_nothing(&Store::new(&name, server.url(), StoreHome::Server(Box::new(server))));
    }

    fn nothing_is_left_on_a_server_with_the_module(flavor: Flavor) {
        let _alone = alone();
        let module = module_path().expect("the module");
        let server = Server::builder(flavor).module(&module, &[]).start().expect("a server");
        let url = format!("{}?module=required", server.url());
        leaves_nothing(&Store::new(&format!("{flavor}, module"), url, StoreHome::Server(Box::new(server))));
    }

    fn nothing_is_left_on_a_cluster(flavor: Flavor) {
        let _alone = alone();
        let cluster = Cluster::start(flavor).expect("a Cluster");
        let name = format!("{flavor} Cluster");
        leaves_nothing(&Store::new(&name, cluster.url(), StoreHome::Cluster(cluster)));
    }

    fn nothing_is_left_on_a_master_with_sentinels(flavor: Flavor) {
        let _alone = alone();
        let set = ReplicaSet::start(flavor).expect("a set");
        let name = format!("{flavor} with Sentinel");
        leaves_nothing(&Store::new(&name, set.url(), StoreHome::ReplicaSet(set)));
    }
}
