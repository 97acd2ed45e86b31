//! All tests of the judge, in one program: each links the same libraries.

mod check;
mod golden;
mod summary;
mod timeline;
