//! Two fleets in one list: programs that follow redturn's document to the letter, and ours.

use std::sync::Arc;

use taketurns_servers::foreign::{ForeignClients, ForeignConfig, ForeignKind};
use taketurns_servers::turns::{TurnLog, TurnRecord, check};
use taketurns_servers::{Flavor, on_both};
use tokio::time::Instant;

use super::*;
use crate::support::turns::turn;

const SECONDS: u32 = 6;
/// Of each fleet, in `ForeignConfig::new`.
const CLIENTS: usize = 4;
const LOCKS: [&str; 2] = ["orders", "a-b"];

fn theirs(server: &Server) -> ForeignConfig {
    ForeignConfig {
        locks: LOCKS.map(str::to_owned).to_vec(),
        clients: CLIENTS,
        seconds: f64::from(SECONDS),
        ..ForeignConfig::new("theirs", [server.url()])
    }
}

fn ours() -> impl Iterator<Item = String> {
    (0..CLIENTS).map(|number| format!("ours-{number}"))
}

/// Lets the first clients of our fleet take turns for this long, at least one turn each.
fn take_turns(
    server: &Server,
    clients: usize,
    time: Duration,
    lease: Duration,
    hold: Duration,
) -> Vec<TurnRecord> {
    let noted = Arc::new(TurnLog::default());
    block_on(async {
        let mut tasks = Vec::new();
        for (number, who) in ours().enumerate().take(clients) {
            let url = format!("{}?protocol=redturn&unfenced=ok", server.url());
            // What is handed over is held for this long at first.
            let connect = Connect::new(&url).waiter_lease(LEASE);
            let client = soon("connecting", connect.open()).await.expect("a server");
            let noted = noted.clone();
            tasks.push(tokio::spawn(async move {
                let end = Instant::now() + time;
                for lock in LOCKS.into_iter().cycle().skip(number) {
                    let acquire = client.mutex(lock).acquire().lease(lease);
                    let guard = soon("an acquire", acquire).await.expect("the lock");
                    turn(guard, &who, hold, &noted).await.expect("nobody took it away");
                    if Instant::now() >= end {
                        break;
                    }
                }
            }));
        }
        for task in tasks {
            task.await.expect("no panic");
        }
    });
    noted.all()
}

on_both! {
    fn clients_who_time_ours_do_not_end_a_turn_longer_than_its_lease(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let foreign = ForeignClients::start(ForeignKind::Redturn, &theirs(&server)).expect("a program");
        let lease = Duration::from_secs(6);
        let mut turns = take_turns(&server, LOCKS.len(), Duration::ZERO, lease, lease + lease / 3);
        turns.extend(foreign.turns().expect("each was told"));
        check(&turns);
        assert_eq!(foreign_keys(&server), [""; 0], "nobody stands in line any more");
    }

    fn ours_go_on_when_all_foreign_clients_are_killed(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let config = ForeignConfig { ttl_ms: 2_000, seconds: 600.0, ..theirs(&server) };
        let foreign = ForeignClients::start(ForeignKind::Redturn, &config).expect("a program");
        taketurns_servers::eventually("they take turns", || {
            (foreign.so_far().expect("turns").len() > 20).then_some(())
        }).expect("turns");
        drop(foreign);
        let time = Duration::from_secs(SECONDS.into());
        let turns = take_turns(&server, CLIENTS, time, LEASE, Duration::from_millis(3));
        check(&turns);
        assert_eq!(foreign_keys(&server), [""; 0], "nobody stands in line any more");
    }
}
