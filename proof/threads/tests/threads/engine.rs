//! The modules that the tally of a quorum's nodes names, so that it can be built here by itself.

pub(crate) use taketurns::engine::EngineError;

#[path = "../../../../crates/taketurns/src/engine/nodes"]
pub(crate) mod nodes {
    pub(crate) mod tally;
}
