//! A proxy in front of a server, whose faults can be switched on and off while clients use it.
//!
//! ```text
//!   client ──▶ reader ─▶ (when due, bytes) ─▶ writer ──▶ server
//!   client ◀── writer ◀─ (when due, bytes) ◀─ frames ◀─ reader ◀── server
//! ```
//!
//! It copies bytes and knows nothing of what they mean, except in the direction of the client,
//! where [`frames`] tells a pushed message from a reply. Bytes are lost only in ways a network
//! loses them: a connection that lost any never works again.

mod frames;
mod link;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::ports::{self, Port};
use link::ProxyLink;

/// A TCP proxy on a port of its own. Dropping it closes its connections.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    target: u16,
    listening: Mutex<Option<ProxyListener>>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct ProxyListener {
    listener: Arc<TcpListener>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl ProxyListener {
    fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        // Closing is not enough: a process that another thread is just starting has a copy of the socket until it
        // runs its program, and connections would be taken meanwhile. This ends the thread's wait as well.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        let _ = self.thread.join();
    }
}

/// What the proxy and the threads of its connections have in common.
#[derive(Debug, Default)]
struct Shared {
    /// A thread that passes bytes on holds it for reading. So after a change, no byte passes under the old rules.
    faults: RwLock<ProxyFaults>,
    /// Rung when a fault ends or a link is cut, for threads that wait for either.
    bell: Condvar,
    links: Mutex<ProxyLinks>,
    accepted: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ProxyFaults {
    hold: bool,
    delay: Duration,
    drop_pushes: bool,
    duplicate_pushes: bool,
}

#[derive(Debug, Default)]
struct ProxyLinks {
    open: Vec<Arc<ProxyLink>>,
    threads: Vec<JoinHandle<()>>,
}

impl Proxy {
    /// Starts one that passes everything on to a port of this machine.
    ///
    /// # Errors
    ///
    /// If there is no free port.
    pub fn start(target_port: u16) -> io::Result<Self> {
        loop {
            let port = ports::reserve()?;
            let shared = Arc::default();
            let proxy = Self { port, target: target_port, listening: Mutex::default(), shared };
            match proxy.refuse(false) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                listening => return listening.map(|()| proxy),
            }
        }
    }

    /// Where clients connect to.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// [`Proxy::port`] as an address.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// `redis://` with the proxy's address.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// Closes all connections now. New ones are welcome.
    pub fn cut(&self) {
        let mut links = self.shared.links();
        for link in links.open.drain(..) {
            link.cut();
        }
        self.shared.bell.notify_all();
    }

    /// Are new connections refused, as if nothing ran there? Those that are open stay.
    ///
    /// # Errors
    ///
    /// If the port can't be listened at again.
    pub fn refuse(&self, refuse: bool) -> io::Result<()> {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        match (refuse, listening.take()) {
            (true, Some(was)) => was.end(),
            (true, None) => {}
            (false, Some(was)) => *listening = Some(was),
            (false, None) => *listening = Some(self.listen()?),
        }
        Ok(())
    }

    /// Does everything vanish on the way, in both directions, while connections stay open? Also the
    /// news that one end closed. New connections are taken, and their bytes vanish too.
    ///
    /// A connection that lost something meanwhile stays silent afterwards, until either end or
    /// [`Proxy::cut`] closes it.
    pub fn hold(&self, hold: bool) {
        self.change(|faults| faults.hold = hold);
    }

    /// How much later everything arrives, in each direction. What was sent before arrives as it
    /// would have, and nothing overtakes.
    pub fn delay(&self, delay: Duration) {
        self.change(|faults| faults.delay = delay);
    }

    /// Are published messages lost on the way to RESP3 clients? Replies, confirmations of
    /// subscriptions and other pushes still arrive.
    pub fn drop_pushes(&self, drop: bool) {
        self.change(|faults| faults.drop_pushes = drop);
    }

    /// Do published messages reach RESP3 clients twice?
    pub fn duplicate_pushes(&self, duplicate: bool) {
        self.change(|faults| faults.duplicate_pushes = duplicate);
    }

    /// How many connections were taken so far.
    pub fn connections(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// How many messages [`Proxy::drop_pushes`] lost so far.
    pub fn pushes_dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut ProxyFaults)) {
        change(&mut self.shared.faults.write().unwrap_or_else(PoisonError::into_inner));
        // The lock, so that nobody is between looking at the faults and waiting for the bell.
        drop(self.shared.links());
        self.shared.bell.notify_all();
    }

    fn listen(&self) -> io::Result<ProxyListener> {
        let listener = Arc::new(TcpListener::bind(self.addr())?);
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, target, stopped) = (self.shared.clone(), self.target, stop.clone());
        let incoming = listener.clone();
        let thread = thread::spawn(move || {
            for client in incoming.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target));
                // Without a server the client is dropped, which closes its connection.
                if let (Ok(client), Ok(server)) = (client, server) {
                    shared.accepted.fetch_add(1, Ordering::Relaxed);
                    shared.add(client, server);
                }
            }
        });
        Ok(ProxyListener { listener, stop, thread })
    }
}

impl Shared {
    fn links(&self) -> MutexGuard<'_, ProxyLinks> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self) -> ProxyFaults {
        *self.faults.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        let Ok(link) = ProxyLink::new(client, server) else { return };
        let link = Arc::new(link);
        let mut links = self.links();
        links.threads.retain(|thread| !thread.is_finished());
        // Its threads have it too, until both directions have ended.
        links.open.retain(|link| Arc::strong_count(link) > 1);
        links.threads.extend(link::serve(&link, self));
        links.open.push(link);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.refuse(true);
        self.cut();
        let threads = std::mem::take(&mut self.shared.links().threads);
        for thread in threads {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_refuses_takes_nobody_though_another_process_has_a_copy_of_the_socket() {
        let proxy = Proxy::start(1).expect("a port");
        let listening = proxy.listening.lock().expect("sound");
        let copy = listening.as_ref().map(|listening| listening.listener.try_clone());
        drop(listening);
        proxy.refuse(true).expect("a closed port");
        let error = TcpStream::connect(proxy.addr()).expect_err("nobody listens");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        drop(copy.expect("it listened").expect("a copy"));
        proxy.refuse(false).expect("an open port");
        TcpStream::connect(proxy.addr()).expect("somebody listens");
    }
}
