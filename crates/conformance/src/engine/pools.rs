//! Pools: named members, any or a named one.

use taketurns::engine::{Reply, Request};
use taketurns::{Ask, Member};

use crate::Fixture;
use crate::engine_client::{EngineClient, owner};

fn member(name: &str) -> Member {
    Member::new(name).expect("a valid name")
}

fn named(name: &str) -> Ask {
    Ask::Member(member(name))
}

async fn add(party: &EngineClient, names: &[&str]) {
    for name in names {
        let reply = party.send("p", Request::PoolAdd { member: member(name) }).await;
        assert_eq!(reply, Reply::Changed(true));
    }
}

/// Members rotate: the one that rested longest goes first.
pub async fn any_takes_the_member_free_for_longest(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    add(&party, &["a", "b", "c"]).await;
    let (first, grant) = party.hold("p", Ask::Any).await;
    assert_eq!(grant.member, Some(member("a")));
    party.release("p", first).await;
    for expected in ["b", "c", "a"] {
        let (_, grant) = party.hold("p", Ask::Any).await;
        assert_eq!(grant.member, Some(member(expected)));
    }
}

/// A member has one holder, whether clients ask for it by name or for any.
pub async fn two_never_have_the_same_member(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    add(&party, &["a", "b"]).await;
    party.hold("p", named("b")).await;
    assert_eq!(party.try_acquire("p", owner(), named("b")).await, Reply::Busy);
    let (_, grant) = party.hold("p", Ask::Any).await;
    assert_eq!(grant.member, Some(member("a")));
    assert_eq!(party.try_acquire("p", owner(), Ask::Any).await, Reply::Busy);
}

/// A client that waits for one member delays nobody who wants another.
pub async fn a_waiter_for_a_busy_member_does_not_hold_up_others(fixture: &dyn Fixture) {
    let [mut party] = EngineClient::several(fixture).await;
    add(&party, &["a", "b"]).await;
    let (holds_a, _) = party.hold("p", named("a")).await;
    let (waits_for_a, _) = party.queue("p", named("a")).await;
    let (holds_b, grant) = party.hold("p", Ask::Any).await;
    assert_eq!(grant.member, Some(member("b")));
    let (waits_for_any, _) = party.queue("p", Ask::Any).await;
    party.release("p", holds_b).await;
    let grant = party.woken_with_grant(waits_for_any).await;
    assert_eq!(grant.member, Some(member("b")));
    party.release("p", holds_a).await;
    party.woken_with_grant(waits_for_a).await;
}

/// The client that asked first, for that member or for any, gets it.
pub async fn takers_of_any_are_served_in_order(fixture: &dyn Fixture) {
    let [mut party] = EngineClient::several(fixture).await;
    add(&party, &["a"]).await;
    let (mut holder, _) = party.hold("p", Ask::Any).await;
    let mut waiters = Vec::new();
    for ask in [Ask::Any, named("a"), Ask::Any, Ask::Any, named("a")] {
        waiters.push(party.queue("p", ask).await.0);
    }
    for waiter in waiters {
        party.release("p", holder).await;
        assert_eq!(party.woken_with_grant(waiter).await.member, Some(member("a")));
        holder = waiter;
    }
}

/// A client may wait for a member that does not exist yet.
pub async fn a_wait_for_a_member_ends_when_it_is_added(fixture: &dyn Fixture) {
    let [mut party] = EngineClient::several(fixture).await;
    let (named_one, _) = party.queue("p", named("a")).await;
    let (any, _) = party.queue("p", Ask::Any).await;
    add(&party, &["b"]).await;
    assert_eq!(party.woken_with_grant(any).await.member, Some(member("b")));
    add(&party, &["a"]).await;
    assert_eq!(party.woken_with_grant(named_one).await.member, Some(member("a")));
}

/// Its holder keeps it, nobody gets it afterwards, and adding it again cancels the removal.
pub async fn a_held_member_that_is_removed_goes_at_its_release(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    add(&party, &["a", "b"]).await;
    let remove = |name| Request::PoolRemove { member: member(name) };
    for (again, expected) in [(false, Reply::Busy), (true, Reply::Done)] {
        let (owns, _) = party.hold("p", named("a")).await;
        assert_eq!(party.send("p", remove("a")).await, Reply::Changed(true));
        assert_eq!(party.send("p", remove("a")).await, Reply::Changed(false));
        if again {
            add(&party, &["a"]).await;
        }
        assert!(matches!(party.renew("p", owns).await, Reply::Renewed(_)));
        party.release("p", owns).await;
        let taken = party.try_acquire("p", owner(), named("a")).await;
        if expected == Reply::Busy {
            assert_eq!(taken, Reply::Busy);
            add(&party, &["a"]).await;
        } else {
            assert!(matches!(taken, Reply::Granted(_)));
        }
    }
    assert_eq!(party.send("p", remove("b")).await, Reply::Changed(true));
    assert_eq!(party.try_acquire("p", owner(), named("b")).await, Reply::Busy);
    assert_eq!(party.send("p", remove("never")).await, Reply::Changed(false));
}

/// A pool exists as long as it has members, even if nobody uses it.
pub async fn members_stay_until_they_are_removed(fixture: &dyn Fixture) {
    let [party] = EngineClient::several(fixture).await;
    add(&party, &["a"]).await;
    if fixture.can_skip_hours() {
        fixture.pass(std::time::Duration::from_secs(100 * 60 * 60)).await;
        party.take_steps_until_a_sweep().await;
    }
    let again = party.send("p", Request::PoolAdd { member: member("a") }).await;
    assert_eq!(again, Reply::Changed(false));
    let (owns, _) = party.hold("p", Ask::Any).await;
    party.release("p", owns).await;
    let removed = party.send("p", Request::PoolRemove { member: member("a") }).await;
    assert_eq!(removed, Reply::Changed(true));
    party.hold("p", Ask::Mutex).await;
}
