//! What is special about the file engine: what it finds at its path, who else uses the file, how
//! wake-ups cross from process to process, and what it forgets.

mod refusals;
mod sockets;

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use taketurns::blocking::Wait;
use taketurns::engine::{
    AcquireRequest, Clock, Engine, EngineEvent, FileEngine, ManualClock, Owner, Reply, Request,
    Wakes,
};
use taketurns::{Ask, Begun, ClientId, ErrorKind, Label, Locks, Name};
use tempfile::TempDir;

use crate::support::patience::soon;

fn directory() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("locks.db");
    (dir, path)
}

async fn connect(path: &Path) -> Locks {
    let url = format!("file:{}", path.display());
    taketurns::connect(&url).await.expect("a store in a file")
}

async fn has_waiters(locks: &Locks, lock: &str, waiting: usize) {
    soon("they queue up", async {
        while locks
            .inspect(lock)
            .await
            .expect("it answers")
            .is_none_or(|view| view.waiting != waiting)
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}
#[tokio::test]
async fn only_its_user_can_read_the_store() {
    let (_dir, path) = directory();
    let _locks = connect(&path).await;
    assert_eq!(fs::metadata(&path).expect("made").permissions().mode() & 0o777, 0o600);
    let wake = format!("{}-wake", path.display());
    assert_eq!(fs::metadata(&wake).expect("made").permissions().mode() & 0o777, 0o700);
    for socket in fs::read_dir(wake).expect("made") {
        let socket = socket.expect("readable").metadata().expect("there");
        assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    }
}
#[tokio::test]
async fn a_store_that_is_removed_in_use_is_noticed_and_its_locks_are_lost() {
    let (_dir, path) = directory();
    let locks = connect(&path).await;
    let lease = Duration::from_millis(500);
    let guard = locks.mutex("l").acquire().lease(lease).await.expect("free");
    fs::remove_file(&path).expect("ours");
    let error = locks.mutex("l").try_acquire().await.expect_err("there is no store");
    assert!(error.to_string().contains("removed or replaced"), "{error}");
    soon("it is lost", guard.lost()).await;
}

#[tokio::test]
async fn a_store_that_is_replaced_in_use_is_noticed() {
    let (dir, path) = directory();
    let locks = connect(&path).await;
    let another = dir.path().join("another.db");
    connect(&another).await.close().await;
    fs::rename(&another, &path).expect("ours");
    let error = locks.mutex("l").try_acquire().await.expect_err("it is another store");
    assert!(error.to_string().contains("removed or replaced"), "{error}");
}

#[tokio::test]
async fn a_second_client_in_the_process_does_not_drop_the_locks_of_the_first() {
    let (_dir, path) = directory();
    let first = connect(&path).await;
    let guard = first.mutex("l").acquire().await.expect("free");
    let _second = connect(&path).await;
    // SQLite holds a shared lock on the file for as long as it is open: closing any descriptor of
    // the file in this process would have dropped it.
    let mut other = Command::new(env::current_exe().expect("this program"));
    let other = other.args(["--exact", "file::asker"]).env(ASKS_ABOUT, &path).output();
    let other = other.expect("started");
    let said = String::from_utf8_lossy(&other.stdout);
    assert!(other.status.success() && said.contains("1 passed"), "{said}");
    guard.release().await.expect("held");
}

/// The file that another process asks about.
const ASKS_ABOUT: &str = "TAKETURNS_TEST_ASKS_ABOUT";

/// Not a test by itself: another process tries to lock the whole file. In the first process this would drop
/// the very locks that it asks about.
#[test]
fn asker() {
    use rustix::fs::{FlockOperation, fcntl_lock};
    let Some(path) = env::var_os(ASKS_ABOUT) else { return };
    let file = fs::File::options().read(true).write(true).open(path).expect("there");
    let locked = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(locked, Err(rustix::io::Errno::AGAIN), "nothing is locked");
}

#[tokio::test]
async fn a_store_whose_file_is_behind_its_journal_opens() {
    let (_dir, path) = directory();
    let locks = connect(&path).await;
    let before = fs::metadata(&path).expect("there").len();
    for lock in 0..40 {
        let lock = locks.mutex(format!("a lock with a rather long name, number {lock}"));
        drop(lock.acquire().await.expect("free"));
    }
    assert_eq!(fs::metadata(&path).expect("there").len(), before, "it is all in the journal");
    assert_eq!(connect(&path).await.list("*").await.expect("it answers").len(), 40);
}

/// One client's engine, with a clock of its choice.
struct Party {
    engine: FileEngine,
    client: ClientId,
    woken: tokio::sync::mpsc::UnboundedReceiver<EngineEvent>,
}

impl Party {
    async fn join(path: &Path, clock: Clock, client: u64) -> Self {
        let (client, (wakes, woken)) = (ClientId::from_bits(client), Wakes::channel());
        let engine = FileEngine::open(path.to_owned(), clock, client, wakes).await;
        Self { engine: engine.expect("a store in a file"), client, woken }
    }

    async fn call(&self, lock: &str, request: Request) -> Reply {
        let lock = Name::new(lock).expect("a name");
        self.engine.call(&lock, request).await.expect("it answers").reply
    }

    /// Acquires, in the name of any client, with leases that nothing in a test could wait for.
    async fn acquire(&self, lock: &str, owner: u128, client: ClientId) -> Reply {
        let now_ms = self.engine.ping().await.expect("it answers").now_ms;
        let request = AcquireRequest {
            owner: Owner::from_bits(owner),
            client,
            ask: Ask::Mutex,
            at_least_ms: 0,
            lease_ms: 3_600_000,
            waiter_lease_ms: Some(3_600_000),
            not_after_ms: now_ms + 10_000,
            ballot: None,
            label: Label::default(),
        };
        self.call(lock, Request::Acquire(request)).await
    }

    async fn release(&self, lock: &str, owner: u128) -> Reply {
        let owner = Owner::from_bits(owner);
        self.call(lock, Request::Release { owner, bury_until_ms: 0, last_used: None }).await
    }
}

#[tokio::test]
async fn asking_about_a_lock_that_nobody_has_used_leaves_no_trace() {
    let (_dir, path) = directory();
    let locks = connect(&path).await;
    assert_eq!(locks.break_lock("typo").await.expect("it answers"), 0);
    assert!(!locks.pool("typo").remove("m").await.expect("it answers"));
    assert!(locks.list("*").await.expect("it answers").is_empty());
    let memory = taketurns::connect("memory:").await.expect("memory");
    memory.break_lock("typo").await.expect("it answers");
    assert!(memory.list("*").await.expect("it answers").is_empty());
}

#[test]
fn a_guard_that_is_dropped_is_released_when_close_returns() {
    let (_dir, path) = directory();
    let url = format!("file:{}", path.display());
    let connect = || taketurns::connect(&url).wait().expect("a store in a file");
    let watcher = connect();
    for _ in 0..20 {
        let locks = connect();
        drop(locks.mutex("l").acquire().wait().expect("free"));
        locks.close().wait();
        let free = watcher.mutex("l").try_acquire().wait().expect("it answers");
        assert!(free.is_some(), "it did not wait for the drop");
        free.map(|guard| guard.release().wait());
    }
}

#[tokio::test]
async fn a_wall_clock_set_forward_forgets_no_lock_in_use() {
    let (_dir, path) = directory();
    let manual = ManualClock::new();
    let party = Party::join(&path, Clock::Manual(manual.clone()), 1).await;
    assert!(matches!(party.acquire("held", 1, party.client).await, Reply::Granted(_)));
    party.acquire("idle", 2, party.client).await;
    party.release("idle", 2).await;
    manual.set_wall_forward(Duration::from_secs(100 * 60 * 60));
    // A client looks for locks to forget when it connects, and then from time to time.
    let other = Party::join(&path, Clock::Manual(manual.clone()), 2).await;
    for _ in 0..1_000 {
        party.call("other", Request::Tick).await;
    }
    let tries = other.acquire("held", 3, other.client).await;
    assert!(matches!(tries, Reply::Queued(_)), "a second holder: {tries:?}");
}

#[tokio::test]
async fn a_step_that_waited_for_a_writer_has_the_time_of_its_write() {
    let (_dir, path) = directory();
    let manual = ManualClock::new();
    let party = Party::join(&path, Clock::Manual(manual.clone()), 1).await;
    let before = party.engine.ping().await.expect("it answers").now_ms;
    let writer = rusqlite::Connection::open(&path).expect("SQLite");
    writer.execute_batch("BEGIN IMMEDIATE").expect("nobody writes");
    let lock = Name::new("l").expect("a name");
    let let_it = async {
        // Time for the step to reach the file. If it has not, it is no later for that.
        tokio::time::sleep(Duration::from_millis(100)).await;
        manual.advance(Duration::from_secs(1));
        writer.execute_batch("ROLLBACK").expect("ours");
    };
    let (answer, ()) = tokio::join!(party.engine.call(&lock, Request::Tick), let_it);
    assert_eq!(answer.expect("it answers").stamp.expect("a time").now_ms, before + 1_000);
}

#[tokio::test]
async fn nobody_is_woken_by_a_step_that_could_not_be_committed() {
    let (_dir, path) = directory();
    let mut party = Party::join(&path, Clock::System, 1).await;
    assert!(matches!(party.acquire("l", 1, party.client).await, Reply::Granted(_)));
    assert!(matches!(party.acquire("l", 2, party.client).await, Reply::Queued(_)));
    // What refers to nothing is found out at the very end, by COMMIT.
    let database = rusqlite::Connection::open(&path).expect("SQLite");
    let fails = "CREATE TABLE one (id INTEGER PRIMARY KEY);
        CREATE TABLE other (id REFERENCES one DEFERRABLE INITIALLY DEFERRED);
        CREATE TRIGGER u AFTER UPDATE ON locks BEGIN INSERT INTO other VALUES (1); END;
        CREATE TRIGGER i AFTER INSERT ON locks BEGIN INSERT INTO other VALUES (1); END";
    database.execute_batch(fails).expect("ours");
    let release =
        Request::Release { owner: Owner::from_bits(1), bury_until_ms: 0, last_used: None };
    let lock = Name::new("l").expect("a name");
    let error = party.engine.call(&lock, release).await.expect_err("COMMIT fails");
    assert!(error.to_string().contains("constraint"), "{error}");
    assert!(party.woken.try_recv().is_err(), "somebody was woken for nothing");
    database.execute_batch("DROP TRIGGER u; DROP TRIGGER i").expect("ours");
    assert_eq!(party.release("l", 1).await, Reply::Released);
    soon("now it is woken", party.woken.recv()).await.expect("the engine lives");
}

#[tokio::test]
async fn names_used_once_are_forgotten_as_fast_as_they_come() {
    let (_dir, path) = directory();
    let manual = ManualClock::new();
    let party = Party::join(&path, Clock::Manual(manual.clone()), 1).await;
    for name in 0..3_000 {
        let lock = format!("once {name}");
        party.acquire(&lock, name, party.client).await;
        party.release(&lock, name).await;
        manual.advance(Duration::from_secs(30));
    }
    let rows: u32 = rusqlite::Connection::open(&path)
        .and_then(|database| database.query_row("SELECT count(*) FROM locks", [], |row| row.get(0)))
        .expect("SQLite");
    // An hour's worth is 120, and times are rounded up by ten minutes.
    assert!(rows < 400, "{rows} are still there");
}
#[tokio::test]
async fn a_reboot_ends_all_leases_and_keeps_tokens_members_and_what_is_done() {
    let (_dir, path) = directory();
    let locks = connect(&path).await;
    let guard = locks.mutex("l").acquire().await.expect("free");
    let token = guard.check().expect("held");
    locks.pool("p").add("a").await.expect("added");
    let Begun::Attempt(attempt) = locks.once("o").begin().await.expect("it answers") else {
        panic!("nobody has done it");
    };
    attempt.done().await.expect("recorded");
    let _member = locks.pool("p").any().await.expect("free").into_handle().await.expect("held");
    let _handle = guard.into_handle().await.expect("held");
    locks.close().await;
    let database = rusqlite::Connection::open(&path).expect("SQLite");
    database.execute("UPDATE boots SET boot_id = 'the one before'", []).expect("ours");
    drop(database);
    let locks = connect(&path).await;
    let view = locks.inspect("l").await.expect("it answers").expect("remembered");
    assert_eq!((view.holders.len(), view.last_token), (0, Some(token)));
    let guard = locks.mutex("l").try_acquire().await.expect("it answers").expect("free");
    assert!(guard.check().expect("held") > token);
    let member = locks.pool("p").try_any().await.expect("it answers").expect("free");
    assert_eq!(member.member().map(|member| member.as_str()), Some("a"));
    let begun = locks.once("o").try_begin().await.expect("it answers");
    assert!(matches!(begun, Some(Begun::DoneBefore(_))), "{begun:?}");
}

#[tokio::test]
async fn a_lock_taken_after_a_reboot_is_held_like_any_other() {
    let (_dir, path) = directory();
    let clock = Clock::Manual(ManualClock::new());
    let before = Party::join(&path, clock.clone(), 1).await;
    assert!(matches!(before.acquire("l", 1, before.client).await, Reply::Granted(_)));
    drop(before);
    let database = rusqlite::Connection::open(&path).expect("SQLite");
    database.execute("UPDATE boots SET boot_id = 'the one before'", []).expect("ours");
    let party = Party::join(&path, clock, 2).await;
    assert!(matches!(party.acquire("l", 2, party.client).await, Reply::Granted(_)));
    let tries = party.acquire("l", 3, party.client).await;
    assert!(matches!(tries, Reply::Queued(_)), "a second holder: {tries:?}");
}

#[tokio::test]
async fn what_was_used_before_a_reboot_is_forgotten_too() {
    let (_dir, path) = directory();
    let manual = ManualClock::new();
    let before = Party::join(&path, Clock::Manual(manual.clone()), 1).await;
    assert!(matches!(before.acquire("l", 1, before.client).await, Reply::Granted(_)));
    drop(before);
    let database = rusqlite::Connection::open(&path).expect("SQLite");
    database.execute("UPDATE boots SET boot_id = 'the one before'", []).expect("ours");
    // The lease clock starts over with the boot, and the wall clock goes on.
    manual.set_back(Duration::from_secs(900));
    manual.set_wall_forward(Duration::from_secs(3 * 60 * 60));
    let _party = Party::join(&path, Clock::Manual(manual), 2).await;
    let rows: u32 =
        database.query_row("SELECT count(*) FROM locks", [], |row| row.get(0)).expect("SQLite");
    assert_eq!(rows, 0);
}

#[tokio::test]
async fn a_store_that_another_process_keeps_busy_is_out_of_reach_and_not_broken() {
    let (_dir, path) = directory();
    let locks = connect(&path).await;
    let busy = rusqlite::Connection::open(&path).expect("SQLite");
    busy.execute_batch("BEGIN IMMEDIATE").expect("nobody writes");
    let error = locks.mutex("l").try_acquire().await.expect_err("busy");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    busy.execute_batch("ROLLBACK").expect("ours");
    drop(locks.mutex("l").try_acquire().await.expect("it answers").expect("free"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_create_the_store_at_once_make_one() {
    let (_dir, path) = directory();
    let mut tasks = Vec::new();
    for _ in 0..16 {
        let path = path.clone();
        tasks.push(tokio::spawn(async move {
            let locks = connect(&path).await;
            let held = locks.mutex("l").try_acquire().await.expect("it answers");
            // Held until all have tried.
            (locks, held)
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.push(soon("it is made", task).await.expect("no panic"));
    }
    assert_eq!(all.iter().filter(|(_, held)| held.is_some()).count(), 1);
    let left: Vec<_> = fs::read_dir(path.parent().expect("a directory"))
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name().into_string().expect("text"))
        .filter(|name| name.ends_with(".new"))
        .collect();
    assert!(left.is_empty(), "drafts were left behind: {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_waiters_of_five_clients_are_served_in_order() {
    let (_dir, path) = directory();
    let watcher = connect(&path).await;
    let first = watcher.mutex("l").acquire().await.expect("free");
    let (order, mut ordered) = tokio::sync::mpsc::unbounded_channel();
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(connect(&path).await);
    }
    for turn in 0..100 {
        let (locks, order) = (clients[turn * 7 % 5].clone(), order.clone());
        tokio::spawn(async move {
            let guard = locks.mutex("l").acquire().await.expect("a turn");
            order.send(turn).expect("the test listens");
            guard.release().await.expect("held");
        });
        has_waiters(&watcher, "l", turn + 1).await;
    }
    first.release().await.expect("held");
    for turn in 0..100 {
        assert_eq!(soon("everyone has a turn", ordered.recv()).await, Some(turn));
    }
}
