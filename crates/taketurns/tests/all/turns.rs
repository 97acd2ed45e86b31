//! Our own clients, judged by what judges them together with others: as many turns for each, and
//! never two at a time.

use std::time::Duration;

use taketurns::Connect;
use taketurns_servers::turns::{TurnLog, check, least_turns};
use taketurns_servers::{Flavor, Server, on_both};

use crate::support::patience::{block_on, soon};
use crate::support::turns::turn;

const CLIENTS: usize = 4;
const TURNS: usize = 25;

on_both! {
    fn clients_of_a_mutex_and_of_a_pool_take_turns(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let noted = block_on(async {
            let noted = std::sync::Arc::new(TurnLog::default());
            let mut clients = Vec::new();
            for number in 0..CLIENTS {
                let locks = Connect::new(&server.url()).open().await.expect("a store");
                for member in ["left", "right"] {
                    locks.pool("printers").add(member).await.expect("a member");
                }
                let noted = noted.clone();
                clients.push(tokio::spawn(async move {
                    let who = format!("rust-{number}");
                    for each in 0..TURNS {
                        let acquire = match each % 2 {
                            0 => locks.mutex("orders").acquire(),
                            _ => locks.pool("printers").any(),
                        };
                        let guard = acquire.await.expect("a turn");
                        let hold = Duration::from_millis(each as u64 % 3);
                        turn(guard, &who, hold, &noted).await.expect("still held");
                    }
                }));
            }
            for client in clients {
                soon("a client", client).await.expect("its end");
            }
            noted.all()
        });
        check(&noted);
        let everyone = (0..CLIENTS).map(|number| format!("rust-{number}"));
        assert_eq!(least_turns(&noted, everyone).1, TURNS);
        let of_pool = noted.iter().filter(|turn| turn.lock == "printers");
        assert!(of_pool.clone().count() > 0 && of_pool.clone().all(|turn| turn.member.is_some()));
    }
}
