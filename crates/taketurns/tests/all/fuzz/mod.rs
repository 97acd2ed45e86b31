//! What a client reads that others have carried or kept, damaged: handles, and the files of the file
//! engine and of the fence.
//!
//! A file that is damaged is refused with a clear error or works, as far as SQLite can read it: it has no
//! sums over what is stored, so what was changed to something that makes sense can't be told from what
//! was written. No thread ends, nothing hangs, and what SQLite reads as it was is never granted to
//! somebody else.

mod datagrams;
mod fences;
mod files;
mod handles;
mod rows;
mod store;
