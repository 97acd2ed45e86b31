//! The simulation: whole clients, the stores that they use and the network between them, made up from
//! a seed.
//!
//! ```text
//!   seed ─► SimPlan ─► SimWorld: Host … Host         clients as they are, on machines that are not
//!                       │           │
//!                       │         messages            late, lost, doubled, out of order
//!                       │           │
//!                       │       SimNode … SimNode     locks as they are; stop, forget, fail over
//!                       ▼
//!                     history ─► what must be true of it (taketurns-history)
//! ```
//!
//! Everything that could make two runs differ comes from the seed: clocks, timers, which task runs
//! next, random bits, and all that goes wrong. First things go wrong; then they do not any more, and
//! everybody must get its turn and leave nothing behind. A seed that fails is made as small as it will
//! go, and told.

mod dice;
mod life;
mod machine;
mod net;
mod node;
mod plan;
mod register;
mod resource;
mod runner;
mod stall;
mod terms;
mod tickets;
mod weather;
mod world;

pub use runner::{FailedSeed, Sum, history, run};
