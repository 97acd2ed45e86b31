//! The manual is true: whatever README and `docs/` tell a reader to type is typed here, with real servers
//! behind the addresses that they name.
//!
//! ```text
//!   page.rs     the blocks of a page, and where each of them begins
//!   place.rs    who reads it: an empty home, the program, the servers that the page talks of
//!   shell.rs    one shell per page, which is given its blocks from top to bottom
//!   expect.rs   what the page says that comes, and what came
//!   pages.rs    a test for each page, and one that none is left out
//!   links.rs    where links lead, in the files and in the documentation of the crate
//!   commands.rs what is named and not typed
//!   recipes.rs  what is shown, when somebody comes between its steps
//!   yaml.rs     what is to be given to Kubernetes
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
