//! Runs one round: starts a store, injects faults for some time, lets everybody finish, and checks what is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use taketurns::{Connect, View};
use taketurns_history::{EventKind, HistoryEvent, check};
use taketurns_servers::{PATIENCE, turns::now_us};

use crate::faults::Fallible;
use crate::fleet::Fleet;
use crate::nemesis::{QuietPeriod, inject_store_faults, stop_and_kill_clients};
use crate::notes::{HistoryReader, HistoryWriter};
use crate::observer::{ObserverConfig, QueueObserver};
use crate::plan::{self, MAX_LEASE, Orders, WAITER_LEASE};
use crate::pulse::{BEAT, Pulse};
use crate::report::RoundReport;
use crate::resources::ResourceServer;
use crate::stages::{TortureEngine, TortureStage};

/// What is noted now may be of a time so long ago: by a client that was stopped in between.
const LATE: Duration = Duration::from_secs(6);

/// Runs one, and says how it went. What was in the folder of a round before is gone.
pub(crate) fn run(
    engine: TortureEngine,
    time: Duration,
    seed: u64,
    folder: &Path,
) -> Fallible<RoundReport> {
    let parts = folder.join("parts");
    if folder.exists() {
        // What is somebody else's stays.
        if !parts.exists() && !folder.join("history.jsonl").exists() {
            return Err(format!("{} is there, and of no run before", folder.display()).into());
        }
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(&parts)?;
    let notes = Arc::new(HistoryWriter::open(&parts.join("parent.jsonl"))?);
    let stage = engine.stage(folder)?;
    let locks = plan::locks(stage.only_mutexes());
    let title = format!("{}, {} s, seed {seed}", engine.name(), time.as_secs());
    notes.note(EventKind::Begins {
        title: title.clone(),
        locks: locks.clone(),
        waiter_lease_us: WAITER_LEASE.as_micros() as u64,
        max_lease_us: MAX_LEASE.as_micros() as u64,
        stopped_blocks: stage.stopped_client_blocks(),
    });
    // Not in the run's folder: the name of a socket may be short of room.
    let socket = tempfile::tempdir()?;
    let resources = ResourceServer::open(&socket.path().join("resources"), notes.clone())?;
    let quiet = Arc::new(QuietPeriod::new());
    let look = ObserverConfig { url: stage.url(), locks, placed_after: stage.placed_after() };
    let observer = QueueObserver::start(look, notes.clone(), quiet.clone());
    let orders = Orders {
        number: 0,
        parent: rustix::process::getpid().as_raw_pid(),
        url: stage.url(),
        only_mutexes: stage.only_mutexes(),
        resources: resources.path().to_owned(),
        notes: parts.clone(),
        seed,
    };
    let mut fleet = Fleet::start(&*stage, orders, folder, notes.clone())?;
    let mut progress = RoundProgress::new(&title, parts.clone());
    progress.somebody_holds()?;
    let until = Instant::now() + time;
    let over = AtomicBool::new(false);
    thread::scope(|scope| -> Fallible<()> {
        let faults = stage.faults();
        let (notes, quiet) = (&*notes, &*quiet);
        let (progress, is_over) = (&mut progress, &over);
        let store = scope.spawn(move || {
            let done = inject_store_faults(&faults, until, seed, notes, quiet);
            // A run that is worth nothing ends at once.
            is_over.fetch_or(done.is_err(), Ordering::SeqCst);
            done
        });
        let told = scope.spawn(move || progress.tell(until, is_over));
        scope.spawn(move || feel_pulse(notes, is_over));
        let clients = stop_and_kill_clients(&mut fleet, until, seed, is_over);
        let store = store.join().expect("a nemesis does not panic");
        over.store(true, Ordering::SeqCst);
        let told = told.join().expect("who tells of it does not panic");
        store.and(clients)?;
        Ok(told?)
    })?;
    notes.note(EventKind::Calm);
    eprintln!("{title}: calm, everybody finishes");
    let killed = fleet.finish()?;
    observer.end();
    for thing in left_behind(&*stage, killed)? {
        notes.note(EventKind::Left { thing });
    }
    drop(resources);
    progress.gathering.read(&parts)?;
    let report = RoundReport::write(&progress.gathering.sorted(), folder)?;
    fs::remove_dir_all(&parts)?;
    Ok(report)
}

/// Notes when the whole machine was too busy. That is a fault like others, and excuses nothing.
fn feel_pulse(notes: &HistoryWriter, over: &AtomicBool) {
    let mut pulse = Pulse::new();
    while !over.load(Ordering::SeqCst) {
        thread::sleep(BEAT);
        if let Some((from_us, until_us)) = pulse.beat() {
            let (kind, on) = ("machine too busy".to_owned(), "everybody".to_owned());
            let fault =
                EventKind::Fault { kind: kind.clone(), on: on.clone(), excuses: Vec::new() };
            notes.note_at(from_us, fault);
            notes.note_at(until_us, EventKind::Mended { kind, on });
        }
    }
}

/// What is left once every lease is over. It is looked for until there is nothing, and not for ever.
fn left_behind(stage: &dyn TortureStage, killed: usize) -> Fallible<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut left = runtime.block_on(async {
            let store = Connect::new(&stage.url()).who("last").open().await?;
            // With all who wait: of those that are not shown, some may be dead and still be counted.
            let views = store.list_with("*", usize::MAX).await?;
            store.close().await;
            let of_lock = |(name, view): (taketurns::Name, View)| {
                let (holders, waiting) = (view.holders.len(), view.waiting);
                let left = format!("{name}: {holders} holders, {waiting} waiters");
                (holders + waiting > 0).then_some(left)
            };
            let left: Vec<String> = views.into_iter().filter_map(of_lock).collect();
            Ok::<_, taketurns::Error>(left)
        })?;
        left.extend(stage.left(killed));
        if left.is_empty() || Instant::now() >= deadline {
            return Ok(left);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Who says how it goes.
struct RoundProgress {
    title: String,
    parts: PathBuf,
    gathering: HistoryReader,
    violations: usize,
    /// When the history so far is looked at again: the longer that takes, the later.
    look_at: Instant,
}

impl RoundProgress {
    fn new(title: &str, parts: PathBuf) -> Self {
        let (gathering, look_at) = (HistoryReader::default(), Instant::now());
        Self { title: title.to_owned(), parts, gathering, violations: 0, look_at }
    }

    /// Waits for the first turn. A server that the clients don't know yet grants nothing at first.
    fn somebody_holds(&mut self) -> Fallible<()> {
        let deadline = Instant::now() + PATIENCE;
        let granted = |event: &HistoryEvent| matches!(event.what, EventKind::Granted { .. });
        while !self.gathering.events.iter().any(granted) {
            if Instant::now() >= deadline {
                return Err("nobody has had a turn yet".into());
            }
            thread::sleep(Duration::from_millis(50));
            self.gathering.read(&self.parts)?;
        }
        Ok(())
    }

    /// A line a second, until it is over.
    fn tell(&mut self, until: Instant, over: &AtomicBool) -> std::io::Result<()> {
        while !over.load(Ordering::SeqCst) {
            self.gathering.read(&self.parts)?;
            self.look();
            let count = |is: fn(&EventKind) -> bool| {
                self.gathering.events.iter().filter(|event| is(&event.what)).count()
            };
            let operations = count(|what| matches!(what, EventKind::Asked { .. }));
            let faults = count(|what| {
                matches!(
                    what,
                    EventKind::Fault { .. } | EventKind::Died { .. } | EventKind::Paused { .. }
                )
            });
            let left = until.saturating_duration_since(Instant::now()).as_secs();
            let (title, violations) = (&self.title, self.violations);
            eprintln!(
                "{title}: {left} s left, {operations} operations, {faults} faults, \
                 {violations} violations so far"
            );
            thread::sleep(Duration::from_secs(1));
        }
        Ok(())
    }

    fn look(&mut self) {
        let began = Instant::now();
        if began < self.look_at {
            return;
        }
        let whole_us = now_us().saturating_sub(LATE.as_micros() as u64);
        let mut events = self.gathering.sorted();
        events.retain(|event| event.at_us < whole_us);
        let found = check(&events);
        self.violations = found.iter().filter(|it| it.excused_by.is_none()).count();
        self.look_at = began + Duration::from_secs(5) + 20 * began.elapsed();
    }
}
