//! A replica without the module could not take over from a master that has it.

use taketurns_servers::{Builder, Flavor, Server, eventually, on_both};

use crate::engine::patience::{block_on, soon};
use crate::engine::with_module;

/// Starts a master with the module, and a replica that follows it.
fn followed_by(flavor: Flavor, replica: Builder) -> (Server, Server) {
    let master = with_module(flavor).start().expect("a master");
    let replica = replica.replica_of(master.port()).start().expect("a replica");
    eventually("it follows", || {
        let info = master.info("replication");
        info.get("slave0").is_some_and(|replica| replica.contains("state=online")).then_some(())
    })
    .expect("a replica");
    (master, replica)
}

on_both! {
    fn a_replica_without_the_module_is_refused_by_who_is_strict(flavor: Flavor) {
        let (master, replica) = followed_by(flavor, Server::builder(flavor));
        block_on(async {
            let url = format!("{}?strict=true", master.url());
            let error = soon("connecting", taketurns::connect(&url)).await.expect_err("strict");
            let text = error.to_string();
            assert!(text.contains(&format!("its replica 127.0.0.1:{} does not", replica.port())), "{text}");
            soon("connecting", taketurns::connect(&master.url())).await.expect("a warning, no more");
            // If the module is not used, the replicas don't need it.
            let url = format!("{url}&module=off");
            soon("connecting", taketurns::connect(&url)).await.expect("no warning");
        });
    }

    fn a_replica_with_it_is_fine(flavor: Flavor) {
        let (master, _replica) = followed_by(flavor, with_module(flavor));
        let url = format!("{}?strict=true&module=required", master.url());
        block_on(soon("connecting", taketurns::connect(&url))).expect("no warning");
    }

    fn a_replica_that_can_not_be_reached_holds_nobody_up(flavor: Flavor) {
        let (master, replica) = followed_by(flavor, Server::builder(flavor));
        replica.pause();
        let url = format!("{}?strict=true", master.url());
        block_on(soon("connecting", taketurns::connect(&url))).expect("nothing is known of it");
        replica.resume();
    }
}
