//! What is special about the file engine: what it finds at its path, who else uses the file, and how
//! wake-ups cross from process to process.

mod refusals;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use taketurns::engine::{Clock, Engine, FileEngine, Wakes, Woken};
use taketurns::{
    AcquireRequest, Ask, ClientId, Label, Locks, Name, Owner, Reply, Request, WakeEvent,
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

fn directory() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("locks.db");
    (dir, path)
}

async fn connect(path: &Path) -> Locks {
    let url = format!("file:{}", path.display());
    taketurns::connect(&url).await.expect("a store in a file")
}

async fn soon<T>(what: &str, future: impl IntoFuture<Output = T>) -> T {
    let output = tokio::time::timeout(PATIENCE, future.into_future()).await;
    output.unwrap_or_else(|_| panic!("this took too long: {what}"))
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

fn sockets(path: &Path) -> usize {
    let directory = format!("{}-wake", path.display());
    fs::read_dir(directory).map_or(0, Iterator::count)
}

#[tokio::test]
async fn only_its_user_can_read_the_store() {
    let (_dir, path) = directory();
    let _locks = connect(&path).await;
    assert_eq!(fs::metadata(&path).expect("made").permissions().mode() & 0o777, 0o600);
    let wake = format!("{}-wake", path.display());
    assert_eq!(fs::metadata(wake).expect("made").permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_closed_client_leaves_no_socket_and_a_new_one_sweeps_what_the_dead_left() {
    let (_dir, path) = directory();
    let locks = connect(&path).await;
    assert_eq!(sockets(&path), 1);
    locks.close().await;
    assert_eq!(sockets(&path), 0);
    let dead = UnixDatagram::bind(format!("{}-wake/0123456789abcdef", path.display()));
    drop(dead.expect("a socket that its process leaves behind"));
    assert_eq!(sockets(&path), 1);
    let (one, other) = (connect(&path).await, connect(&path).await);
    assert_eq!(sockets(&path), 2, "the dead one is gone, the live ones are not");
    drop((one, other));
}

#[tokio::test]
async fn a_waiter_whose_process_died_is_passed_over_without_waiting_for_its_lease() {
    let (_dir, path) = directory();
    let (wakes, mut woken) = Wakes::channel();
    let (live, ghost) = (ClientId::from_bits(1), ClientId::from_bits(2));
    let engine = FileEngine::open(path.clone(), Clock::System, live, wakes).await.expect("a store");
    let socket = UnixDatagram::bind(format!("{}-wake/{ghost}", path.display()));
    let lock = Name::new("l").expect("a name");
    let acquire = async |owner, client| {
        let now_ms = engine.ping().await.expect("it answers").now_ms;
        let request = AcquireRequest {
            owner: Owner::from_bits(owner),
            client,
            ask: Ask::Mutex,
            lease_ms: 3_600_000,
            // Nothing in this test could wait for as long as that.
            waiter_lease_ms: Some(3_600_000),
            not_after_ms: now_ms + 10_000,
            label: Label::default(),
        };
        engine.call(&lock, Request::Acquire(request)).await.expect("it answers").reply
    };
    assert!(matches!(acquire(1, live).await, Reply::Granted(_)));
    for owner in 2..12 {
        assert!(matches!(acquire(owner, ghost).await, Reply::Queued(_)));
    }
    assert!(matches!(acquire(12, live).await, Reply::Queued(_)));
    drop(socket.expect("the ghost's socket"));
    let release = Request::Release { owner: Owner::from_bits(1), bury_until_ms: 0 };
    engine.call(&lock, release).await.expect("it answers");
    let woken = soon("the live one is woken", woken.recv()).await.expect("the engine lives");
    let Woken::Wake { wake, .. } = woken else { panic!("no wake-up") };
    assert_eq!(wake.owner, Owner::from_bits(12));
    assert!(matches!(wake.event, WakeEvent::Granted(_)));
}

#[tokio::test]
async fn a_path_longer_than_a_sockets_may_be_works() {
    let (dir, _) = directory();
    let deep = dir.path().join("d".repeat(100)).join("e".repeat(100));
    fs::create_dir_all(&deep).expect("directories");
    let path = deep.join("locks.db");
    hands_over_in_time(&path).await;
    let _locks = connect(&path).await;
    assert_eq!(sockets(&path), 1, "it has one");
}

/// A client that refreshes its places so seldom that only a wake-up can be in time.
async fn connect_drowsily(path: &Path) -> Locks {
    let connect = taketurns::Connect::new(&format!("file:{}", path.display()));
    connect.waiter_lease(Duration::from_secs(60)).open().await.expect("a store in a file")
}

async fn hands_over_in_time(path: &Path) {
    let (one, other) = (connect_drowsily(path).await, connect_drowsily(path).await);
    let guard = one.mutex("l").acquire().await.expect("free");
    let waits = tokio::spawn(async move { other.mutex("l").acquire().await.expect("a turn") });
    has_waiters(&one, "l", 1).await;
    let started = Instant::now();
    guard.release().await.expect("held");
    let guard = soon("it is handed over", waits).await.expect("no panic");
    assert!(started.elapsed() < Duration::from_secs(20), "only a refresh found it");
    guard.release().await.expect("held");
}

#[tokio::test]
async fn a_hand_over_to_another_process_does_not_wait_for_a_refresh() {
    let (_dir, path) = directory();
    hands_over_in_time(&path).await;
}

#[tokio::test]
async fn where_there_can_be_no_sockets_the_file_is_polled() {
    let (_dir, path) = directory();
    fs::write(format!("{}-wake", path.display()), "in the way").expect("a file");
    hands_over_in_time(&path).await;
}

#[tokio::test]
async fn a_reboot_ends_all_leases_and_keeps_tokens_and_members() {
    let (_dir, path) = directory();
    let locks = connect(&path).await;
    let guard = locks.mutex("l").acquire().await.expect("free");
    let token = guard.check().expect("held");
    locks.pool("p").add("a").await.expect("added");
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
