//! The manual is true: these tests type what README and `docs/` tell a reader to type, with real servers behind the
//! addresses that the pages name.
//!
//! ```text
//!   page.rs     the blocks of a page, and where each of them begins
//!   place.rs    who reads it: an empty home, the program, the servers that the page talks of
//!   shell.rs    one shell per page, which is given its blocks from top to bottom
//!   expect.rs   what the page says that comes, and what came
//!   pages.rs    a test for each page, and one that none is left out
//!   links.rs    where links lead, in the files and in the documentation of the crate
//!   commands.rs what is named and not typed
//!   recipes.rs  recipes, when another writer comes between their steps
//!   yaml.rs     manifests for Kubernetes
//! ```

mod commands;
mod expect;
mod links;
mod page;
mod pages;
mod place;
mod recipes;
mod shell;
mod yaml;
