//! What the module stores, and where: across restarts, on replicas, through everything that can happen to a key, and in
//! how much memory. Over raw connections, on Redis and Valkey.

mod cluster;
mod crc64;
mod gone;
mod memory;
mod moved;
mod payload;
mod program;
mod promotion;
mod quarantine;
mod replication;
mod restart;
mod support;
mod workload;
