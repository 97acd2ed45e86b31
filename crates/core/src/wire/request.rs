//! Requests as a verb and its arguments.

use super::{
    Words, ask, ask_text, client_word, hex, maybe, owner_word, push_maybe, push_numbers, read_owner,
};
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
    match request {
        Request::Acquire(acquire) => (Verb::Acquire, encode_acquire(acquire)),
        Request::Refresh { client, waiter_lease_ms } => {
            (Verb::Refresh, vec![client_word(*client), number_word(*waiter_lease_ms)])
        }
        Request::Renew { owner, client, lease_ms, write_back } => {
            let mut args = vec![owner_word(*owner), client_word(*client), number_word(*lease_ms)];
            args.extend(
                write_back.map(|WriteBack { number, token }| numbers_word(number, &[Some(token)])),
            );
            (Verb::Renew, args)
        }
        Request::Release { owner, bury_until_ms, last_used } => {
            let mut args = vec![owner_word(*owner), number_word(*bury_until_ms)];
            args.extend(last_used.map(|token| number_word(token.raw())));
            (Verb::Release, args)
        }
        Request::Break { token, at_once } => {
            let token = maybe_word(token.map(Token::raw));
            (Verb::Break, vec![token, number_word((*at_once).into())])
        }
        Request::ClientGone { client } => (Verb::ClientGone, vec![client_word(*client)]),
        Request::Resize { permits } => (Verb::Resize, vec![number_word((*permits).into())]),
        Request::PoolAdd { member } => (Verb::PoolAdd, vec![member.as_str().into()]),
        Request::PoolRemove { member } => (Verb::PoolRemove, vec![member.as_str().into()]),
        Request::Tick => (Verb::Tick, Vec::new()),
    }
}

fn encode_acquire(acquire: &Acquire) -> Vec<Vec<u8>> {
    let mut args = Vec::with_capacity(8);
    args.extend([
        owner_word(acquire.owner),
        client_word(acquire.client),
        ask_text(&acquire.ask).into_bytes(),
        number_word(acquire.lease_ms),
        maybe_word(acquire.waiter_lease_ms),
        number_word(acquire.not_after_ms),
        acquire.label.lines().into(),
    ]);
    args.extend(
        acquire.ballot.map(|Ballot { hint, ticket, yields }| numbers_word(hint, &[ticket, yields])),
    );
    args
}

fn number_word(number: u64) -> Vec<u8> {
    maybe_word(Some(number))
}

fn maybe_word(number: Option<u64>) -> Vec<u8> {
    let mut word = Vec::with_capacity(20);
    push_maybe(&mut word, number);
    word
}

fn numbers_word(first: u64, rest: &[Option<u64>]) -> Vec<u8> {
    let mut word = number_word(first);
    push_numbers(&mut word, rest);
    word
}

/// Reads a request. `None` if it makes no sense, or is no request but a look.
pub fn decode_request(verb: Verb, args: &[&[u8]]) -> Option<Request> {
    Some(match (verb, args) {
        (
            Verb::Acquire,
            &[owner, client_, ask_, lease, waiter_lease, not_after, label, ref rest @ ..],
        ) => Request::Acquire(Acquire {
            owner: read_owner(owner)?,
            client: client(client_)?,
            ask: ask(text(ask_)?)?,
            lease_ms: number(lease)?,
            waiter_lease_ms: maybe(waiter_lease)?,
            not_after_ms: number(not_after)?,
            ballot: optional(rest, ballot)?,
            label: Label::from_lines(text(label)?).ok()?,
        }),
        (Verb::Refresh, &[client_, waiter_lease]) => {
            Request::Refresh { client: client(client_)?, waiter_lease_ms: number(waiter_lease)? }
        }
        (Verb::Renew, &[owner, client_, lease, ref rest @ ..]) => Request::Renew {
            owner: read_owner(owner)?,
            client: client(client_)?,
            lease_ms: number(lease)?,
            write_back: optional(rest, write_back)?,
        },
        (Verb::Release, &[owner, bury, ref rest @ ..]) => Request::Release {
            owner: read_owner(owner)?,
            bury_until_ms: number(bury)?,
            last_used: optional(rest, last_used)?,
        },
        (Verb::Break, &[token, at_once]) => Request::Break {
            token: maybe(token)?.map(Token::from_raw),
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

fn number<T: TryFrom<u64>>(word: &[u8]) -> Option<T> {
    T::try_from(super::number(word)?).ok()
}

fn client(word: &[u8]) -> Option<ClientId> {
    hex(word).filter(|_| word.len() == 16).map(ClientId::from_bits)
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

fn last_used(mut words: Words<'_>) -> Option<Token> {
    let token = words.number()?;
    words.0.is_empty().then_some(Token::from_raw(token))
}

fn write_back(mut words: Words<'_>) -> Option<WriteBack> {
    let (number, token) = (words.number()?, words.number()?);
    words.0.is_empty().then_some(WriteBack { number, token })
}
