//! Is this path a store of ours, or one to be? Asked before SQLite touches it, so that whatever else
//! it is stays as it was.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::engine::EngineError;

/// `tturns`, shortened to what the header has room for.
pub(super) const APPLICATION_ID: i32 = 0x7474_726e;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;

/// What is at the path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Store,
}

fn broken(path: &Path, why: impl std::fmt::Display) -> EngineError {
    EngineError::Broken(format!("{}: {why}", path.display()))
}

/// Looks at what is there without changing it.
pub(super) fn look(path: &Path) -> Result<Found, EngineError> {
    let directory = directory_of(path);
    match directory.metadata() {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(broken(directory, "this is not a directory")),
        Err(error) => return Err(broken(directory, error)),
    }
    local_file_system(directory)?;
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(broken(path, error)),
    };
    let found = file.metadata().map_err(|error| broken(path, error))?;
    if found.is_dir() {
        return Err(broken(path, "this is a directory; the store is a file"));
    }
    if !found.is_file() {
        return Err(broken(path, "this is not a regular file"));
    }
    let mut header = [0; HEADER_BYTES];
    let not_ours = "this is not a taketurns store; it was left as it is. Name another path";
    file.read_exact(&mut header).map_err(|_| broken(path, not_ours))?;
    if &header[..16] != MAGIC || header[68..72] != APPLICATION_ID.to_be_bytes() {
        return Err(broken(path, not_ours));
    }
    if found.len() < stated_bytes(&header) {
        return Err(broken(
            path,
            "the store was cut short and can't be used; it was left as it is. Move it away, and a \
             new one is made",
        ));
    }
    Ok(Found::Store)
}

/// The directory of a path; `.` for a bare name.
pub(super) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// How long the file must be at least by its own header: pages times their size.
fn stated_bytes(header: &[u8; HEADER_BYTES]) -> u64 {
    let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        bytes => u64::from(bytes),
    };
    let pages = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
    u64::from(pages) * page_bytes
}

/// File systems that reach over a network, by the number that `statfs` gives.
const NETWORK: [(u32, &str); 11] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x5346_414f, "AFS"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
];

/// SQLite's shared memory and file locks work between processes of one machine only.
fn refuse_network(directory: &Path, kind: u32) -> Result<(), EngineError> {
    match NETWORK.iter().find(|(magic, _)| *magic == kind) {
        Some((_, name)) => Err(broken(
            directory,
            format!(
                "this is on a network file system ({name}), where file locks can't be relied on; \
                 use a local disk"
            ),
        )),
        None => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn local_file_system(directory: &Path) -> Result<(), EngineError> {
    let found = rustix::fs::statfs(directory).map_err(|error| broken(directory, error))?;
    refuse_network(directory, found.f_type as u32)
}

#[cfg(not(target_os = "linux"))]
fn local_file_system(directory: &Path) -> Result<(), EngineError> {
    Err(broken(directory, "the file engine needs Linux: its lease clock is that of the boot"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_refused_by_name() {
        let refused = refuse_network(Path::new("/mnt/share"), 0x6969).unwrap_err().to_string();
        assert!(refused.starts_with("/mnt/share: ") && refused.contains("NFS"), "{refused}");
        assert!(refuse_network(Path::new("/"), 0xef53).is_ok(), "ext4 is local");
    }

    #[test]
    fn the_header_says_how_long_the_file_is() {
        let mut header = [0; HEADER_BYTES];
        header[16..18].copy_from_slice(&4096_u16.to_be_bytes());
        header[28..32].copy_from_slice(&3_u32.to_be_bytes());
        assert_eq!(stated_bytes(&header), 3 * 4096);
        header[16..18].copy_from_slice(&1_u16.to_be_bytes());
        assert_eq!(stated_bytes(&header), 3 * 65_536);
    }
}
