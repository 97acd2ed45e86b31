//! The program as its users see it: real processes, real signals, real terminals. Each test has a
//! store of its own, and waits for what it needs to see instead of for time to pass.

mod bad_input;
mod death;
mod doctor;
mod elect;
mod generated;
mod helper;
mod loading;
mod lost;
mod nights;
mod once;
mod once_postgres;
mod order;
mod output;
mod postgres;
mod quarantine;
mod quorum;
mod redis;
mod redis_faults;
mod run;
mod serve;
mod store;
mod terminal;
mod tmux;
mod top;
mod turns;
mod watch;
