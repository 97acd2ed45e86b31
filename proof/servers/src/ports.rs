//! Free ports of the loopback interface, each for one server until that server is dropped.
//!
//! A port that is merely free now may be another's when its server starts again after a kill. So a
//! port comes with a lock on a file named after it, which all test processes of this user respect
//! and which the system releases when the process dies, and it lies below the range from which
//! systems take ports for outgoing connections.
//!
//! A port that was given back rests. A client that is dropped retries its releases for a few seconds. If another
//! server were at the port by then, the client would take it for its own server that has lost its state, and put
//! it in quarantine: the acquires of another test would hang.
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
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

const FIRST: u16 = 12_000;
const COUNT: u16 = 10_000;

/// From a cluster node's port to its bus.
pub(crate) const BUS: u16 = 10_000;

/// For how long a port that was given back is not given out. A client that is dropped ends within 5 s.
const REST: Duration = Duration::from_secs(30);

/// A port that is ours until this is dropped, whether or not anything listens there.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Closing it releases the lock. It is written whenever the port is given back.
    file: File,
}

impl Port {
    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // If that fails, the port does not rest.
        let _ = self.file.write_all_at(b"given back\n", 0);
    }
}

/// A port where, and where its bus would be, nothing listens.
///
/// # Errors
/// If there is none, or if the files that stand for ports can't be written.
pub fn reserve() -> io::Result<Port> {
    let folder =
        env::temp_dir().join(format!("taketurns-ports-{}", rustix::process::getuid().as_raw()));
    fs::create_dir_all(&folder)?;
    // Two processes that start together should not try the same ports in the same order.
    let start = RandomState::new().hash_one(()) % u64::from(COUNT);
    for step in 0..u64::from(COUNT) {
        let number = FIRST + ((start + step) % u64::from(COUNT)) as u16;
        if let Some(port) = take(&folder, number)? {
            return Ok(port);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no port from 12000 to 21999 is free"))
}

/// This port, if nobody has it and it has rested.
fn take(folder: &Path, number: u16) -> io::Result<Option<Port>> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(number.to_string()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let may_be_taken = has_rested(&file)? && is_free(number) && is_free(number + BUS);
    Ok(may_be_taken.then_some(file).map(|file| Port { number, file }))
}

fn has_rested(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    // A time in the future is of a clock that was set back since.
    let rests = metadata.modified()?.elapsed().is_ok_and(|since| since < REST);
    Ok(metadata.len() == 0 || !rests)
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
    fn a_port_that_was_given_back_rests() {
        let folder = tempfile::tempdir().expect("a folder");
        let take = |number| take(folder.path(), number).expect("a file");
        // Nobody else takes it meanwhile.
        let reserved = reserve().expect("a port");
        let number = reserved.number();
        let port = take(number).expect("free, and new in this folder");
        assert!(take(number).is_none(), "it is had");
        drop(port);
        assert!(take(number).is_none(), "it rests");
        let file = File::options().write(true).open(folder.path().join(number.to_string()));
        let before = std::time::SystemTime::now() - REST;
        file.and_then(|file| file.set_modified(before)).expect("another time");
        assert!(take(number).is_some(), "it has rested");
    }

    #[test]
    fn the_bus_of_the_last_port_is_a_port_and_below_the_ephemeral_ones() {
        assert!(u32::from(FIRST) + u32::from(COUNT) + u32::from(BUS) <= 32_768);
    }
}
