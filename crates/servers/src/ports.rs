//! Free ports of the loopback interface, each for one server until that server is dropped.
//!
//! A port that is merely free now may be another's when its server starts again after a kill. So a
//! port comes with a lock on a file named after it, which all test processes of this user respect
//! and which the system releases when the process dies, and it lies below the range from which
//! systems take ports for outgoing connections.
//!
//! ```text
//!   12000 ..= 21999   what is given out
//!   22000 ..= 31999   the same + 10000: where a node of a cluster has its bus
//! ```

use std::env;
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};

const FIRST: u16 = 12_000;
const COUNT: u16 = 10_000;

/// From a cluster node's port to its bus.
pub(crate) const BUS: u16 = 10_000;

/// A port that is ours until this is dropped, whether or not anything listens there.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// Closing it releases the lock.
    _lock: File,
}

impl Port {
    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

/// A port where, and where its bus would be, nothing listens.
pub(crate) fn reserve() -> io::Result<Port> {
    let folder =
        env::temp_dir().join(format!("taketurns-ports-{}", rustix::process::getuid().as_raw()));
    fs::create_dir_all(&folder)?;
    // Two processes that start together should not try the same ports in the same order.
    let start = RandomState::new().hash_one(()) % u64::from(COUNT);
    for step in 0..u64::from(COUNT) {
        let number = FIRST + ((start + step) % u64::from(COUNT)) as u16;
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join(number.to_string()))?;
        match file.try_lock() {
            Ok(()) if is_free(number) && is_free(number + BUS) => {
                return Ok(Port { number, _lock: file });
            }
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no port from 12000 to 21999 is free"))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once_until_it_is_dropped() {
        let ports: Vec<Port> = (0..50).map(|_| reserve().expect("a port")).collect();
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 50);
        assert!(numbers.iter().all(|number| (FIRST..FIRST + COUNT).contains(number)));
    }

    #[test]
    fn the_bus_of_the_last_port_is_a_port_and_below_the_ephemeral_ones() {
        assert!(u32::from(FIRST) + u32::from(COUNT) + u32::from(BUS) <= 32_768);
    }
}
