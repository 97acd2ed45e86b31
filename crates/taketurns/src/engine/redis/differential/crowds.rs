//! The bounds of a lock, which random requests hardly reach: the scripts stop where core does, and
//! one step writes as much as a full lock needs.

use taketurns_core::wire::Head;
use taketurns_core::{
    AcquireRequest, Ask, Ballot, ClientId, Label, Member, Reply, Request, Token, WriteBack, limits,
};
use taketurns_servers::{Flavor, Server, on_both};

use super::life::{Life, owner};
use super::{BATCH, ExpectedStep, KEY, Rig};

const LEASE_MS: u64 = 60_000;
const WAITER_LEASE_MS: u64 = 300;

/// A lock in core, and what it was asked.
struct Story {
    life: Life,
    told: Vec<ExpectedStep>,
}

impl Story {
    fn new() -> Self {
        let mut life = Life::new(0);
        life.is_crowded = true;
        Self { life, told: Vec::new() }
    }

    /// Core's reply.
    fn ask(&mut self, request: Request) -> &Reply {
        let look = self.told.len().is_multiple_of(500);
        self.told.push(self.life.tell(request, 0, look));
        &self.told[self.told.len() - 1].reply
    }

    fn acquire(&mut self, number: u64, ask: Ask) -> &Reply {
        let request = self.request(number, ask);
        self.ask(Request::Acquire(request))
    }

    fn request(&self, number: u64, ask: Ask) -> AcquireRequest {
        AcquireRequest {
            owner: owner(number),
            client: ClientId::from_bits(1),
            ask,
            at_least_ms: 0,
            lease_ms: LEASE_MS,
            waiter_lease_ms: None,
            not_after_ms: self.life.now().ms + 1,
            ballot: None,
            label: Label::new("one of many", "").expect("a label"),
        }
    }

    /// Waits, for as long as its client gives no further sign of life.
    fn wait(&mut self, number: u64, ask: Ask) {
        let (client, waiter_lease_ms) = (ClientId::from_bits(2), Some(WAITER_LEASE_MS));
        let request = AcquireRequest { client, waiter_lease_ms, ..self.request(number, ask) };
        let reply = self.ask(Request::Acquire(request));
        assert!(matches!(reply, Reply::Queued(_)), "{reply:?}");
    }

    /// Does a server the same? All that is stored is compared at the end.
    fn compare(mut self, flavor: Flavor) {
        self.told.push(self.life.tell(Request::Tick, 1, true));
        let server = Server::start(flavor).expect("a server");
        let mut rig = Rig::new(&server);
        self.told.chunks(BATCH).for_each(|batch| rig.play(0, batch));
    }
}

fn member(number: usize) -> Member {
    Member::new(&format!("member {number}")).expect("a name")
}

on_both! {
    fn no_more_hold_a_semaphore_than_may_hold_a_lock(flavor: Flavor) {
        let mut story = Story::new();
        let ask = Ask::Permits { take: 1, of: limits::PERMITS_MAX };
        for number in 0..limits::HOLDERS_MAX as u64 {
            assert!(matches!(story.acquire(number, ask.clone()), Reply::Granted(_)));
        }
        assert_eq!(*story.acquire(9_999, ask), Reply::Busy);
        story.compare(flavor);
    }

    fn a_full_pool_takes_no_more_members_and_is_broken_in_one_step(flavor: Flavor) {
        let mut story = Story::new();
        for number in 0..limits::MEMBERS_MAX {
            assert_eq!(*story.ask(Request::PoolAdd { member: member(number) }), Reply::Changed(true));
        }
        assert!(matches!(*story.ask(Request::PoolAdd { member: member(9_999) }), Reply::Refused(_)));
        for number in 0..limits::MEMBERS_MAX as u64 {
            assert!(matches!(story.acquire(number, Ask::Any), Reply::Granted(_)));
        }
        let broken = Reply::Broken(limits::MEMBERS_MAX as u32);
        assert_eq!(*story.ask(Request::Break { token: None, at_once: true }), broken);
        story.compare(flavor);
    }

    fn a_newcomer_passes_nobody_though_one_step_could_not_clear_the_dead(flavor: Flavor) {
        for ask in [Ask::Mutex, Ask::Any] {
            let mut story = Story::new();
            if ask == Ask::Any {
                story.ask(Request::PoolAdd { member: member(1) });
            }
            story.acquire(0, ask.clone());
            // More than two steps may skip: that of the release, and that of the newcomer.
            let dead = 2 * u64::from(limits::STEP_MAX) + 10;
            (1..=dead).for_each(|number| story.wait(number, ask.clone()));
            let release = Request::Release { owner: owner(0), bury_until_ms: 0, last_used: None };
            let released = story.life.tell(release, WAITER_LEASE_MS, true);
            assert!(released.more, "too many for one step");
            story.told.push(released);
            assert_eq!(*story.acquire(9_999, ask.clone()), Reply::Busy);
            assert!(matches!(story.acquire(9_999, ask), Reply::Granted(_)), "all are gone");
            story.compare(flavor);
        }
    }

    fn of_those_cancelled_the_first_is_forgotten_if_there_are_too_many(flavor: Flavor) {
        let mut story = Story::new();
        let bury_until_ms = story.life.now().ms + 5_000;
        for number in 0..=limits::TOMBS_MAX as u64 {
            story.ask(Request::Release { owner: owner(number), bury_until_ms, last_used: None });
        }
        assert!(matches!(story.acquire(1, Ask::Mutex), Reply::Refused(_)));
        assert!(matches!(story.acquire(0, Ask::Mutex), Reply::Granted(_)));
        story.compare(flavor);
    }

    fn a_token_past_any_that_is_agreed_on_is_cut_off(flavor: Flavor) {
        let mut story = Story::new();
        let ballot = Some(Ballot { hint: u64::MAX, ticket: Some(u64::MAX), yields: None });
        let acquire = AcquireRequest { ballot, ..story.request(1, Ask::Mutex) };
        let (owner, client) = (acquire.owner, acquire.client);
        let Reply::Granted(grant) = story.ask(Request::Acquire(acquire)) else { unreachable!() };
        let number = grant.vote.expect("a vote").number;
        let write_back = Some(WriteBack { number, token: u64::MAX });
        let renew = Request::Renew { owner, client, lease_ms: LEASE_MS, write_back };
        let Reply::Renewed(grant) = story.ask(renew) else { unreachable!() };
        assert_eq!(grant.token.map(Token::raw), Some(limits::AGREED_MAX));
        story.compare(flavor);
    }

    fn a_full_queue_takes_nobody(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let mut story = Story::new();
        story.acquire(0, Ask::Mutex);
        let mut rig = Rig::new(&server);
        rig.play(0, &story.told);
        let binding = story.told[0].binding.clone();
        let mut queue = |number: u64, waiting: usize| {
            // Only the count is faked: real waiters would take minutes to arrive.
            let text = format!("{waiting} - - 0 -");
            let stored = rig.connection.command(&["HGET", KEY, Head::FIELD]).expect("the head");
            let (head, first) = Head::parse(stored.bytes().expect("bytes")).expect("a head");
            let head = Head { waiting: waiting as u64, ..head }.to_bytes();
            let set = [b"HSET", KEY.as_bytes(), b"q", text.as_bytes(), Head::FIELD.as_bytes(), &[&head, first].concat()];
            rig.connection.command(&set).expect("set");
            let Request::Acquire(acquire) = story.told[0].request.clone() else { unreachable!() };
            let (owner, waiter_lease_ms) = (owner(number), Some(3_000));
            let request = Request::Acquire(AcquireRequest { owner, waiter_lease_ms, ..acquire });
            rig.reply(&request, &binding, story.life.now())
        };
        assert!(matches!(queue(1, limits::QUEUE_MAX - 1), Reply::Queued(_)));
        let full = Reply::Refused(taketurns_core::Refusal::QueueFull);
        assert_eq!(queue(2, limits::QUEUE_MAX), full);
    }
}
