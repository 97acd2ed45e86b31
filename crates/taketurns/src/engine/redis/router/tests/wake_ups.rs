//! Wake-ups: which messages count.

use taketurns_core::wire::{owner_text, public_id, sha1_hex};
use taketurns_core::{ClientId, Name, Owner, Token, Wake, WakeEvent};

use crate::engine::redis::router::WakeUpReader;
use crate::engine::{EngineEvent, Origin, Wakes};

fn message(owner: Owner, sealed_by: Owner, event: &str) -> Vec<u8> {
    let body = format!("{} 0123456789abcdef {event}", public_id(owner));
    format!("{} {body}", sha1_hex(owner_text(sealed_by) + &body)).into_bytes()
}

#[test]
fn only_a_genuine_message_for_somebody_counts() {
    let (owner, stranger) = (Owner::from_bits(7), Owner::from_bits(8));
    let (wakes, _woken) = Wakes::channel();
    let lock = Name::new("l").unwrap();
    let reader = WakeUpReader::new(ClientId::from_bits(1), wakes.clone());
    let open = |message: &[u8]| reader.read(message);
    let genuine = message(owner, owner, "V 12");
    assert_eq!(open(&genuine), None, "for nobody");
    wakes.register_owner(&lock, owner);
    let revoked = |token: Option<u64>| {
        let event = WakeEvent::Revoked { token: token.map(Token::from_raw) };
        let wake = Wake { client: ClientId::from_bits(1), owner, event };
        Some(EngineEvent::Wake { lock: lock.clone(), wake, origin: Origin::UNKNOWN })
    };
    assert_eq!(open(&genuine), revoked(Some(12)));
    assert_eq!(open(&message(owner, owner, "V")), revoked(None), "by scripts of before");
    assert_eq!(open(&message(owner, owner, "V x")), None, "of no token");
    assert_eq!(open(&message(owner, stranger, "V 12")), None, "forged");
    assert_eq!(open(&message(stranger, stranger, "V 12")), None, "somebody else's");
    assert_eq!(open(&message(owner, owner, "?")), None, "unheard of");
    for junk in [&b""[..], b"x", b"a b c", b"\xff\xfe \xff"] {
        assert_eq!(open(junk), None);
    }
}
