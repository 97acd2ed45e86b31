//! The client processes: started, stopped, killed and replaced.
//!
//! Only the thread that began the run may start any: a client ends with the thread that started it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use taketurns_history::EventKind;

use crate::notes::HistoryWriter;
use crate::plan::{CLIENTS, Orders};
use crate::stages::TortureStage;

/// For how long all who wait may take to get their turns once nothing goes wrong any more.
const FINISH: Duration = Duration::from_secs(60);

/// All clients of a run.
pub(crate) struct Fleet<'a> {
    stage: &'a dyn TortureStage,
    orders: Orders,
    folder: PathBuf,
    notes: Arc<HistoryWriter>,
    clients: Vec<TortureClient>,
    /// How many were killed.
    pub(crate) killed: usize,
}

struct TortureClient {
    number: u32,
    child: Child,
}

impl<'a> Fleet<'a> {
    /// Starts all of them. What each notes is in the folder of the orders' notes, what it says beside.
    pub(crate) fn start(
        stage: &'a dyn TortureStage,
        orders: Orders,
        folder: &Path,
        notes: Arc<HistoryWriter>,
    ) -> io::Result<Self> {
        let (folder, clients) = (folder.to_owned(), Vec::new());
        let mut fleet = Self { stage, orders, folder, notes, clients, killed: 0 };
        for slot in 0..CLIENTS {
            let client = fleet.spawn(slot)?;
            fleet.clients.push(client);
        }
        Ok(fleet)
    }

    fn spawn(&mut self, slot: usize) -> io::Result<TortureClient> {
        self.orders.number += 1;
        let number = self.orders.number;
        let notes = self.orders.notes.join(format!("client-{number}.jsonl"));
        let orders = Orders { notes, ..self.orders.clone() };
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("client").arg(serde_json::to_string(&orders)?).envs(self.stage.env(slot));
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.stderr(File::create(self.log(number))?);
        Ok(TortureClient { number, child: command.spawn()? })
    }

    fn log(&self, number: u32) -> PathBuf {
        self.folder.join(format!("client-{number}.log"))
    }

    /// Kills one in the middle of whatever it does, and puts a new one in its place.
    pub(crate) fn kill(&mut self, slot: usize) -> io::Result<()> {
        let client = &mut self.clients[slot];
        // Stopped first: from here on it does nothing, and nobody can know yet that it is gone.
        client.stop()?;
        self.notes.note(EventKind::Died { client: client.number });
        client.child.kill()?;
        client.child.wait()?;
        self.killed += 1;
        self.clients[slot] = self.spawn(slot)?;
        Ok(())
    }

    /// Stops some of them for a while.
    pub(crate) fn pause(&self, slots: &[usize], time: Duration) -> io::Result<()> {
        for &slot in slots {
            let client = &self.clients[slot];
            self.notes.note(EventKind::Paused { client: client.number });
            client.stop()?;
        }
        sleep(time);
        for &slot in slots {
            let client = &self.clients[slot];
            client.signal(Signal::CONT)?;
            self.notes.note(EventKind::Resumed { client: client.number });
        }
        Ok(())
    }

    /// Lets all of them finish. Who can't is killed, and what it waits for it waits for in the history.
    pub(crate) fn finish(mut self) -> io::Result<usize> {
        self.clients.iter_mut().for_each(|client| drop(client.child.stdin.take()));
        let deadline = Instant::now() + FINISH;
        while let Some(mut client) = self.clients.pop() {
            let number = client.number;
            let ended = loop {
                match client.child.try_wait()? {
                    None if Instant::now() < deadline => sleep(Duration::from_millis(10)),
                    ended => break ended,
                }
            };
            match ended {
                Some(status) => self.look_at(number, status)?,
                None => {
                    client.child.kill()?;
                    client.child.wait()?;
                }
            }
        }
        Ok(self.killed)
    }

    fn look_at(&self, number: u32, status: ExitStatus) -> io::Result<()> {
        if status.success() {
            return Ok(());
        }
        let said = fs::read_to_string(self.log(number)).unwrap_or_default();
        Err(io::Error::other(format!("client {number} ended by itself ({status}): {said}")))
    }

    /// Has one of them ended by itself? None may.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        for slot in 0..self.clients.len() {
            let client = &mut self.clients[slot];
            let number = client.number;
            if let Some(status) = client.child.try_wait()? {
                self.look_at(number, status)?;
                return Err(io::Error::other(format!("client {number} ended by itself")));
            }
        }
        Ok(())
    }
}

impl TortureClient {
    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Stops it, and returns when it has stopped.
    fn stop(&self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        let pid = Pid::from_child(&self.child);
        // Not waited for, so that its number stays its own.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), stopped)?;
        Ok(())
    }
}

impl Drop for TortureClient {
    fn drop(&mut self) {
        // One that has ended and was waited for can't be killed, and that is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
