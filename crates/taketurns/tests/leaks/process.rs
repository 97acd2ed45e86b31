//! What this process has of a client: its threads, and descriptors.

use std::fs;

/// The threads of clients.
pub(crate) fn threads() -> usize {
    fs::read_dir("/proc/self/task")
        .expect("Linux")
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok())
        .filter(|name| name.starts_with("taketurns"))
        .count()
}

/// All that are open.
pub(crate) fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("Linux").count()
}
