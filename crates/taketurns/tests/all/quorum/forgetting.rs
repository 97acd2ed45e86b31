//! A node that has forgotten what it promised does not vote until that is over; nodes that nobody has
//! used yet have nothing to forget.

use std::time::{Duration, Instant};

use taketurns::{ErrorKind, Handle, Locks};
use taketurns_servers::Server;

use super::nodes::{Nodes, connect, nothing_is_left, seen};
use crate::support::patience::{block_on, soon};

const LEASE: Duration = Duration::from_secs(5);

/// Node 2 of those that vote is killed, and comes back empty.
const FORGETS: usize = 2;

/// A lock held on nodes 0, 1 and 2 of five, since 3 and 4 were somebody else's.
struct Scene {
    nodes: Nodes,
    each: Vec<Locks>,
    held: Handle,
    /// It was asked for then, for one lease that nobody renews.
    since: Instant,
}

impl Scene {
    async fn set(holder: &Locks, nodes: Nodes) -> Self {
        let each = nodes.each().await;
        let mut foreign = Vec::new();
        for node in &each[3..] {
            foreign.push(node.mutex("l").acquire().lease(LEASE).await.expect("free"));
        }
        let since = Instant::now();
        let held = holder.mutex("l").acquire().lease(LEASE).await.expect("a majority is free");
        let held = held.into_handle().await.expect("held");
        for node in &each[..3] {
            let token = |view: &taketurns::View| view.holders.first().and_then(|one| one.token);
            seen("it votes", node, "l", |view| token(view) == Some(held.token())).await;
        }
        for guard in foreign {
            guard.release().await.expect("held");
        }
        nothing_is_left(&each[3..], "l").await;
        Self { nodes, each, held, since }
    }

    /// Who got it, got it when it was over.
    async fn is_over_when_granted(&self, locks: &Locks) {
        let tried = locks.mutex("l").try_acquire().lease(LEASE).await;
        // Of what a try may say, a grant is wrong while it is held.
        let granted = matches!(tried, Ok(Some(_)));
        assert!(!granted || self.since.elapsed() >= LEASE, "two hold it");
        drop(tried);
        let guard = soon("the lease ends", locks.mutex("l").acquire().lease(LEASE)).await;
        let guard = guard.expect("it waits for as long as it takes");
        assert!(self.since.elapsed() >= LEASE, "two hold it");
        assert!(guard.token() > self.held.token());
        guard.release().await.expect("held");
        nothing_is_left(&self.each, "l").await;
    }
}

fn forget(server: &Server) {
    server.kill();
    server.restart().expect("it comes back");
}

#[test]
fn a_node_restarted_empty_does_not_help_a_known_client_to_a_majority() {
    block_on(async {
        let nodes = Nodes::with_max_lease(5, LEASE);
        let (holder, second) = (nodes.connect().await, nodes.connect().await);
        let scene = Scene::set(&holder, nodes).await;
        forget(&scene.nodes.servers[FORGETS]);
        scene.is_over_when_granted(&second).await;
    });
}

#[test]
fn a_node_restarted_empty_does_not_help_one_who_comes_new_to_a_majority() {
    block_on(async {
        let nodes = Nodes::with_max_lease(5, LEASE);
        let holder = nodes.connect().await;
        let scene = Scene::set(&holder, nodes).await;
        // Nobody is left who remembers that it was in use.
        holder.close().await;
        let Scene { nodes, each, held, since } = scene;
        for node in each {
            node.close().await;
        }
        forget(&nodes.servers[FORGETS]);
        let second = nodes.connect().await;
        let each = nodes.each().await;
        Scene { nodes, each, held, since }.is_over_when_granted(&second).await;
    });
}

#[test]
fn what_is_let_go_of_goes_to_the_next_while_a_node_is_kept_out() {
    const DAY: Duration = Duration::from_secs(86_400);
    block_on(async {
        let nodes = Nodes::with_max_lease(5, DAY);
        let (holder, second) = (nodes.connect().await, nodes.connect().await);
        let scene = Scene::set(&holder, nodes).await;
        forget(&scene.nodes.servers[FORGETS]);
        holder.release(&scene.held).await.expect("two nodes know of it");
        let guard = soon("four nodes vote", second.mutex("l").acquire()).await.expect("free");
        assert!(guard.token() > scene.held.token());
        guard.release().await.expect("held");
        // With two more that have forgotten no majority may vote.
        forget(&scene.nodes.servers[0]);
        forget(&scene.nodes.servers[1]);
        let newcomer = scene.nodes.connect().await;
        let error = newcomer.mutex("l").try_acquire().await.expect_err("kept out");
        assert_eq!(error.kind(), ErrorKind::Quarantined, "{error}");
    });
}

#[test]
fn nodes_on_their_first_day_grant_at_once_to_however_many_come() {
    const CLIENTS: usize = 8;
    block_on(async {
        // Nobody waits for a day here: it is granted at once, or never.
        let nodes = Nodes::with_max_lease(5, Duration::from_secs(86_400));
        let url = nodes.url();
        let come = |number: usize| {
            let url = url.clone();
            tokio::spawn(async move {
                let locks = connect(&url).await;
                let own = locks.mutex(format!("own-{number}")).try_acquire().await;
                own.expect("nothing is kept out").expect("free").release().await.expect("held");
                let shared = soon("a turn", locks.mutex("shared").acquire()).await;
                shared.expect("a turn").release().await.expect("held");
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(come).collect();
        for client in clients {
            client.await.expect("granted");
        }
    });
}

#[test]
fn a_majority_that_has_forgotten_is_not_on_its_first_day_while_another_does_not_answer() {
    block_on(async {
        let nodes = Nodes::start(3);
        let holder = nodes.connect().await;
        let guard =
            holder.mutex("l").acquire().lease(Duration::from_secs(300)).await.expect("free");
        guard.into_handle().await.expect("held");
        // Nobody is left who remembers that it was in use.
        holder.close().await;
        nodes.servers[..2].iter().for_each(forget);
        nodes.servers[2].pause();
        let newcomer = connect(&nodes.url()).await;
        let error = newcomer.mutex("l").try_acquire().await.expect_err("two hold it");
        assert_eq!(error.kind(), ErrorKind::Quarantined, "{error}");
        nodes.servers[2].resume();
    });
}
