//! What happens to two of five servers, by turns: both are killed, then stopped, then cut off, and then it
//! is the turn of two others.

use std::time::Duration;

use taketurns_servers::{Proxy, Server};

/// One fault follows the other.
pub(crate) const EVERY: Duration = Duration::from_secs(2);

/// Which two.
const PAIRS: [[usize; 2]; 5] = [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]];

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Kill,
    Stop,
    Cut,
}

/// As many as there is time for. Those that were killed are kept out for a while: so the same two are
/// stopped and cut off meanwhile, and never more than two are out.
pub(crate) fn faults(seconds: u64) -> impl Iterator<Item = (Fault, [usize; 2])> {
    let strikes = Duration::from_secs(seconds).as_millis() / EVERY.as_millis();
    let faults = [Fault::Kill, Fault::Stop, Fault::Cut].into_iter().cycle();
    let pairs = PAIRS.into_iter().cycle().flat_map(|pair| [pair; 3]);
    faults.zip(pairs).take(strikes as usize)
}

/// Two nodes are out for a while.
pub(crate) async fn strike(fault: Fault, pair: [(&Server, &Proxy); 2]) {
    for (server, proxy) in pair {
        match fault {
            Fault::Kill => {
                server.kill();
                server.restart().expect("it comes back");
            }
            Fault::Stop => server.pause(),
            Fault::Cut => {
                proxy.refuse(true).expect("a port");
                proxy.cut();
            }
        }
    }
    tokio::time::sleep(EVERY).await;
    for (server, proxy) in pair {
        match fault {
            Fault::Kill => {}
            Fault::Stop => server.resume(),
            Fault::Cut => proxy.refuse(false).expect("its port"),
        }
    }
}
