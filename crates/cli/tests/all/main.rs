//! All integration tests of the program, as its users see it and as its manual tells of it, in one binary: each
//! links the same libraries.

mod cli;
mod docs;
