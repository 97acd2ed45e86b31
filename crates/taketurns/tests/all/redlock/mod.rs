//! Redlock on real servers: of every set of them held by foreign clients, stopped, killed, cut off, and cancelled
//! at any point.
//!
//! ```text
//!   Nodes ── 3 to 5 servers, Redis and Valkey by turns
//!     ├── connect(): our client, which speaks protocol=plain to all of them
//!     └── takes(), gives_back(): a foreign client's SET NX PX and DEL on one of them
//! ```

mod cancelled;
mod faults;
mod nodes;
mod refused;
mod soak;
mod subsets;
mod tenure;
