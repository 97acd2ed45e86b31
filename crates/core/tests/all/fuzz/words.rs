//! The wire format: bytes from a client, from a server, or from any user who may write to a server.

use taketurns_core::wire::{self, SealedWake, Verb, WireReply};
use taketurns_core::{
    Completion, Grant, Kind, Label, Member, Note, Owner, Place, Refusal, Reply, Token, Vote,
    WakeEvent,
};
use taketurns_servers::fuzz::{self, Dice};

use crate::fuzz::life;

const OWNER: Owner = Owner::from_bits(7);

/// `None` for one who is not known here.
fn owner_of(id: &str) -> Option<Owner> {
    (id == wire::public_id(OWNER)).then_some(OWNER)
}

fn grant(dice: &mut Dice) -> Grant {
    let number = |dice: &mut Dice| 1_790_000_000_000_000 + dice.any() % 100;
    let vote = |dice: &mut Dice| Vote {
        number: number(dice),
        ticket: number(dice),
        inquired: dice.percent(50),
    };
    Grant {
        token: Some(Token::from_raw(number(dice))),
        tokens: *dice.pick(&[&1, &2, &10_000]),
        wanted: dice.percent(20),
        deadline_ms: number(dice) / 1_000,
        member: dice.percent(30).then(|| Member::new("b 3").expect("a name")),
        vote: dice.percent(30).then(|| vote(dice)),
    }
}

fn refusal(dice: &mut Dice) -> Refusal {
    *dice.pick(&[
        &Refusal::KindMismatch(Kind::RwLock),
        &Refusal::KindMismatch(Kind::Semaphore { permits: 4 }),
        &Refusal::QueueFull,
        &Refusal::PoolFull,
        &Refusal::TooLate,
        &Refusal::Cancelled,
        &Refusal::InvalidLease,
        &Refusal::InvalidPermits,
        &Refusal::InvalidTerms,
        &Refusal::Exhausted { failed: 3 },
        &Refusal::KindMismatch(Kind::Once),
        &Refusal::Quarantined { until_ms: 1_700_000_030_000 },
    ])
}

fn completion(dice: &mut Dice) -> Completion {
    let by = Label::new("who", dice.pick(&["", "why"])).expect("a label");
    let mut done = Completion::new(by, Token::from_raw(dice.any() % 100), 12, 13);
    done.failed = dice.below(3) as u32;
    done.result = Note::new(dice.pick(&["", "3 tables ü"])).expect("a note");
    done
}

fn reply(dice: &mut Dice) -> Reply {
    let (recheck_ms, quarantined_until_ms) = (dice.percent(50).then_some(9), Some(12));
    match dice.below(14) {
        0 => Reply::Granted(grant(dice)),
        1 => Reply::Renewed(grant(dice)),
        2 => Reply::Queued(Place { number: 4, front: 2, recheck_ms, quarantined_until_ms }),
        3..6 => Reply::Refreshed {
            waiting: 3,
            front: 2,
            recheck_ms,
            quarantined_until_ms,
            granted: (0..dice.below(3)).map(|_| (OWNER, grant(dice))).collect(),
        },
        6 => Reply::Refused(refusal(dice)),
        7 => Reply::Broken(3),
        8 => Reply::Changed(dice.percent(50)),
        9 => Reply::DoneBefore(Box::new(completion(dice))),
        other => [Reply::Busy, Reply::Kept, Reply::Revoked, Reply::NotHeld][other - 10].clone(),
    }
}

#[test]
fn a_reply_that_is_read_is_written_and_read_as_the_same() {
    fuzz::rounds("replies", 20_000, |dice| {
        let answered = match dice.below(12) {
            0 => WireReply { now_ms: None, more: false, reply: Reply::Released },
            _ => WireReply { now_ms: Some(1_700_000_000_000), more: true, reply: reply(dice) },
        };
        let genuine = wire::encode(&answered);
        assert_eq!(wire::decode(&genuine, owner_of), Some(answered), "{genuine:?}");
        let damaged = dice.damaged_text(&[genuine]);
        let Some(read) = wire::decode(&damaged, owner_of) else { return false };
        assert_eq!(wire::decode(&wire::encode(&read), owner_of), Some(read), "{damaged:?}");
        true
    });
}

#[test]
fn a_wake_up_opens_only_as_it_was_sealed() {
    fuzz::rounds("wake-ups", 20_000, |dice| {
        let event = match dice.below(6) {
            0 => WakeEvent::Revoked { token: dice.percent(80).then_some(Token::from_raw(12)) },
            1 => WakeEvent::Refused(refusal(dice)),
            2 => WakeEvent::Inquired { number: 12 },
            3 => WakeEvent::Wanted { token: Token::from_raw(12) },
            4 => WakeEvent::DoneBefore(Box::new(completion(dice))),
            _ => WakeEvent::Granted(grant(dice)),
        };
        let genuine = wire::seal(OWNER, "0123456789abcdef0123", &event);
        let opened = |message: &[u8]| SealedWake::parse(message)?.open(OWNER);
        assert_eq!(opened(genuine.as_bytes()), Some(event), "{genuine}");
        let damaged = dice.damaged(&[&genuine]);
        assert!(damaged == genuine.as_bytes() || opened(&damaged).is_none(), "{damaged:?}");
        // Sealed when it is damaged, more of it is read.
        let (_, body) = genuine.split_once(' ').expect("a seal");
        let body = dice.damaged_text(&[body]);
        let seal = wire::sha1_hex(wire::owner_text(OWNER) + &body);
        let message = format!("{seal} {body}");
        let Some(event) = opened(message.as_bytes()) else { return false };
        let again = wire::seal(OWNER, "run", &event);
        assert_eq!(opened(again.as_bytes()), Some(event), "{message:?}");
        true
    });
}

#[test]
fn a_request_that_is_read_is_written_and_read_as_the_same_and_harms_no_lock() {
    fuzz::rounds("requests", 10_000, |dice| {
        let kind = dice.below(life::KINDS);
        let genuine = life::request(dice, kind);
        let (verb, mut args) = wire::encode_request(&genuine);
        let read = |verb: Verb, args: &[Vec<u8>]| {
            wire::decode_request(verb, &args.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        assert_eq!(read(verb, &args), Some(genuine));
        assert_eq!(Verb::parse(verb.name().as_bytes()), Some(verb));
        let at = dice.below(args.len() + 1);
        match dice.below(12) {
            0 => args.truncate(at),
            1 => args.insert(at, dice.bytes(4)),
            _ if at < args.len() => args[at] = dice.damaged(&args[at..=at]),
            _ => {}
        }
        let name = dice.damaged(&Verb::ALL.map(Verb::name));
        let verb = Verb::parse(&name).unwrap_or(verb);
        let Some(request) = read(verb, &args) else { return false };
        let (same, words) = wire::encode_request(&request);
        assert_eq!((same, read(verb, &words)), (verb, Some(request.clone())), "{args:?}");
        let (mut lock, mut now) = life::lived(dice, kind);
        lock.apply(now, &request);
        lock.audit().unwrap_or_else(|corrupt| panic!("{corrupt} after {request:?}"));
        life::go_on(dice, &mut lock, &mut now, kind, 10);
        true
    });
}

#[test]
fn kinds_asks_and_owners_that_are_read_mean_one_thing() {
    fuzz::rounds("kinds, asks and owners", 20_000, |dice| {
        let owner = wire::owner_text(OWNER);
        let text = dice.damaged_text(&[
            "m",
            "r",
            "w",
            "a",
            "p",
            "s4",
            "s1/4",
            "nb-3",
            "o",
            "o9000/-/3/7",
            "o9000/500/0/0",
            &owner,
        ]);
        let kind = wire::kind(&text);
        assert_eq!(kind.and_then(|kind| wire::kind(&wire::kind_text(kind))), kind, "{text:?}");
        let owner = wire::owner(&text);
        assert_eq!(owner.and_then(|owner| wire::owner(&wire::owner_text(owner))), owner);
        // Only an owner's holder names it in full.
        assert!(owner.is_none_or(|owner| !format!("{owner:?}").contains(&text)));
        let ask = wire::ask(&text);
        kind.is_some() || ask.is_some() || owner.is_some()
    });
}
