//! A replica that becomes the master has the locks as they were, without the clients that were
//! connected to another server, and time goes on.

use taketurns_core::Ask;
use taketurns_servers::{
    Flavor, ReplicaSet, Server, ServerClock, ServerReply, eventually, module_path, on_both,
};

use crate::persistence::program::{Program, run_of};
use crate::persistence::support::{Client, HeldLock, blocked, builder, server};

/// The old master: a lock with a secret, and locks that only time or a closed connection will free.
struct Scene {
    held: HeldLock,
    pool: HeldLock,
    digests: [String; 2],
    run: String,
    _open: [Client; 2],
}

fn set(master: &Server) -> Scene {
    let (mut client, mut program) = (Client::of(master), Program::of(master, "", 1));
    let held = client.take("k 600 LABEL holder");
    program.wait("k", 1, Ask::Mutex, "program");
    let waiter = blocked(master, "k", "600", "gone");
    client.int("FENCELOCK.POOL ADD pool x y");
    let pool = client.take("pool 600 ANY LABEL holder");
    client.take("rw 600 SHARED LABEL holder");
    program.wait("rw", 2, Ask::Write, "program");
    client.take("timed 6 LABEL short");
    program.wait("timed", 3, Ask::Mutex, "program");
    let mut bound = Client::of(master);
    bound.take("bound 600 BOUND LABEL bound");
    program.wait("bound", 4, Ask::Mutex, "program");
    let digests = ["pool", "rw"].map(|key| client.digest(key));
    Scene { held, pool, digests, run: run_of(master), _open: [waiter, bound] }
}

fn goes_on(scene: &Scene, new: &Server) {
    let mut client = Client::of(new);
    assert_eq!(["pool", "rw"].map(|key| client.digest(key)), scene.digests);
    client.is_waited_for_by("k", &["program"]);
    client.is_held_by("k", &["holder"]);
    // Nothing is handed to a program before one has looked at this server.
    for key in ["bound", "timed"] {
        client.is_held_by(key, &[]);
        client.is_waited_for_by(key, &["program"]);
    }
    assert!(client.renew("k", &scene.held).is_ok());
    let mut again = blocked(new, "k", "600", "again");
    assert!(client.release("k", &scene.held).is_ok());
    let mut program = Program::of(new, &scene.run, 1);
    for (key, owner) in [("timed", 3), ("bound", 4)] {
        program.token(key, owner, Ask::Mutex);
    }
    let token = program.token("k", 1, Ask::Mutex);
    assert!(token > scene.held.token as u64);
    program.release("k", 1);
    assert!(again.granted().token as u64 > token);
    assert_eq!(client.release("pool", &scene.held), ServerReply::Nil);
    assert!(client.release("pool", &scene.pool).is_ok());
    assert!(client.take("pool 600 MEMBER x").token > scene.pool.token);
}

/// Waits until everything so far has reached that replica.
fn repeated(master: &Server, replica: &Server) {
    let mut client = Client::of(master);
    let digests =
        |client: &mut Client| ["k", "bound", "timed", "rw", "pool"].map(|key| client.digest(key));
    let mut other = Client::of(replica);
    eventually("the replica has it all", || {
        (digests(&mut client) == digests(&mut other)).then_some(())
    })
    .expect("the same");
}

on_both! {
    fn a_replica_that_is_promoted_goes_on(flavor: Flavor) {
        let master = server(flavor);
        let clock = ServerClock::ahead(0).expect("a clock");
        let replica = builder(flavor, &[]).replica_of(master.port()).clock(&clock);
        let replica = replica.start().expect("a replica");
        let scene = set(&master);
        repeated(&master, &replica);
        master.kill();
        Client::of(&replica).ok("REPLICAOF NO ONE");
        clock.set(10).expect("set");
        goes_on(&scene, &replica);
    }

    fn a_fail_over_by_sentinels_goes_on(flavor: Flavor) {
        let module = module_path().expect("the module was built");
        let set_up = ReplicaSet::builder(flavor).replicas(1).module(&module, &[]);
        let set_up = set_up.start().expect("a set");
        let old = set_up.master().expect("a master");
        let scene = set(old);
        repeated(old, set_up.replicas().expect("replicas")[0]);
        old.kill();
        goes_on(&scene, set_up.failed_over(old).expect("a fail-over"));
    }

    fn those_who_wait_at_a_master_that_is_demoted_are_told(flavor: Flavor) {
        let [old, new] = [server(flavor), server(flavor)];
        let mut client = Client::of(&old);
        client.take("k 600");
        let mut waiter = blocked(&old, "k", "600", "waits");
        client.ok(&format!("REPLICAOF 127.0.0.1 {}", new.port()));
        let reply = waiter.reply();
        assert!(reply.error().is_some(), "{reply}");
        let follows = || (old.info("replication").get("master_link_status")? == "up").then_some(());
        eventually("it follows", follows).expect("a link");
        assert_eq!(old.info("fencelock")["fencelock_blocked_clients"], "0");
        // It has its new master's state, and becomes a master again when told to.
        assert_eq!(client.int("EXISTS k"), 0);
        client.ok("REPLICAOF NO ONE");
        client.take("k 1");
        let mut waiter = Client::of(&old);
        waiter.wait_for("k 600");
        // Only its timer does anything.
        waiter.granted();
    }
}
