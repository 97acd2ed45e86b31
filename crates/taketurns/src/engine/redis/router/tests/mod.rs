//! The router against real servers.

mod cluster;
mod dialects;
mod login;
mod lost;
mod party;
mod scripts;
mod sentinel;
pub(crate) mod server;
mod single;
mod tls;
mod wake_ups;
