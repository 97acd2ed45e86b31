//! The transport against real servers.

mod cluster;
mod fuzz;
mod fuzz_urls;
mod login;
mod lost;
mod moving;
mod mux;
mod party;
mod scripts;
mod sentinel;
mod server;
mod single;
mod tls;
mod turns;
mod urls;
