//! What several modules of these tests use. `crates/module/tests` includes some of the files too, so they
//! use nothing else from here.

pub(crate) mod dropped;
pub(crate) mod history;
pub(crate) mod in_vain;
pub(crate) mod nemesis;
pub(crate) mod patience;
#[cfg(feature = "postgres")]
pub(crate) mod postgres_fixture;
pub(crate) mod reach;
pub(crate) mod redis_acl;
pub(crate) mod redis_fixture;
pub(crate) mod shared;
pub(crate) mod turns;
