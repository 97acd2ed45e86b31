//! Wake-ups between processes: a datagram socket per client, in a directory beside the database.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use taketurns_core::{ClientId, Name, Wake};

use crate::engine::{EngineEvent, Origin, Wakes};
use crate::telling::target;

/// One step wakes at most 64 waiters, each in some hundred bytes.
const DATAGRAM_BYTES_MAX: usize = 64 * 1024;
/// The most sockets that a client checks at its start for having been left by dead clients.
const SWEEP_MAX: usize = 256;
const SWEEP_AGE_MIN: Duration = Duration::from_secs(10);

/// Sends wake-ups to the sockets of other clients. Addresses go through its descriptor, since a socket's path may have
/// only some hundred bytes and a database's any number.
pub(super) struct WakeSender {
    directory: PathBuf,
    opened: fs::File,
    socket: UnixDatagram,
    /// The database's own: who may use it may wake.
    mode: u32,
}

/// This client's own socket. While it lives, a thread listens; dropping it removes the socket.
pub(super) struct WakeListener {
    socket: Arc<UnixDatagram>,
    path: PathBuf,
}

impl WakeSender {
    /// Opens the directory beside the database, with the database's own permissions. One that
    /// somebody else put there is not used.
    pub(super) fn open(database: &Path) -> io::Result<Self> {
        let directory = directory(database);
        let database = fs::metadata(database)?;
        let mode = database.permissions().mode() & 0o666;
        // A user who may read the database may enter the directory.
        let entry = (mode & 0o444) >> 2;
        match fs::DirBuilder::new().mode(0o700).create(&directory) {
            // The umask is not asked: the file's own mode was chosen already.
            Ok(()) => fs::set_permissions(&directory, Permissions::from_mode(mode | entry))?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let opened = fs::File::from(rustix::fs::open(&directory, flags, Mode::empty())?);
        let owner = opened.metadata()?.uid();
        if owner != database.uid() && owner != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other(format!("{} is somebody else's", directory.display())));
        }
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { directory, opened, socket, mode })
    }

    /// Binds this client's socket, and pushes what comes.
    pub(super) fn listen(&self, client: ClientId, wakes: Wakes) -> io::Result<WakeListener> {
        let path = self.directory.join(client.to_string());
        let socket = Arc::new(UnixDatagram::bind(self.address(&client.to_string()))?);
        let listener = WakeListener { socket: socket.clone(), path };
        fs::set_permissions(&listener.path, Permissions::from_mode(self.mode))?;
        thread::Builder::new()
            .name("taketurns-wake".into())
            .spawn(move || listen(&socket, &wakes))?;
        Ok(listener)
    }

    /// Removes sockets that nobody listens on any more. Nothing else: also a plain file refuses a
    /// connection. Not young ones: a socket is there a moment before it listens.
    pub(super) fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        for entry in entries.take(SWEEP_MAX).flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| is_client(name)) else { continue };
            let Ok(found) = entry.metadata() else { continue };
            let old = found.modified().ok().and_then(|made| made.elapsed().ok());
            if !found.file_type().is_socket() || old.is_none_or(|old| old < SWEEP_AGE_MIN) {
                continue;
            }
            let connected =
                UnixDatagram::unbound().and_then(|socket| socket.connect(self.address(name)));
            if is_refused(&connected) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Sends each client its wake-ups in one datagram. Answers the clients that are proven dead.
    pub(super) fn send(&self, lock: &Name, wakes: Vec<Wake>) -> Vec<ClientId> {
        let mut by_client: BTreeMap<ClientId, Vec<Wake>> = BTreeMap::new();
        for wake in wakes {
            by_client.entry(wake.client).or_default().push(wake);
        }
        let mut dead = Vec::new();
        for (client, wakes) in by_client {
            let Ok(datagram) = postcard::to_allocvec(&(lock, &wakes)) else { continue };
            let sent = self.socket.send_to(&datagram, self.address(&client.to_string()));
            if is_refused(&sent) {
                dead.push(client);
            }
        }
        dead
    }

    fn address(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.opened.as_raw_fd()).into()
    }
}

/// Where the sockets of a database are.
pub(super) fn directory(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wake");
    name.into()
}

/// Is this what a client's socket is called?
fn is_client(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The socket is there, but no process has it open. A socket that is not there proves nothing: its
/// client may have none.
fn is_refused<T>(tried: &io::Result<T>) -> bool {
    matches!(tried, Err(error) if error.kind() == ErrorKind::ConnectionRefused)
}

fn listen(socket: &Arc<UnixDatagram>, wakes: &Wakes) {
    let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let bytes = match socket.recv(&mut datagram) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => {
                tracing::warn!(
                    target: target::FILE,
                    %error,
                    "the socket for wake-ups failed: waiters rely on their refreshes"
                );
                wakes.push(EngineEvent::Recheck);
                return;
            }
        };
        match postcard::from_bytes::<(Name, Vec<Wake>)>(&datagram[..bytes]) {
            Ok((lock, woken)) => {
                for wake in woken {
                    wakes.push(EngineEvent::Wake {
                        lock: lock.clone(),
                        wake,
                        origin: Origin::default(),
                    });
                }
            }
            // Nobody sends an empty datagram: the listener was dropped.
            Err(_) if bytes == 0 && Arc::strong_count(socket) == 1 => return,
            Err(_) => {}
        }
    }
}

impl Drop for WakeListener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}
