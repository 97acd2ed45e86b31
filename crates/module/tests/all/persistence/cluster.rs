//! A slot that moves to another node, with a held lock that has waiters.

use taketurns_core::Ask;
use taketurns_servers::{Cluster, Flavor, ServerReply, module_path, on_both};

use crate::persistence::program::{Program, run_of};
use crate::persistence::support::{Client, blocked};

on_both! {
    fn a_slot_takes_its_locks_along(flavor: Flavor) {
        let module = module_path().expect("the module was built");
        let cluster = Cluster::builder(flavor).module(&module, &[]).start().expect("a cluster");
        let slot = cluster.slot_of("{t}k");
        let from = cluster.owner_of(slot).expect("an owner");
        let to = (from + 1) % 3;
        let (old, new) = (&cluster.nodes[from], &cluster.nodes[to]);
        let (mut client, mut program) = (Client::of(old), Program::of(old, "", 1));
        let held = client.take("{t}k 600 LABEL holder");
        program.wait("{t}k", 1, Ask::Mutex, "program");
        let mut waiter = blocked(old, "{t}k", "600", "waits");
        let mut bound = Client::of(old);
        bound.take("{t}bound 600 BOUND LABEL bound");
        client.take("{t}timed 8 LABEL short");
        program.wait("{t}timed", 2, Ask::Mutex, "program");
        let migration = cluster.begin_migration(slot, to).expect("a migration");
        // It is still here, and so are its waiters.
        client.is_waited_for_by("{t}k", &["program", "waits"]);
        assert!(client.renew("{t}k", &held).is_ok());
        assert_eq!(cluster.move_keys(migration).expect("moved"), 3);
        let reply = waiter.reply();
        let code = reply.error().and_then(|error| error.split(' ').next());
        assert!(matches!(code, Some("TRYAGAIN" | "MOVED" | "ASK")), "{reply}");
        let asked = waiter.say("FENCELOCK.ACQUIRE {t}k 600");
        assert!(asked.error().is_some_and(|error| error.starts_with("ASK ")), "{asked}");
        cluster.finish_migration(migration).expect("an end");
        let mut there = Client::of(new);
        there.is_held_by("{t}k", &["holder"]);
        there.is_waited_for_by("{t}k", &["program"]);
        // Its connection was to another node.
        there.is_held_by("{t}bound", &[]);
        // A lock that moved is not handed to a program before one has looked at it there.
        there.is_held_by("{t}timed", &[]);
        there.is_waited_for_by("{t}timed", &["program"]);
        let mut again = blocked(new, "{t}k", "600", "again");
        assert!(there.renew("{t}k", &held).is_ok());
        assert!(there.release("{t}k", &held).is_ok());
        let mut program = Program::of(new, &run_of(old), 1);
        program.token("{t}timed", 2, Ask::Mutex);
        let token = program.token("{t}k", 1, Ask::Mutex);
        assert!(token > held.token as u64);
        program.release("{t}k", 1);
        assert!(again.granted().token as u64 > token);
        let moved = client.say("FENCELOCK.SHOW {t}k");
        assert!(matches!(&moved, ServerReply::Error(error) if error.starts_with("MOVED ")), "{moved}");
        let info = old.info("fencelock");
        assert_eq!(info["fencelock_blocked_clients"], "0");
    }
}
