//! Several nodes. A majority of them decides.

use taketurns::Locks;
use taketurns_servers::Server;

use super::patience::soon;

/// The URL of the nodes at these addresses, each with these options.
pub(crate) fn quorum_url<A: AsRef<str>>(
    addresses: impl IntoIterator<Item = A>,
    options: &str,
) -> String {
    let url = |address: A| format!("{}?{options}", address.as_ref());
    format!("quorum:{}", addresses.into_iter().map(url).collect::<Vec<_>>().join(","))
}

/// Tests every subset of the nodes, all at once: bit `n` of a set stands for node `n`.
pub(crate) async fn every_set<F: Future<Output = ()> + Send + 'static>(
    count: usize,
    one_set: impl Fn(usize) -> F,
) {
    let sets: Vec<_> = (0..1 << count).map(|set| tokio::spawn(one_set(set))).collect();
    for set in sets {
        set.await.expect("as it should be");
    }
}

/// A client opens with a majority, and on a busy machine the others come later. Waits until what the client asks reaches all nodes. A listing leaves no trace on them, and nothing else
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
