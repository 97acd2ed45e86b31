//! A lock on a majority of real servers. A minority of them may be held by others, down, slow, cut off, restarted, or
//! wrong about the time.
//!
//! ```text
//!   Nodes ── 3 to 5 servers: Redis and Valkey, scripts and module by turns
//!     ├── url(): the quorum, for clients under test
//!     └── direct(): one node alone, for foreigners and to see what is left there
//! ```

mod cancelled;
mod carried;
mod clocks;
mod costs;
mod forgetting;
mod nodes;
mod order;
mod refused;
mod slow;
mod soak;
mod subsets;
mod uses;
