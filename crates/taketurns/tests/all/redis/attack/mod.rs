//! Attempts on the Redis engine: ways in which a server forgets, moves or misbehaves that once made
//! it grant too early, or not at all. Each is a real server in a state that operators bring about.

mod cluster;
mod cluster_flushed;
mod cluster_sight;
mod forgetting;
mod hostile;
mod party;
