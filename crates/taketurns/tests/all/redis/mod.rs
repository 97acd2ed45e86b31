//! The Redis engine on real servers, Redis and Valkey. What one layer does by itself is tested beside its source.

mod attack;
mod costs;
mod errors;
mod faults;
mod foreign;
mod rights;
mod tls;
