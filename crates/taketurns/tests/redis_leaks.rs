//! Nothing of a client outlives it, neither here nor on the servers: no thread, no descriptor, no
//! connection, no subscription, no waiter, and no key but idle locks that end by themselves, pools
//! with members, and the marker.

#[path = "support/process.rs"]
mod process;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use process::{descriptors, threads};
use taketurns::{Connect, Error, Guard, Locks};
use taketurns_servers::{
    Cluster, Flavor, PATIENCE, Proxy, Replicated, Server, eventually, on_both,
};

/// Threads and descriptors are the process's, so its tests run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

const CLIENTS: usize = 3;
const TASKS: u64 = 60;

/// A number below `below`, a different one each time, the same ones in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// One task: takes something again and again, and lets go of it in one of many ways.
async fn task(locks: Locks, seed: u64) {
    let mut dice = Dice(seed);
    for _ in 0..8 {
        let name = format!("l{}", dice.roll(3));
        let acquire = match dice.roll(5) {
            0 | 1 => locks.mutex(&name).acquire(),
            2 if dice.roll(2) == 0 => locks.rwlock(format!("{name}/rw")).write(),
            2 => locks.rwlock(format!("{name}/rw")).read(),
            3 => locks.semaphore(format!("{name}/s"), 3).acquire().permits(1 + dice.roll(3) as u32),
            _ if dice.roll(4) == 0 => locks.pool("nobody").member("never there"),
            _ => locks.pool("pool").any(),
        };
        let acquire = acquire.lease(Duration::from_secs(10));
        let patience = Duration::from_micros(dice.roll(30_000));
        let outcome = match dice.roll(3) {
            // Dropped wherever it is by then.
            0 => match tokio::time::timeout(patience, acquire.into_future()).await {
                Ok(outcome) => outcome,
                Err(_) => continue,
            },
            _ => acquire.within(patience).await,
        };
        match outcome {
            Ok(guard) => let_go(&locks, guard, dice.roll(5)).await,
            Err(Error::Timeout { .. } | Error::Unreachable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn let_go(locks: &Locks, guard: Guard, how: u64) {
    match how {
        0 => drop(guard),
        1 => drop(guard.release()),
        2 => {
            let handle = guard.into_handle().await.expect("held");
            locks.release(&handle).await.expect("held");
        }
        3 => {
            tokio::time::sleep(Duration::from_millis(2)).await;
            guard.release().await.expect("held");
        }
        _ => guard.release().await.expect("held"),
    }
}

/// Clients come, do all that, and go: some by `close`, some by being dropped, some in the middle.
async fn a_busy_time(url: &str) {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let connect = Connect::new(url).waiter_lease(Duration::from_secs(2));
        clients.push(connect.open().await.expect("a server"));
    }
    for member in ["a", "b"] {
        clients[0].pool("pool").add(member).await.expect("an answer");
    }
    let tasks: Vec<_> = (0..TASKS)
        .map(|seed| tokio::spawn(task(clients[seed as usize % CLIENTS].clone(), seed)))
        .collect();
    for (number, task) in tasks.into_iter().enumerate() {
        if number % 10 == 0 {
            task.abort();
        }
        match task.await {
            Err(error) if error.is_panic() => panic!("a task failed: {error}"),
            _ => {}
        }
    }
    // One that is dropped while it waits, with its client.
    let held = clients[0].mutex("last").acquire().await.expect("free");
    let waits = tokio::spawn(clients[1].mutex("last").acquire().into_future());
    waits.abort();
    drop(held);
    let closed = clients.pop().expect("a client");
    closed.close().await;
}

/// What a server still knows of us, but for what may stay.
fn left_on(server: &Server, is_sentinel: bool) -> BTreeSet<String> {
    let mut left = BTreeSet::new();
    let mut own = server.connect().expect("a connection");
    let id = own.command(&["CLIENT", "ID"]).ok().and_then(|id| id.int()).unwrap_or(-1);
    let list = own.command(&["CLIENT", "LIST"]).expect("an answer");
    for line in list.text().unwrap_or_default().lines() {
        let field = |name: &str| line.split(' ').find_map(|pair| pair.strip_prefix(name));
        // Those of servers among each other are not ours.
        let is_servers = field("flags=").is_some_and(|flags| flags.contains(['S', 'M']))
            || field("name=").is_some_and(|name| name.starts_with("sentinel-"));
        // A Sentinel of Redis 7.0 does not say which connection asks.
        let is_own = field("id=") == Some(&id.to_string()) || field("cmd=") == Some("client|list");
        if !is_own && !is_servers {
            left.insert(format!("the connection {line}"));
        }
    }
    if is_sentinel {
        return left;
    }
    let channels = own.command(&["PUBSUB", "CHANNELS", "tt:*"]).expect("an answer");
    left.extend(channels.array().into_iter().flatten().map(|name| format!("the channel {name}")));
    let keys = own.command(&["KEYS", "*"]).expect("an answer");
    for key in keys.array().into_iter().flatten().filter_map(|key| key.text()) {
        if key.starts_with("tt:\u{1}run") {
            continue;
        }
        let fields = own.command(&["HKEYS", key]).expect("an answer");
        let fields: Vec<&str> =
            fields.array().into_iter().flatten().filter_map(|field| field.text()).collect();
        // Holders, waiters, their clients and owners, and the lines that they stand in.
        let used = |field: &&str| {
            field.starts_with(['h', 'w', 'c', 'o', 'l'])
                || [">q", "<q", ">l", "<l"].iter().any(|link| field.starts_with(link))
        };
        left.extend(fields.iter().copied().filter(used).map(|field| format!("{key}: {field}")));
        let ends = own.command(&["TTL", key]).expect("an answer").int();
        let has_members = fields.iter().any(|field| field.len() > 1 && field.starts_with('m'));
        if ends == Some(-1) && !has_members {
            left.insert(format!("{key} for ever"));
        }
    }
    left
}

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().expect("a runtime")
}

/// Waits until so many wait for the lock `l`.
async fn waiting(locks: &Locks, count: usize) {
    let counted = tokio::time::timeout(PATIENCE, async {
        while locks.inspect("l").await.expect("an answer").expect("it is held").waiting != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    counted.await.unwrap_or_else(|_| panic!("{count} never wait"));
}

fn leaves_nothing(url: &str, servers: &[&Server], sentinels: &[&Server]) {
    let runtime = runtime();
    runtime.block_on(async {
        // Whatever a process opens once and keeps is not a leak.
        taketurns::connect(url).await.expect("a server").close().await;
    });
    eventually("no thread is left", || (threads() == 0).then_some(())).expect("threads end");
    let before = descriptors();
    for _ in 0..2 {
        runtime.block_on(async {
            let busy = tokio::time::timeout(PATIENCE * 2, a_busy_time(url));
            busy.await.expect("it comes to an end");
        });
    }
    let ended = eventually("no thread is left", || (threads() == 0).then_some(()));
    ended.unwrap_or_else(|error| panic!("{error}: {} are", threads()));
    eventually("no descriptor is left", || (descriptors() == before).then_some(()))
        .unwrap_or_else(|error| panic!("{error}: {} before, {} now", before, descriptors()));
    for (servers, is_sentinel) in [(servers, false), (sentinels, true)] {
        for server in servers {
            // A server may not have noticed yet that a connection was closed.
            let clean = || left_on(server, is_sentinel).is_empty().then_some(());
            if eventually("nothing is left", clean).is_err() {
                panic!("{} has {:#?}", server.port(), left_on(server, is_sentinel));
            }
        }
    }
    let used = |server: &&Server| server.cli(&["DBSIZE"]).int() > Some(1);
    assert!(servers.iter().any(used), "there was nothing to look at");
}

on_both! {
    fn nothing_is_left_on_a_server(flavor: Flavor) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let server = Server::start(flavor).expect("a server");
        leaves_nothing(&server.url(), &[&server], &[]);
    }

    fn a_client_ends_after_what_its_acquires_give_up_as_it_does(flavor: Flavor) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let server = Server::start(flavor).expect("a server");
        let proxy = Proxy::start(server.port()).expect("a proxy");
        let runtime = runtime();
        runtime.block_on(async {
            let other = taketurns::connect(&server.url()).await.expect("a server");
            let guard = other.mutex("l").acquire().await.expect("free");
            // A place that was left behind would stay for a minute.
            let leaves = Connect::new(&proxy.url()).waiter_lease(Duration::from_secs(60));
            let leaves = leaves.open().await.expect("a server");
            let waits = tokio::spawn(leaves.mutex("l").acquire().into_future());
            waiting(&other, 1).await;
            // An answer takes longer than a client needs to end without it.
            proxy.delay(Duration::from_millis(100));
            drop(leaves);
            waits.abort();
            waiting(&other, 0).await;
            guard.release().await.expect("held");
            other.close().await;
        });
    }

    fn nothing_is_left_on_a_cluster(flavor: Flavor) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = Cluster::start(flavor).expect("a Cluster");
        let nodes: Vec<&Server> = cluster.nodes.iter().collect();
        leaves_nothing(&cluster.url(), &nodes, &[]);
    }

    fn nothing_is_left_on_a_master_with_sentinels(flavor: Flavor) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let set = Replicated::start(flavor).expect("a set");
        let (servers, sentinels): (Vec<_>, Vec<_>) =
            (set.servers.iter().collect(), set.sentinels.iter().collect());
        leaves_nothing(&set.url(), &servers, &sentinels);
    }
}
