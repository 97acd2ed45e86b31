//! Connections to peers that the tests play themselves.

mod command;
mod moving;
mod multiplexer;
