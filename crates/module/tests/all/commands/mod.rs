//! The commands as a client in any language sees them: every option, every error, waiting, locks
//! that end with their connection, and attempts to take another client's lock. On real servers,
//! over plain connections.

mod attack;
mod bound;
mod breaking;
mod client;
mod errors;
mod expiry;
mod kinds;
mod leaving;
mod looks;
mod once;
mod polling;
mod pools;
mod queue;
mod races;
mod registered;
mod renewal;
mod secrets;
mod seed;
mod tokens;
