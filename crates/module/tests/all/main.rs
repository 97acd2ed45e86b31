//! All integration tests of the module, in one program, because each would link the same libraries. Each test has its
//! own servers, and tests share nothing in this process.

mod attack;
mod clients;
mod commands;
mod conformance;
mod deadline;
mod docs;
mod engine;
mod fuzz;
mod persistence;
mod words;
