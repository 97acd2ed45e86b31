//! All integration tests of the module, in one program: each links the same libraries. What they try are
//! servers, and each test has its own, so nothing in this process is between them.

mod attack;
mod clients;
mod commands;
mod conformance;
mod deadline;
mod docs;
mod engine;
mod fuzz;
mod persistence;
