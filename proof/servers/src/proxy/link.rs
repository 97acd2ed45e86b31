//! One connection through the proxy: two directions, and in each a thread that reads and one that
//! writes, so that a delay holds up nothing but the bytes it is for.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::Shared;
use super::frames::ProxyFrames;
use crate::PATIENCE;

/// The two ends of a connection, and what has become of it.
#[derive(Debug)]
pub(super) struct ProxyLink {
    client: TcpStream,
    server: TcpStream,
    /// It lost something, and may not work again.
    silent: AtomicBool,
    cut: AtomicBool,
}

/// When bytes are to be passed on.
type DelayedBytes = (Instant, Vec<u8>);

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

impl ProxyLink {
    pub(super) fn new(client: TcpStream, server: TcpStream) -> io::Result<Self> {
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
            // A peer that never reads must not keep the proxy's switches from moving.
            stream.set_write_timeout(Some(PATIENCE))?;
        }
        Ok(Self { client, server, silent: AtomicBool::new(false), cut: AtomicBool::new(false) })
    }

    /// Closes both ends. Threads that read from them or write to them go on at once.
    pub(super) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        // An end that its peer has closed already can't be closed again.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    fn is_silent(&self) -> bool {
        self.silent.load(Ordering::SeqCst)
    }

    fn ends(&self, direction: Direction) -> (&TcpStream, &TcpStream) {
        match direction {
            Direction::ToServer => (&self.client, &self.server),
            Direction::ToClient => (&self.server, &self.client),
        }
    }
}

/// Starts the threads of a link. They end when it is closed.
pub(super) fn serve(link: &Arc<ProxyLink>, shared: &Arc<Shared>) -> Vec<JoinHandle<()>> {
    let mut threads = Vec::new();
    for direction in [Direction::ToServer, Direction::ToClient] {
        let (due, dues) = channel();
        let both = (link.clone(), shared.clone());
        threads.push(thread::spawn(move || reader(&both.0, &both.1, direction, &due)));
        let both = (link.clone(), shared.clone());
        threads.push(thread::spawn(move || writer(&both.0, &both.1, direction, &dues)));
    }
    threads
}

fn reader(link: &ProxyLink, shared: &Shared, direction: Direction, due: &Sender<DelayedBytes>) {
    let (mut from, _) = link.ends(direction);
    let mut frames = ProxyFrames::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => &buffer[..read],
        };
        let faults = shared.faults();
        if faults.hold || link.is_silent() {
            link.silent.store(true, Ordering::SeqCst);
            continue;
        }
        let bytes = match direction {
            Direction::ToServer => read.to_vec(),
            Direction::ToClient => filtered(&mut frames, read, shared),
        };
        // The writer is gone only if the link was cut, and then the next read ends this.
        let _ = due.send((Instant::now() + faults.delay, bytes));
    }
    // The news of the end vanishes too while everything does.
    shared.wait_while(link, |shared| shared.faults().hold.then_some(None));
    if link.is_silent() {
        link.cut();
    }
}

/// What is left of bytes for the client, of whole frames only.
fn filtered(frames: &mut ProxyFrames, read: &[u8], shared: &Shared) -> Vec<u8> {
    let faults = shared.faults();
    let mut bytes = Vec::with_capacity(read.len());
    frames.add(read);
    while let Some(frame) = frames.next() {
        if frame.message && faults.drop_pushes {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        bytes.extend_from_slice(&frame.bytes);
        if frame.message && faults.duplicate_pushes {
            bytes.extend_from_slice(&frame.bytes);
        }
    }
    bytes
}

fn writer(link: &ProxyLink, shared: &Shared, direction: Direction, dues: &Receiver<DelayedBytes>) {
    let (_, mut to) = link.ends(direction);
    for (due, bytes) in dues {
        shared.wait_while(link, |_| {
            let left = due.saturating_duration_since(Instant::now());
            (!left.is_zero()).then_some(Some(left))
        });
        // Kept while writing, so that nothing passes once the switch has moved.
        let faults = shared.faults.read().unwrap_or_else(PoisonError::into_inner);
        if faults.hold || link.is_silent() {
            link.silent.store(true, Ordering::SeqCst);
        } else if to.write_all(&bytes).is_err() {
            link.cut();
        }
    }
    // The reader's end has closed: tell the other, which may still have something to say.
    if !link.is_silent() {
        let _ = to.shutdown(Shutdown::Write);
    }
}

impl Shared {
    /// Waits while there is a reason to, for as long as it says, but never longer than the link
    /// lives.
    fn wait_while(
        &self,
        link: &ProxyLink,
        reason: impl Fn(&Self) -> Option<Option<std::time::Duration>>,
    ) {
        let mut guard = self.links();
        while !link.is_cut() {
            let Some(limit) = reason(self) else { return };
            guard = match limit {
                None => self.bell.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(limit) => {
                    let woken = self.bell.wait_timeout(guard, limit);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
