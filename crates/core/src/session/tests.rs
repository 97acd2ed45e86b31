//! Owners and their public ids.

use super::*;
use crate::wire::public_id;
use crate::{Ask, ClientId, Grant, Label, Place};

fn terms(owner: u128) -> HoldTerms {
    HoldTerms {
        lock: Name::new("l").unwrap(),
        owner: Owner::from_bits(owner),
        lease_ms: 30_000,
        max_hold_us: None,
        bury_until_ms: 0,
    }
}

fn begin(session: &mut Session, owner: u128) {
    let (ask, label, wait_limit) = (Ask::Mutex, Label::default(), WaitLimit::Endless);
    session.begin_acquire(
        0,
        AcquireSpec { terms: terms(owner), ask, at_least_ms: 0, label, wait_limit },
    );
}

fn adopt(session: &mut Session, owner: u128) -> std::sync::Arc<crate::session::Hold> {
    let grant = Grant {
        token: None,
        tokens: 1,
        wanted: false,
        deadline_ms: 30_000,
        member: None,
        vote: None,
    };
    let anchor = Anchor { sent_us: 0, engine_ms: 0 };
    let adopted = session.adopt(0, terms(owner), None, grant, (Origin::default(), anchor));
    adopted.expect("a lease")
}

fn finds(session: &mut Session, owner: u128) -> bool {
    let owner = Owner::from_bits(owner);
    session.find_owner(&public_id(owner)).is_some_and(|(found, _)| found == owner)
}

#[test]
fn an_owner_is_found_for_as_long_as_it_acquires_or_holds() {
    let mut session = Session::new(ClientId::from_bits(1), 0);
    assert!(!finds(&mut session, 1));
    begin(&mut session, 1);
    assert!(finds(&mut session, 1));
    begin(&mut session, 2);
    assert!(finds(&mut session, 2) && finds(&mut session, 1));
    session.cancel_acquire(0, Owner::from_bits(1), &mut WakerSwap::default());
    assert!(finds(&mut session, 2) && !finds(&mut session, 1));
    let hold = adopt(&mut session, 3);
    assert!(finds(&mut session, 3));
    session.carry(&hold, None);
    assert!(!finds(&mut session, 3));
    session.cancel_acquire(0, Owner::from_bits(2), &mut WakerSwap::default());
    assert!(session.ids.named.is_empty());
}

#[test]
fn a_waiter_has_its_id_as_soon_as_it_has_its_place() {
    let mut session = Session::new(ClientId::from_bits(1), 0);
    session.name_owners();
    (1..=3).for_each(|owner| begin(&mut session, owner));
    let anchor = Anchor { sent_us: 0, engine_ms: 0 };
    for owner in [1, 2].map(Owner::from_bits) {
        session.handle_place(0, owner, Place::default(), Origin::default(), anchor);
    }
    assert_eq!((session.ids.named.len(), session.ids.unnamed.len()), (2, 1));
    assert!(finds(&mut session, 1) && finds(&mut session, 3));
    assert_eq!(session.find_owner("0123456789abcdeF"), None);
}

#[test]
fn one_that_is_being_released_is_known_and_not_found() {
    let mut session = Session::new(ClientId::from_bits(1), 0);
    let hold = adopt(&mut session, 1);
    let end = session.release(0, &hold, None);
    let (id, _) = end.release.expect("it is given back");
    assert!(session.has_owner(hold.owner()) && !finds(&mut session, 1));
    session.handle_release_answer(
        0,
        id,
        Err(crate::session::CallFailure::Unsupported),
        &mut WakerSwap::default(),
    );
    assert!(!session.has_owner(hold.owner()));
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut session = Session::new(ClientId::from_bits(1), 0);
    for owner in 0..1_000 {
        begin(&mut session, owner);
        session.cancel_acquire(0, Owner::from_bits(owner), &mut WakerSwap::default());
        adopt(&mut session, 7_000);
        assert!(session.ids.unnamed.len() <= 2 + OVER_MAX, "{}", session.ids.unnamed.len());
    }
    assert!(finds(&mut session, 7_000));
}
