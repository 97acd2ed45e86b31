//! What URLs are read as.

mod fuzz_urls;
mod urls;
