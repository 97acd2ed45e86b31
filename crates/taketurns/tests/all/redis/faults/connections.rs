//! Connections that are killed, that are silent, that can't be made, that are slow.

use std::time::{Duration, Instant};

use taketurns_servers::{Flavor, Proxy, Server, on_both};

use super::load::Load;
use super::store;

fn proxied(flavor: Flavor) -> (Server, Proxy) {
    let server = Server::start(flavor).expect("a server");
    let proxy = Proxy::start(server.port()).expect("a proxy");
    (server, proxy)
}

/// Half of the clients go through the proxy.
fn half(server: &Server, proxy: &Proxy) -> Load {
    Load::start(&[store(&proxy.url()), store(&server.url())])
}

on_both! {
    fn connections_that_are_killed_again_and_again_cost_nobody_a_turn(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let load = Load::start(&[store(&server.url())]);
        let mut killed = 0;
        while killed < 10 * 20 {
            load.goes_on(15);
            for kind in ["normal", "pubsub"] {
                let reply = server.cli(&["CLIENT", "KILL", "TYPE", kind]);
                killed += reply.int().expect("a number");
            }
        }
        load.finish();
    }
}

#[test]
fn locks_of_clients_whose_connections_are_silent_pass_to_the_others() {
    let (server, proxy) = proxied(Flavor::Redis);
    let load = half(&server, &proxy);
    for _ in 0..2 {
        load.goes_on(50);
        let before = proxy.connections();
        proxy.hold(true);
        // The silent ones notice by themselves, while the others go on.
        let noticed = || (proxy.connections() >= before + 10).then_some(());
        taketurns_servers::eventually("all have given up the silent ones", noticed)
            .expect("new connections");
        load.goes_on(200);
        proxy.hold(false);
    }
    load.finish();
}

#[test]
fn clients_that_can_not_connect_for_a_while_come_back() {
    let (server, proxy) = proxied(Flavor::Valkey);
    let load = half(&server, &proxy);
    for _ in 0..3 {
        load.goes_on(50);
        let before = proxy.connections();
        proxy.refuse(true).expect("a closed port");
        proxy.cut();
        load.goes_on(300);
        assert_eq!(proxy.connections(), before, "nobody came through");
        proxy.refuse(false).expect("an open port");
        let back = || (proxy.connections() >= before + 10).then_some(());
        taketurns_servers::eventually("all are back", back).expect("new connections");
    }
    load.finish();
}

#[test]
fn a_slow_network_costs_time_and_nothing_else() {
    let (_server, proxy) = proxied(Flavor::Redis);
    let load = Load::start(&[store(&proxy.url())]);
    let before = proxy.connections();
    load.goes_on(20);
    proxy.delay(Duration::from_millis(50));
    load.goes_on(100);
    assert_eq!(proxy.connections(), before, "nobody took slow for dead");
    proxy.delay(Duration::ZERO);
    load.finish();
}

/// It counts from when the lock was asked for, and that is not before there is a connection.
#[tokio::test]
async fn a_lease_does_not_run_while_the_connection_is_made() {
    let (_server, proxy) = proxied(Flavor::Redis);
    let locks = taketurns::connect(&proxy.url()).await.expect("a server");
    proxy.cut();
    let (delay, lease) = (Duration::from_millis(200), Duration::from_secs(60));
    proxy.delay(delay);
    let began = Instant::now();
    let guard = locks.mutex("l").acquire().lease(lease).await.expect("free");
    let relied_on = lease * 99 / 100 - Duration::from_millis(2);
    // The first greeting alone is under way for that long, and back.
    let lost = relied_on.saturating_sub(guard.span());
    assert!(lost + delay <= began.elapsed(), "{lost:?} were lost");
}
