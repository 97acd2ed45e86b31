//! A client of several nodes opens with a majority of them. On a busy machine the others come later.

use taketurns::Locks;
use taketurns_servers::Server;

use super::patience::soon;

/// Waits until what the client asks reaches all nodes. A listing leaves no trace on them, and nothing else
/// scans.
pub(crate) async fn reaches_all(locks: &Locks, servers: &[Server]) {
    let scans = |server: &Server| server.command_stats().get("scan").map_or(0, |stats| stats.calls);
    let asks = async {
        loop {
            let before: Vec<u64> = servers.iter().map(scans).collect();
            locks.list("*").await.expect("a majority answers");
            if servers.iter().zip(before).all(|(server, before)| scans(server) > before) {
                return;
            }
        }
    };
    soon("all nodes are reached", asks).await;
}
