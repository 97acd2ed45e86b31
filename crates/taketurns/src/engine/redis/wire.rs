//! The words of the scripts: requests as arguments, replies and wake-ups as text.
//!
//! ```text
//!   reply     NOW FLAGS LETTER …           one line; a refresh has one more for each grant it tells of
//!   wake-up   SEAL ID RUN LETTER …         the seal is sha1(owner + all that follows it)
//! ```
//!
//! What comes back is checked: whoever may write to the server may have written anything.

use std::str::FromStr;

use taketurns_core::{
    Acquire, Ask, Grant, Kind, Member, Owner, Place, Refusal, Reply, Request, Token, WakeEvent,
};

use super::scripts::{Script, sha1_hex};

/// How a request is sent: which script, and its arguments.
pub(super) fn encode(request: &Request) -> (Script, Vec<Vec<u8>>) {
    let (script, args): (Script, Vec<String>) = match request {
        Request::Acquire(acquire) => (Script::Acquire, encode_acquire(acquire)),
        Request::Refresh { client, waiter_lease_ms } => {
            (Script::Refresh, vec![client.to_string(), waiter_lease_ms.to_string()])
        }
        Request::Renew { owner, client, lease_ms } => {
            (Script::Renew, vec![owner_text(*owner), client.to_string(), lease_ms.to_string()])
        }
        Request::Release { owner, bury_until_ms } => {
            (Script::Release, vec![owner_text(*owner), bury_until_ms.to_string()])
        }
        Request::Break { token, at_once } => {
            let token = token.map_or("-".into(), |token| token.to_string());
            (Script::Break, vec![token, u8::from(*at_once).to_string()])
        }
        Request::ClientGone { client } => (Script::ClientGone, vec![client.to_string()]),
        Request::Resize { permits } => (Script::Resize, vec![permits.to_string()]),
        Request::PoolAdd { member } => (Script::PoolAdd, vec![member.to_string()]),
        Request::PoolRemove { member } => (Script::PoolRemove, vec![member.to_string()]),
        Request::Tick => (Script::Tick, Vec::new()),
    };
    (script, args.into_iter().map(String::into_bytes).collect())
}

fn encode_acquire(acquire: &Acquire) -> Vec<String> {
    vec![
        owner_text(acquire.owner),
        acquire.client.to_string(),
        ask_text(&acquire.ask),
        acquire.lease_ms.to_string(),
        acquire.waiter_lease_ms.map_or("-".into(), |ms| ms.to_string()),
        acquire.not_after_ms.to_string(),
        format!("{}\n{}", acquire.label.who(), acquire.label.why()),
    ]
}

pub(super) fn owner_text(owner: Owner) -> String {
    format!("{:032x}", owner.expose())
}

fn ask_text(ask: &Ask) -> String {
    match ask {
        Ask::Mutex => "m".into(),
        Ask::Read => "r".into(),
        Ask::Write => "w".into(),
        Ask::Permits { take, of } => format!("s{take}/{of}"),
        Ask::Any => "a".into(),
        Ask::Member(member) => format!("n{member}"),
    }
}

/// A script's reply, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) now_ms: u64,
    pub(super) more: bool,
    pub(super) reply: Reply,
}

/// Reads a reply. `None` if no script of ours says that.
pub(super) fn decode(text: &str) -> Option<Answered> {
    let (first, rest) = match text.split_once('\n') {
        Some((first, rest)) => (first, Some(rest)),
        None => (text, None),
    };
    let mut words = Words(first);
    let (now_ms, flags): (u64, u8) = (words.number()?, words.number()?);
    let reply = match words.word()? {
        "G" => Reply::Granted(words.grant()?),
        "N" => Reply::Renewed(words.grant()?),
        "Q" => Reply::Queued(Place {
            number: words.number()?,
            front: words.number()?,
            recheck_ms: words.maybe()?,
            quarantined_until_ms: words.maybe()?,
        }),
        "F" => Reply::Refreshed {
            waiting: words.number()?,
            front: words.number()?,
            recheck_ms: words.maybe()?,
            quarantined_until_ms: words.maybe()?,
            granted: rest.map_or(Some(Vec::new()), told)?,
        },
        "B" => Reply::Busy,
        "V" => Reply::Revoked,
        "R" => Reply::Released,
        "L" => Reply::Left,
        "H" => Reply::NotHeld,
        "K" => Reply::Broken(words.number()?),
        "C" => Reply::Changed(words.word()? == "1"),
        "D" => Reply::Done,
        "X" => Reply::Refused(words.refusal()?),
        _ => return None,
    };
    Some(Answered { now_ms, more: flags & 1 != 0, reply })
}

/// The grants that a refresh tells of, one in each line.
fn told(lines: &str) -> Option<Vec<(Owner, Grant)>> {
    lines
        .split('\n')
        .map(|line| {
            let mut words = Words(line);
            let owner = owner(words.word()?)?;
            (words.word()? == "G").then_some(())?;
            Some((owner, words.grant()?))
        })
        .collect()
}

pub(super) fn owner(text: &str) -> Option<Owner> {
    (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok().map(Owner::from_bits))?
}

pub(super) fn kind(text: &str) -> Option<Kind> {
    Some(match text {
        "m" => Kind::Mutex,
        "r" => Kind::RwLock,
        "p" => Kind::Pool,
        _ => Kind::Semaphore { permits: text.strip_prefix('s')?.parse().ok()? },
    })
}

pub(super) fn ask(text: &str) -> Option<Ask> {
    Some(match text {
        "m" => Ask::Mutex,
        "r" => Ask::Read,
        "w" => Ask::Write,
        "a" => Ask::Any,
        _ => match text.strip_prefix('s') {
            Some(permits) => {
                let (take, of) = permits.split_once('/')?;
                Ask::Permits { take: take.parse().ok()?, of: of.parse().ok()? }
            }
            None => Ask::Member(Member::new(text.strip_prefix('n')?).ok()?),
        },
    })
}

/// By what a wake-up names an owner: a hash, since it is a secret.
pub(super) fn public_id(owner: Owner) -> String {
    let mut id = sha1_hex(owner_text(owner));
    id.truncate(16);
    id
}

/// A wake-up whose seal has yet to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sealed<'a> {
    seal: &'a str,
    body: &'a str,
    /// The owner it is for: see [`public_id`].
    pub(super) id: &'a str,
    /// The beginning of the run of the server that sent it.
    pub(super) run: &'a str,
    event: &'a str,
}

impl<'a> Sealed<'a> {
    pub(super) fn parse(message: &'a [u8]) -> Option<Self> {
        let (seal, body) = std::str::from_utf8(message).ok()?.split_once(' ')?;
        let (id, rest) = body.split_once(' ')?;
        let (run, event) = rest.split_once(' ')?;
        Some(Self { seal, body, id, run, event })
    }

    /// What it says, if it was made by somebody who knows the owner's secret.
    pub(super) fn open(&self, owner: Owner) -> Option<WakeEvent> {
        if sha1_hex(owner_text(owner) + self.body) != self.seal {
            return None;
        }
        let mut words = Words(self.event);
        Some(match words.word()? {
            "G" => WakeEvent::Granted(words.grant()?),
            "V" => WakeEvent::Revoked,
            "X" => WakeEvent::Refused(words.refusal()?),
            _ => return None,
        })
    }
}

/// Words parted by single spaces, with free text at the end.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn word(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        Some(word)
    }

    fn number<T: FromStr>(&mut self) -> Option<T> {
        self.word()?.parse().ok()
    }

    /// A number, or `-` for none.
    fn maybe(&mut self) -> Option<Option<u64>> {
        match self.word()? {
            "-" => Some(None),
            word => word.parse().ok().map(Some),
        }
    }

    /// Token, deadline, and a member's name if there is one.
    fn grant(&mut self) -> Option<Grant> {
        let (token, deadline_ms) = (self.number()?, self.number()?);
        let member = match self.0 {
            "" => None,
            name => Some(Member::new(name).ok()?),
        };
        Some(Grant { token: Some(Token::from_raw(token)), deadline_ms, member })
    }

    fn refusal(&mut self) -> Option<Refusal> {
        Some(match self.word()? {
            "kind" => Refusal::KindMismatch(kind(self.word()?)?),
            "full" => Refusal::QueueFull,
            "pool" => Refusal::PoolFull,
            "late" => Refusal::TooLate,
            "cancelled" => Refusal::Cancelled,
            "lease" => Refusal::InvalidLease,
            "permits" => Refusal::InvalidPermits,
            "quarantined" => Refusal::Quarantined { until_ms: self.number()? },
            _ => return None,
        })
    }
}
