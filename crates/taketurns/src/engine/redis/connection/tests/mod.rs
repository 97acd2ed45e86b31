//! Connections to peers that the tests play themselves.

mod moving;
mod multiplexer;
