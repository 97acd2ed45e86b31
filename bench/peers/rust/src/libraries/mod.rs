//! One file for each library: how it connects, acquires and releases, and what is not at its default.

pub mod async_redis_lock;
pub mod distributed_lock;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod postgres;
pub mod rlock;
pub mod rslock;
