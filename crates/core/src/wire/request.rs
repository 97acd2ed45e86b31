//! Requests as a verb and its arguments.

use std::str::FromStr;

use super::{Maybe, Words, ask, ask_text, maybe, owner, owner_text};
use crate::{Acquire, Ballot, ClientId, Label, Member, Request, Token, WriteBack};

/// What is to be done: a kind of request, or a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the request of that name")]
pub enum Verb {
    Acquire,
    Refresh,
    Renew,
    Release,
    Break,
    ClientGone,
    Resize,
    PoolAdd,
    PoolRemove,
    Tick,
    View,
}

impl Verb {
    /// All, each at the place of its number.
    pub const ALL: [Verb; 11] = [
        Verb::Acquire,
        Verb::Refresh,
        Verb::Renew,
        Verb::Release,
        Verb::Break,
        Verb::ClientGone,
        Verb::Resize,
        Verb::PoolAdd,
        Verb::PoolRemove,
        Verb::Tick,
        Verb::View,
    ];

    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Acquire => "acquire",
            Verb::Refresh => "refresh",
            Verb::Renew => "renew",
            Verb::Release => "release",
            Verb::Break => "break",
            Verb::ClientGone => "client_gone",
            Verb::Resize => "resize",
            Verb::PoolAdd => "pool_add",
            Verb::PoolRemove => "pool_remove",
            Verb::Tick => "tick",
            Verb::View => "view",
        }
    }

    /// The verb of that name.
    pub fn parse(name: &[u8]) -> Option<Verb> {
        Verb::ALL.into_iter().find(|verb| verb.name().as_bytes() == name)
    }
}

/// How a request is sent.
pub fn encode_request(request: &Request) -> (Verb, Vec<Vec<u8>>) {
    let (verb, args): (Verb, Vec<String>) = match request {
        Request::Acquire(acquire) => (Verb::Acquire, encode_acquire(acquire)),
        Request::Refresh { client, waiter_lease_ms } => {
            (Verb::Refresh, vec![client.to_string(), waiter_lease_ms.to_string()])
        }
        Request::Renew { owner, client, lease_ms, write_back } => {
            let mut args = vec![owner_text(*owner), client.to_string(), lease_ms.to_string()];
            let words = |WriteBack { number, token }: &WriteBack| format!("{number} {token}");
            args.extend(write_back.as_ref().map(words));
            (Verb::Renew, args)
        }
        Request::Release { owner, bury_until_ms } => {
            (Verb::Release, vec![owner_text(*owner), bury_until_ms.to_string()])
        }
        Request::Break { token, at_once } => {
            (Verb::Break, vec![Maybe(*token).to_string(), u8::from(*at_once).to_string()])
        }
        Request::ClientGone { client } => (Verb::ClientGone, vec![client.to_string()]),
        Request::Resize { permits } => (Verb::Resize, vec![permits.to_string()]),
        Request::PoolAdd { member } => (Verb::PoolAdd, vec![member.to_string()]),
        Request::PoolRemove { member } => (Verb::PoolRemove, vec![member.to_string()]),
        Request::Tick => (Verb::Tick, Vec::new()),
    };
    (verb, args.into_iter().map(String::into_bytes).collect())
}

fn encode_acquire(acquire: &Acquire) -> Vec<String> {
    let mut args = vec![
        owner_text(acquire.owner),
        acquire.client.to_string(),
        ask_text(&acquire.ask),
        acquire.lease_ms.to_string(),
        Maybe(acquire.waiter_lease_ms).to_string(),
        acquire.not_after_ms.to_string(),
        format!("{}\n{}", acquire.label.who(), acquire.label.why()),
    ];
    args.extend(acquire.ballot.map(|Ballot { hint, ticket, yields }| {
        format!("{hint} {} {}", Maybe(ticket), Maybe(yields))
    }));
    args
}

/// Reads a request. `None` if it makes no sense, or is no request but a look.
pub fn decode_request(verb: Verb, args: &[&[u8]]) -> Option<Request> {
    Some(match (verb, args) {
        (
            Verb::Acquire,
            &[owner_, client_, ask_, lease, waiter_lease, not_after, label, ref rest @ ..],
        ) => {
            let (who, why) = text(label)?.split_once('\n')?;
            Request::Acquire(Acquire {
                owner: owner(text(owner_)?)?,
                client: client(client_)?,
                ask: ask(text(ask_)?)?,
                lease_ms: number(lease)?,
                waiter_lease_ms: maybe(text(waiter_lease)?)?,
                not_after_ms: number(not_after)?,
                ballot: optional(rest, ballot)?,
                label: Label::new(who, why).ok()?,
            })
        }
        (Verb::Refresh, &[client_, waiter_lease]) => {
            Request::Refresh { client: client(client_)?, waiter_lease_ms: number(waiter_lease)? }
        }
        (Verb::Renew, &[owner_, client_, lease, ref rest @ ..]) => Request::Renew {
            owner: owner(text(owner_)?)?,
            client: client(client_)?,
            lease_ms: number(lease)?,
            write_back: optional(rest, write_back)?,
        },
        (Verb::Release, &[owner_, bury]) => {
            Request::Release { owner: owner(text(owner_)?)?, bury_until_ms: number(bury)? }
        }
        (Verb::Break, &[token, at_once]) => Request::Break {
            token: maybe(text(token)?)?.map(Token::from_raw),
            at_once: number::<u8>(at_once)? != 0,
        },
        (Verb::ClientGone, &[client_]) => Request::ClientGone { client: client(client_)? },
        (Verb::Resize, &[permits]) => Request::Resize { permits: number(permits)? },
        (Verb::PoolAdd, &[name]) => Request::PoolAdd { member: member(name)? },
        (Verb::PoolRemove, &[name]) => Request::PoolRemove { member: member(name)? },
        (Verb::Tick, &[]) => Request::Tick,
        _ => return None,
    })
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn number<T: FromStr>(bytes: &[u8]) -> Option<T> {
    text(bytes)?.parse().ok()
}

fn client(bytes: &[u8]) -> Option<ClientId> {
    let text = text(bytes).filter(|text| text.len() == 16)?;
    u64::from_str_radix(text, 16).ok().map(ClientId::from_bits)
}

fn member(bytes: &[u8]) -> Option<Member> {
    Member::new(text(bytes)?).ok()
}

/// One argument more, or none.
fn optional<T>(rest: &[&[u8]], read: impl FnOnce(Words<'_>) -> Option<T>) -> Option<Option<T>> {
    match rest {
        [] => Some(None),
        [words] => read(Words(text(words)?)).map(Some),
        _ => None,
    }
}

fn ballot(mut words: Words<'_>) -> Option<Ballot> {
    let (hint, ticket, yields) = (words.number()?, words.maybe()?, words.maybe()?);
    words.0.is_empty().then_some(Ballot { hint, ticket, yields })
}

fn write_back(mut words: Words<'_>) -> Option<WriteBack> {
    let (number, token) = (words.number()?, words.number()?);
    words.0.is_empty().then_some(WriteBack { number, token })
}
