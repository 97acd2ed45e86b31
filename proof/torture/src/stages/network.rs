//! Faults of the network between clients and one server, made by a proxy: slow, cut off, half-open; and for a server
//! that speaks RESP3, wake-ups lost or doubled.

use taketurns_servers::Proxy;

use crate::faults::{Injection, StoreFault};

/// Bytes that are late or lost, on the way to one server.
pub(super) fn faults<'a>(on: &'static str, proxy: &'a Proxy) -> Vec<StoreFault<'a>> {
    vec![
        StoreFault::new("network slow", move |dice| {
            let delay = dice.time(20, 700);
            Injection::on(on)
                .begin(move || proxy.delay(delay))
                .lasting(dice.time(500, 4_000))
                .end(|| proxy.delay(std::time::Duration::ZERO))
        }),
        StoreFault::new("connections reset", move |_| Injection::on(on).begin(|| proxy.cut())),
        StoreFault::new("cut off", move |dice| {
            Injection::on(on)
                .begin(|| proxy.refuse(true).map(|()| proxy.cut()))
                .lasting(dice.time(200, 4_000))
                .end(|| proxy.refuse(false))
        }),
        // What vanished meanwhile stays lost: such a connection is silent until somebody closes it.
        StoreFault::new("half-open", move |dice| {
            Injection::on(on)
                .begin(|| proxy.hold(true))
                .lasting(dice.time(200, 4_000))
                .end(|| proxy.hold(false))
        }),
    ]
}

/// Wake-ups that are lost or doubled on the way from a Redis server.
pub(super) fn push_faults<'a>(on: &'static str, proxy: &'a Proxy) -> Vec<StoreFault<'a>> {
    vec![
        StoreFault::new("wake-ups lost", move |dice| {
            Injection::on(on)
                .begin(|| proxy.drop_pushes(true))
                .lasting(dice.time(200, 3_000))
                .end(|| proxy.drop_pushes(false))
        }),
        StoreFault::new("wake-ups doubled", move |dice| {
            Injection::on(on)
                .begin(|| proxy.duplicate_pushes(true))
                .lasting(dice.time(200, 3_000))
                .end(|| proxy.duplicate_pushes(false))
        }),
    ]
}
