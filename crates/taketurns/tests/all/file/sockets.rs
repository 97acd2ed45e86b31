//! Wake-ups from process to process: by a socket beside the file, or where there is none by polling.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use taketurns::engine::{Clock, Engine, EngineEvent, Owner, Reply, WakeEvent};
use taketurns::{ClientId, Locks, Name};

use super::{Party, connect, directory, has_waiters, soon};

fn sockets(path: &Path) -> usize {
    let directory = format!("{}-wake", path.display());
    fs::read_dir(directory).map_or(0, Iterator::count)
}

fn make_old(path: &Path) {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
    let long_ago = Timespec { tv_sec: 1_000_000, tv_nsec: 0 };
    let times = Timestamps { last_access: long_ago, last_modification: long_ago };
    utimensat(CWD, path, &times, AtFlags::empty()).expect("a file of ours");
}

/// A client that refreshes its places seldom.
async fn connect_drowsily(path: &Path) -> Locks {
    let connect = taketurns::Connect::new(&format!("file:{}", path.display()));
    connect.waiter_lease(Duration::from_secs(60)).open().await.expect("a store in a file")
}

async fn join(path: &Path, client: u64) -> Party {
    Party::join(path, Clock::System, client).await
}

async fn hands_over(path: &Path) {
    hands_over_between(join(path, 1).await, join(path, 2).await).await;
}

/// Between two who refresh nothing: only what wakes the other can tell it.
async fn hands_over_between(one: Party, mut other: Party) {
    assert!(matches!(one.acquire("l", 1, one.client).await, Reply::Granted(_)));
    assert!(matches!(other.acquire("l", 2, other.client).await, Reply::Queued(_)));
    assert_eq!(one.release("l", 1).await, Reply::Released);
    let polls = !other.engine.guarantees().event_driven;
    let is_told = async {
        loop {
            let is_granted = match other.woken.recv().await.expect("the engine lives") {
                EngineEvent::Wake { wake, .. } => {
                    wake.owner == Owner::from_bits(2) && matches!(wake.event, WakeEvent::Granted(_))
                }
                // One who polls sees that something was written, and asks.
                _ => {
                    polls && matches!(other.acquire("l", 2, other.client).await, Reply::Granted(_))
                }
            };
            if is_granted {
                return;
            }
        }
    };
    soon("it is handed over", is_told).await;
    assert_eq!(other.release("l", 2).await, Reply::Released);
}

#[tokio::test]
async fn a_closed_client_leaves_no_socket_and_a_new_one_sweeps_dead_ones() {
    let (_dir, path) = directory();
    let locks = connect(&path).await;
    assert_eq!(sockets(&path), 1);
    locks.close().await;
    assert_eq!(sockets(&path), 0);
    let wake = PathBuf::from(format!("{}-wake", path.display()));
    for dead in ["0123456789abcdef", "fedcba9876543210"] {
        let dead = UnixDatagram::bind(wake.join(dead));
        drop(dead.expect("a socket that its process leaves behind"));
    }
    fs::write(wake.join("00000000000000ff"), "no socket").expect("a file");
    fs::write(wake.join("notes"), "no client").expect("a file");
    for old in ["0123456789abcdef", "00000000000000ff", "notes"] {
        make_old(&wake.join(old));
    }
    let (one, other) = (connect(&path).await, connect(&path).await);
    assert!(!wake.join("0123456789abcdef").exists(), "a dead one is swept");
    assert!(wake.join("fedcba9876543210").exists(), "a young one may be about to listen");
    assert!(wake.join("00000000000000ff").exists(), "what is no socket is not ours");
    assert!(wake.join("notes").exists(), "what is no client's is not ours");
    assert_eq!(sockets(&path), 5, "and the live ones are there");
    drop((one, other));
}

#[tokio::test]
async fn an_old_socket_that_somebody_listens_on_is_not_swept() {
    let (_dir, path) = directory();
    let one = join(&path, 1).await;
    make_old(Path::new(&format!("{}-wake/{}", path.display(), one.client)));
    let other = join(&path, 2).await;
    assert_eq!(sockets(&path), 2);
    hands_over_between(other, one).await;
}

#[tokio::test]
async fn a_directory_of_sockets_that_is_a_link_is_not_used() {
    let (dir, path) = directory();
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    std::os::unix::fs::symlink(&elsewhere, format!("{}-wake", path.display())).expect("a link");
    hands_over(&path).await;
    assert_eq!(fs::read_dir(&elsewhere).expect("a directory").count(), 0);
}

#[tokio::test]
async fn a_directory_of_sockets_that_is_somebody_elses_is_not_used() {
    let (_dir, path) = directory();
    connect(&path).await.close().await;
    let wake = format!("{}-wake", path.display());
    let nobody = rustix::fs::Uid::from_raw(65_534);
    if rustix::fs::chown(&wake, Some(nobody), None).is_err() {
        eprintln!("skipped: only root can give a directory away");
        return;
    }
    hands_over(&path).await;
    let _locks = connect(&path).await;
    assert_eq!(sockets(&path), 0);
}

#[tokio::test]
async fn a_store_reached_by_a_link_is_the_same_store_with_the_same_sockets() {
    let (dir, path) = directory();
    let one = join(&path, 1).await;
    let link = dir.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    hands_over_between(one, join(&link, 2).await).await;
    assert_eq!(sockets(&link), 0);
}

#[tokio::test]
async fn a_waiter_whose_process_died_is_skipped_before_its_lease_ends() {
    let (_dir, path) = directory();
    let mut party = Party::join(&path, Clock::System, 1).await;
    let (live, ghost) = (party.client, ClientId::from_bits(2));
    let socket = UnixDatagram::bind(format!("{}-wake/{ghost}", path.display()));
    assert!(matches!(party.acquire("l", 1, live).await, Reply::Granted(_)));
    for owner in 2..12 {
        assert!(matches!(party.acquire("l", owner, ghost).await, Reply::Queued(_)));
    }
    assert!(matches!(party.acquire("l", 12, live).await, Reply::Queued(_)));
    drop(socket.expect("the ghost's socket"));
    party.release("l", 1).await;
    let woken = soon("the live one is woken", party.woken.recv()).await.expect("the engine lives");
    let EngineEvent::Wake { wake, .. } = woken else { panic!("no wake-up") };
    assert_eq!(wake.owner, Owner::from_bits(12));
    assert!(matches!(wake.event, WakeEvent::Granted(_)));
}

#[tokio::test]
async fn a_waiter_whose_socket_is_not_there_is_not_taken_for_dead() {
    let (_dir, path) = directory();
    let (one, other) =
        (Party::join(&path, Clock::System, 1).await, Party::join(&path, Clock::System, 2).await);
    assert!(matches!(one.acquire("l", 1, one.client).await, Reply::Granted(_)));
    assert!(matches!(other.acquire("l", 2, other.client).await, Reply::Queued(_)));
    assert!(matches!(one.acquire("l", 3, one.client).await, Reply::Queued(_)));
    fs::remove_file(format!("{}-wake/{}", path.display(), other.client)).expect("its socket");
    assert_eq!(one.release("l", 1).await, Reply::Released);
    let view = one.engine.view(&Name::new("l").expect("a name"), 1).await.expect("it answers");
    assert_eq!(view.expect("held").holders[0].client, other.client);
}

#[tokio::test]
async fn a_release_is_done_though_what_was_to_follow_from_it_could_not_be() {
    let (_dir, path) = directory();
    let party = Party::join(&path, Clock::System, 1).await;
    let (live, ghost) = (party.client, ClientId::from_bits(2));
    let socket = UnixDatagram::bind(format!("{}-wake/{ghost}", path.display()));
    assert!(matches!(party.acquire("l", 1, live).await, Reply::Granted(_)));
    assert!(matches!(party.acquire("l", 2, ghost).await, Reply::Queued(_)));
    drop(socket.expect("the ghost's socket"));
    // The release can be written, and that the ghost is dead can not.
    let database = rusqlite::Connection::open(&path).expect("SQLite");
    let once = "CREATE TABLE written (n); INSERT INTO written VALUES (0);
        CREATE TRIGGER u AFTER UPDATE ON locks BEGIN
            UPDATE written SET n = n + 1;
            SELECT RAISE(ABORT, 'once only') FROM written WHERE n > 1;
        END;
        CREATE TRIGGER i AFTER INSERT ON locks BEGIN
            UPDATE written SET n = n + 1;
            SELECT RAISE(ABORT, 'once only') FROM written WHERE n > 1;
        END";
    database.execute_batch(once).expect("ours");
    assert_eq!(party.release("l", 1).await, Reply::Released);
    let written: u32 =
        database.query_row("SELECT n FROM written", [], |row| row.get(0)).expect("ours");
    assert_eq!(written, 1);
}

#[tokio::test]
async fn a_path_longer_than_a_sockets_may_be_works() {
    let (dir, _) = directory();
    let deep = dir.path().join("d".repeat(100)).join("e".repeat(100));
    fs::create_dir_all(&deep).expect("directories");
    let path = deep.join("locks.db");
    hands_over(&path).await;
    let locks = connect(&path).await;
    let socket = format!("{}-wake/{}", path.display(), locks.client_id());
    assert!(Path::new(&socket).exists(), "it has one");
}

#[tokio::test]
async fn a_hand_over_to_another_process_does_not_wait_for_a_refresh() {
    let (_dir, path) = directory();
    hands_over(&path).await;
}

#[tokio::test]
async fn where_there_can_be_no_sockets_the_file_is_polled() {
    let (_dir, path) = directory();
    fs::write(format!("{}-wake", path.display()), "in the way").expect("a file");
    hands_over(&path).await;
    assert!(!connect(&path).await.guarantees().event_driven, "and it says so");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_poll_do_not_wake_each_other() {
    let (_dir, path) = directory();
    fs::write(format!("{}-wake", path.display()), "in the way").expect("a file");
    let holder = connect_drowsily(&path).await;
    let guard = holder.mutex("l").acquire().await.expect("free");
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let locks = connect_drowsily(&path).await;
        waiting.push(tokio::spawn(async move { drop(locks.mutex("l").acquire().await) }));
    }
    has_waiters(&holder, "l", 4).await;
    let database = rusqlite::Connection::open(&path).expect("SQLite");
    let counting = "CREATE TABLE written (n); INSERT INTO written VALUES (0);
        CREATE TRIGGER u AFTER UPDATE ON locks BEGIN UPDATE written SET n = n + 1; END;
        CREATE TRIGGER i AFTER INSERT ON locks BEGIN UPDATE written SET n = n + 1; END";
    database.execute_batch(counting).expect("ours");
    // Somebody writes, and all who poll see it.
    drop(holder.mutex("other").acquire().await.expect("free"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let written: u32 =
        database.query_row("SELECT n FROM written", [], |row| row.get(0)).expect("ours");
    assert!(written < 10, "{written} writes where nobody had anything to say");
    guard.release().await.expect("held");
    for task in waiting {
        soon("everyone has a turn", task).await.expect("no panic");
    }
}
