//! The module is loaded while clients are at work with scripts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use taketurns::{Error, ErrorKind, Locks, Token};
use taketurns_servers::{Cluster, Flavor, Server, eventually, on_both};

use crate::engine::fleet::{self, Fleet};
use crate::engine::patience::{block_on, soon};
use crate::engine::{
    ENABLE_MODULES, connect, connect_old, load_module, type_of, with_module, without_module,
};

/// Returns how often this command ran. The module's have their names in capitals.
fn calls(server: &Server, command: &str) -> u64 {
    server.command_stats().get(command).map_or(0, |stats| stats.calls)
}

/// One lock for each node of a Cluster.
const LOCKS: [&str; 3] = ["d", "a", "b"];

/// A critical section for one client at a time.
#[derive(Default)]
struct Room {
    inside: AtomicU32,
    closed: AtomicBool,
}

/// Takes turns until the room is closed, or until an error.
async fn contend(locks: Locks, room: Arc<Room>) -> Option<Error> {
    while !room.closed.load(Ordering::Relaxed) {
        let guard = match soon("a turn", locks.mutex("l").acquire()).await {
            Ok(guard) => guard,
            Err(error) => return Some(error),
        };
        assert_eq!(room.inside.fetch_add(1, Ordering::SeqCst), 0, "somebody is there");
        tokio::time::sleep(Duration::from_millis(1)).await;
        room.inside.fetch_sub(1, Ordering::SeqCst);
        soon("a release", guard.release()).await.expect("it was held");
        tokio::time::sleep(fleet::REST).await;
    }
    None
}

/// Takes one turn, and returns its token.
async fn turn(locks: &Locks, lock: &str) -> Token {
    let guard = soon(lock, locks.mutex(lock).acquire()).await.expect("a guard");
    let token = guard.token();
    soon(lock, guard.release()).await.expect("it was held");
    token
}

on_both! {
    fn where_there_is_the_module_scripts_do_nothing(flavor: Flavor) {
        let server = with_module(flavor).start().expect("a server");
        block_on(async {
            let locks = connect(&server.url()).await;
            server.reset_stats();
            let guard = soon("an acquire", locks.mutex("l").acquire()).await.expect("a guard");
            soon("a release", guard.release()).await.expect("it was held");
            locks.inspect("l").await.expect("a view").expect("a lock");
        });
        assert_eq!((calls(&server, "FENCELOCK.DO"), calls(&server, "evalsha")), (3, 0));
        assert_eq!(type_of(&server, "l"), "fencelock");
    }

    fn scripts_can_be_insisted_on(flavor: Flavor) {
        let server = with_module(flavor).start().expect("a server");
        block_on(async {
            let locks = connect_old(&server).await;
            let guard = soon("an acquire", locks.mutex("l").acquire()).await.expect("a guard");
            soon("a release", guard.release()).await.expect("it was held");
        });
        assert_eq!((calls(&server, "FENCELOCK.BIND"), calls(&server, "FENCELOCK.DO")), (0, 0));
        assert_eq!(type_of(&server, "l"), "hash");
    }

    fn a_fleet_at_work_does_not_notice_when_the_module_comes(flavor: Flavor) {
        let server = without_module(flavor);
        block_on(async {
            let mut fleet = Fleet::default();
            let mut own = Vec::new();
            let veterans = [connect(&server.url()).await, connect(&server.url()).await];
            for member in ["m-1", "m-2"] {
                veterans[0].pool(fleet::POOL).add(member).await.expect("a member");
            }
            for (number, locks) in veterans.iter().enumerate() {
                fleet.join(locks);
                let name = format!("own-{number}");
                own.push(soon("an acquire", locks.mutex(&name).acquire()).await.expect("a guard"));
            }
            fleet.goes_on(20);
            assert_eq!(fleet::ALL.map(|lock| type_of(&server, lock)), ["hash"; 3]);
            load_module(&server);
            fleet.goes_on(20);
            let before = fleet.last_tokens();
            let newcomer = connect(&server.url()).await;
            fleet.join(&newcomer);
            eventually("the module has them all", || {
                let types = fleet::ALL.map(|lock| type_of(&server, lock));
                (types == ["fencelock"; 3]).then_some(())
            })
            .expect("they are taken over");
            fleet.goes_on(20);
            for (before, after) in before.into_iter().zip(fleet.last_tokens()) {
                assert!(before < after);
            }
            fleet.finish().await;
            // Locks that were held all the time stay with the scripts, and with their holders.
            for (number, guard) in own.into_iter().enumerate() {
                let name = format!("own-{number}");
                assert_eq!(type_of(&server, &name), "hash");
                let token = guard.check().expect("it is held");
                soon("a release", guard.release()).await.expect("it was held");
                let again = soon("an acquire", newcomer.mutex(&name).acquire()).await;
                assert!(again.expect("a guard").token() > token);
                assert_eq!(type_of(&server, &name), "fencelock");
            }
        });
    }

    fn a_client_with_the_module_keeps_and_releases_a_lock_of_the_scripts(flavor: Flavor) {
        let server = with_module(flavor).start().expect("a server");
        block_on(async {
            let (old, new) = (connect_old(&server).await, connect(&server.url()).await);
            let theirs = soon("an acquire", old.mutex("l").acquire()).await.expect("a guard");
            assert!(new.mutex("l").try_acquire().await.expect("an answer").is_none());
            let acquire = new.mutex("l").acquire().lease(Duration::from_secs(3));
            let waiting = tokio::spawn(acquire.into_future());
            soon("it waits", async {
                while old.inspect("l").await.expect("a view").expect("a lock").waiting == 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await;
            soon("a release", theirs.release()).await.expect("it was held");
            let ours = soon("it is handed over", waiting).await.expect("no panic").expect("a guard");
            assert_eq!(type_of(&server, "l"), "hash");
            let before = calls(&server, "evalsha");
            eventually("it is renewed", || (calls(&server, "evalsha") > before + 1).then_some(()))
                .expect("two renewals");
            ours.check().expect("it is held");
            assert!(old.mutex("l").try_acquire().await.expect("an answer").is_none());
            soon("a release", ours.release()).await.expect("it was held");
        });
    }

    fn old_and_new_clients_never_hold_together(flavor: Flavor) {
        let server = with_module(flavor).start().expect("a server");
        block_on(async {
            let (old, new) = (connect_old(&server).await, connect(&server.url()).await);
            // It is the scripts' lock at first, and both clients use it.
            let held = soon("an acquire", old.mutex("l").acquire()).await.expect("a guard");
            let room = Arc::new(Room::default());
            let olds = [0; 2].map(|_| tokio::spawn(contend(old.clone(), room.clone())));
            let news = [0; 2].map(|_| tokio::spawn(contend(new.clone(), room.clone())));
            soon("a release", held.release()).await.expect("it was held");
            // It becomes the module's when it is idle for a moment, and then the old clients can't
            // reach it.
            for ended in olds {
                let error = soon("it is taken over", ended).await.expect("no panic");
                assert!(error.expect("why it ended").to_string().contains("module=off"));
            }
            assert_eq!(type_of(&server, "l"), "fencelock");
            room.closed.store(true, Ordering::Relaxed);
            for ended in news {
                assert!(soon("a turn ends", ended).await.expect("no panic").is_none());
            }
        });
    }

    fn a_cluster_is_taken_over_node_by_node(flavor: Flavor) {
        let builder = Cluster::builder(flavor).args(ENABLE_MODULES);
        let cluster = builder.start().expect("a Cluster");
        block_on(async {
            let veteran = connect(&cluster.url()).await;
            let (mut held, mut tokens) = (Vec::new(), Vec::new());
            for lock in LOCKS {
                let own = format!("own-{lock}");
                held.push(soon(&own, veteran.mutex(&own).acquire()).await.expect("a guard"));
                tokens.push(turn(&veteran, lock).await);
            }
            for (number, lock) in LOCKS.into_iter().enumerate() {
                let node = &cluster.nodes[number];
                let slot = cluster.slot_of(format!("tt:{lock}"));
                assert_eq!(cluster.owner_of(slot).expect("an owner"), number);
                load_module(node);
                let newcomer = connect(&cluster.url()).await;
                let taken_over = turn(&newcomer, lock).await;
                assert_eq!(type_of(node, lock), "fencelock");
                assert!(taken_over > tokens.remove(0));
                assert!(turn(&veteran, lock).await > taken_over);
            }
            for guard in held {
                guard.check().expect("it is held");
                soon("a release", guard.release()).await.expect("it was held");
            }
        });
    }

    fn a_client_without_the_module_is_told_why_it_can_not_have_a_lock_of_it(flavor: Flavor) {
        let server = with_module(flavor).start().expect("a server");
        block_on(async {
            let (old, new) = (connect_old(&server).await, connect(&server.url()).await);
            let guard = soon("an acquire", new.mutex("l").acquire()).await.expect("a guard");
            let error = soon("a try", old.mutex("l").try_acquire()).await.expect_err("it is held");
            assert_eq!(error.kind(), ErrorKind::Store, "{error}");
            assert!(error.to_string().contains("module=off"), "{error}");
            guard.check().expect("it is held");
        });
    }

    fn a_listing_has_the_locks_of_both(flavor: Flavor) {
        let server = with_module(flavor).start().expect("a server");
        block_on(async {
            let (old, new) = (connect_old(&server).await, connect(&server.url()).await);
            let _a = soon("an acquire", old.mutex("a").acquire()).await.expect("a guard");
            let _b = soon("an acquire", new.mutex("b").acquire()).await.expect("a guard");
            let list = new.list("*").await.expect("a list");
            let names: Vec<_> = list.iter().map(|(name, view)| (name.as_str(), view.holders.len())).collect();
            assert_eq!(names, [("a", 1), ("b", 1)]);
        });
    }
}
