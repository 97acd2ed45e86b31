//! All integration tests of the servers, in one program: each links the same libraries. What needs a process
//! of its own, or its end, starts this one again (`end`).

mod clients;
mod cluster;
mod end;
mod foreign;
mod module;
mod others;
mod postgres;
mod proxy;
mod replica_set;
mod server;
#[cfg(feature = "tls")]
mod tls;
