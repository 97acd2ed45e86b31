//! What comes to a client's socket beside the store may be sent by anybody who can write there.

use std::os::unix::net::UnixDatagram;

use taketurns::engine::{
    Clock, Engine, EngineEvent, FileEngine, Grant, Owner, Wake, WakeEvent, Wakes,
};
use taketurns::{ClientId, Member, Name, Token};
use taketurns_servers::fuzz;

use crate::support::patience::{block_on, soon};

const CLIENT: ClientId = ClientId::from_bits(7);

fn datagram(event: WakeEvent) -> Vec<u8> {
    let lock = Name::new("orders/42").expect("a name");
    let wake = Wake { client: CLIENT, owner: Owner::from_bits(5), event };
    postcard::to_allocvec(&(lock, vec![wake.clone(), wake])).expect("plain data")
}

#[test]
fn whatever_is_sent_to_a_socket_the_next_wake_up_is_heard() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("locks.db");
    let (wakes, mut woken) = Wakes::channel();
    let engine = block_on(FileEngine::open(path, Clock::System, CLIENT, wakes)).expect("a store");
    assert!(engine.guarantees().event_driven, "it has a socket");
    let socket = dir.path().join("locks.db-wake").join(CLIENT.to_string());
    let mouth = UnixDatagram::unbound().expect("a socket");
    let member = Member::new("b-3").ok();
    let token = Some(Token::from_raw(1_790_000_000_000_000));
    let grant = Grant { token, tokens: 1, wanted: false, deadline_ms: 9_000, member, vote: None };
    let genuine = [datagram(WakeEvent::Granted(grant)), datagram(WakeEvent::Revoked { token })];
    fuzz::rounds("datagrams", 500, |dice| {
        let mark = WakeEvent::Inquired { number: dice.any() };
        let damaged = dice.damaged(&genuine);
        mouth.send_to(&damaged, &socket).expect("sent");
        mouth.send_to(&datagram(mark.clone()), &socket).expect("sent");
        let mut heard = 0;
        loop {
            let woken = block_on(soon("the next is heard", woken.recv())).expect("it listens");
            heard += 1;
            if matches!(woken, EngineEvent::Wake { wake, .. } if wake.event == mark) {
                break;
            }
        }
        // The second of the pair.
        let second = block_on(soon("the second is heard", woken.recv()));
        assert!(second.is_some());
        heard > 1
    });
}
