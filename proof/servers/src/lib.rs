//! Real Redis, Valkey and PostgreSQL servers for the tests, started by the tests themselves.
//!
//! Every server listens on a free port of the loopback interface alone, keeps its files in a folder
//! of its own, and ends with the value that stands for it. If the test process is killed before it
//! can clean up, a watchdog does it instead. There is nothing to configure and nothing to start by
//! hand, and tests of several processes don't get in each other's way.
//!
//! ```text
//!   Server       one server; also what the sets below are made of
//!   ReplicaSet   a master, its replicas and three sentinels
//!   Cluster      three masters that share the slots, with a replica each if asked
//!   Proxy        between a client and a server: cuts, holds, delays, drops messages
//!   ServerClock  the wall clock of one server, or of another process
//!   Certificates a private authority for TLS
//!   clients      Python and Node with a Redis library
//!   foreign      lock clients that are not ours
//!   others       PostgreSQL (with standby and pgbouncer), etcd and a store for objects
//!   packages     this project's packages for other languages, as the build made them
//!   turns        what holders noted, and whether it can be
//!   fuzz         what readers are given that have to read anything
//! ```
//!
//! It may not use a Redis client library: what is tested with it must not be what tests it.
//! [`resp`] is the small client it needs.
//!
//! ```
//! # if !taketurns_servers::installed(taketurns_servers::Flavor::Redis) { return Ok(()); }
//! use taketurns_servers::{Flavor, Server, ServerReply};
//!
//! let server = Server::start(Flavor::Redis)?;
//! assert_eq!(server.cli(&["SET", "a", "1"]), ServerReply::Simple("OK".to_owned()));
//! server.kill();
//! server.restart()?;
//! assert_eq!(server.cli(&["GET", "a"]), ServerReply::Nil, "nothing was asked to be kept");
//! # Ok::<(), taketurns_servers::SetupError>(())
//! ```

mod builder;
mod built;
#[cfg(feature = "tls")]
mod certificates;
pub mod clients;
mod clock;
mod cluster;
mod error;
mod flavor;
pub mod foreign;
pub mod fuzz;
mod loading;
mod module;
pub mod others;
pub mod packages;
mod patience;
mod place;
mod ports;
mod process;
mod proxy;
mod replica_set;
pub mod resp;
mod server;
mod slots;
pub mod stats;
pub mod turns;
mod watchdog;

pub use builder::Builder;
pub use built::{module_in, module_path, target_dir};
#[cfg(feature = "tls")]
pub use certificates::Certificates;
pub use clock::ServerClock;
pub use cluster::{Cluster, ClusterBuilder, Migration};
pub use error::SetupError;
pub use flavor::{Flavor, NO_SERVERS, installed};
pub use patience::{PATIENCE, eventually};
pub use place::into_place;
pub use ports::{Port, reserve};
pub use proxy::Proxy;
pub use replica_set::{MASTER_NAME, ReplicaSet, ReplicaSetBuilder};
pub use resp::{Connection, ServerReply};
pub use server::Server;
pub use slots::slot_of;

/// Makes two tests of a function that takes a [`Flavor`]: `name::redis` and `name::valkey`.
///
/// ```
/// taketurns_servers::on_both! {
///     fn a_server_answers(flavor: taketurns_servers::Flavor) {
///         let server = taketurns_servers::Server::start(flavor).expect("a server");
///         assert_eq!(server.cli(&["PING"]).text(), Some("PONG"));
///     }
/// }
/// ```
#[macro_export]
macro_rules! on_both {
    ($($(#[$meta:meta])* fn $name:ident($flavor:ident: $kind:ty) $body:block)*) => {
        $(
            $(#[$meta])*
            mod $name {
                #[allow(unused_imports)]
                use super::*;

                fn run($flavor: $kind) $body

                #[test]
                fn redis() {
                    run($crate::Flavor::Redis);
                }

                #[test]
                fn valkey() {
                    run($crate::Flavor::Valkey);
                }
            }
        )*
    };
}
