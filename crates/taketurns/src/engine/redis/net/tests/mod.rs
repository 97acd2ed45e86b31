//! The transport against real servers.

mod cluster;
mod login;
mod lost;
mod party;
mod scripts;
mod sentinel;
mod server;
mod single;
mod tls;
mod turns;
mod urls;
