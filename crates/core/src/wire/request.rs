//! Requests as a verb and its arguments.

use super::{
    WordReader, ask, hex, maybe, push_ask, push_hex, push_maybe, push_number, push_numbers,
    read_owner,
};
use crate::{AcquireRequest, Ballot, ClientId, Label, Member, Owner, Request, Token, WriteBack};

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

    /// The verb of a request.
    pub const fn of(request: &Request) -> Self {
        match request {
            Request::Acquire(_) => Verb::Acquire,
            Request::Refresh { .. } => Verb::Refresh,
            Request::Renew { .. } => Verb::Renew,
            Request::Release { .. } => Verb::Release,
            Request::Break { .. } => Verb::Break,
            Request::ClientGone { .. } => Verb::ClientGone,
            Request::Resize { .. } => Verb::Resize,
            Request::PoolAdd { .. } => Verb::PoolAdd,
            Request::PoolRemove { .. } => Verb::PoolRemove,
            Request::Tick => Verb::Tick,
        }
    }

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

/// Arguments one behind the other, in one piece of memory.
#[derive(Clone, Debug, Default)]
pub struct StepArgs {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl StepArgs {
    /// Forgets them, and keeps their room.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// All of them, with this byte between two.
    pub fn joined(&self, by: u8) -> impl Iterator<Item = u8> + '_ {
        self.iter().enumerate().flat_map(move |(at, arg)| {
            let between = (at > 0).then_some(by);
            between.into_iter().chain(arg.iter().copied())
        })
    }

    /// How long [`Self::joined`] is.
    pub fn joined_len(&self) -> usize {
        self.bytes.len() + self.ends.len().saturating_sub(1)
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }

    /// One more.
    pub fn push(&mut self, arg: &[u8]) {
        self.write(|bytes| bytes.extend_from_slice(arg));
    }

    /// One more, a number.
    pub fn push_number(&mut self, number: u64) {
        self.write(|bytes| push_number(bytes, number));
    }

    fn push_maybe(&mut self, number: Option<u64>) {
        self.write(|bytes| push_maybe(bytes, number));
    }

    fn push_numbers(&mut self, first: u64, rest: &[Option<u64>]) {
        self.write(|bytes| {
            push_number(bytes, first);
            push_numbers(bytes, rest);
        });
    }

    fn push_owner(&mut self, owner: Owner) {
        self.write(|bytes| push_hex(bytes, &owner.expose().to_be_bytes()));
    }

    fn push_client(&mut self, client: ClientId) {
        self.write(|bytes| push_hex(bytes, &client.bits().to_be_bytes()));
    }

    fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }
}

/// How a request is sent.
pub fn encode_request(request: &Request) -> (Verb, Vec<Vec<u8>>) {
    let mut args = StepArgs::default();
    encode_request_to(&mut args, request);
    (Verb::of(request), args.iter().map(<[u8]>::to_vec).collect())
}

/// Writes the arguments of a request, behind those that are there.
pub fn encode_request_to(args: &mut StepArgs, request: &Request) {
    match request {
        Request::Acquire(acquire) => encode_acquire(args, acquire),
        Request::Refresh { client, waiter_lease_ms } => {
            args.push_client(*client);
            args.push_number(*waiter_lease_ms);
        }
        Request::Renew { owner, client, lease_ms, write_back } => {
            args.push_owner(*owner);
            args.push_client(*client);
            args.push_number(*lease_ms);
            if let Some(WriteBack { number, token }) = write_back {
                args.push_numbers(*number, &[Some(*token)]);
            }
        }
        Request::Release { owner, bury_until_ms, last_used } => {
            args.push_owner(*owner);
            args.push_number(*bury_until_ms);
            if let Some(token) = last_used {
                args.push_number(token.raw());
            }
        }
        Request::Break { token, at_once } => {
            args.push_maybe(token.map(Token::raw));
            args.push_number((*at_once).into());
        }
        Request::ClientGone { client } => args.push_client(*client),
        Request::Resize { permits } => args.push_number((*permits).into()),
        Request::PoolAdd { member } | Request::PoolRemove { member } => {
            args.push(member.as_str().as_bytes());
        }
        Request::Tick => {}
    }
}

fn encode_acquire(args: &mut StepArgs, acquire: &AcquireRequest) {
    args.push_owner(acquire.owner);
    args.push_client(acquire.client);
    args.write(|bytes| push_ask(bytes, &acquire.ask));
    args.push_number(acquire.lease_ms);
    args.push_maybe(acquire.waiter_lease_ms);
    args.push_number(acquire.not_after_ms);
    args.push(acquire.label.lines().as_bytes());
    if let Some(Ballot { hint, ticket, yields }) = acquire.ballot {
        args.push_numbers(hint, &[ticket, yields]);
    }
}

/// Reads a request. `None` if it makes no sense, or is no request but a look.
pub fn decode_request(verb: Verb, args: &[&[u8]]) -> Option<Request> {
    Some(match (verb, args) {
        (
            Verb::Acquire,
            &[owner, client_, ask_, lease, waiter_lease, not_after, label, ref rest @ ..],
        ) => Request::Acquire(AcquireRequest {
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
fn optional<T>(
    rest: &[&[u8]],
    read: impl FnOnce(WordReader<'_>) -> Option<T>,
) -> Option<Option<T>> {
    match rest {
        [] => Some(None),
        [words] => read(WordReader(text(words)?)).map(Some),
        _ => None,
    }
}

fn ballot(mut words: WordReader<'_>) -> Option<Ballot> {
    let (hint, ticket, yields) = (words.number()?, words.maybe()?, words.maybe()?);
    words.0.is_empty().then_some(Ballot { hint, ticket, yields })
}

fn last_used(mut words: WordReader<'_>) -> Option<Token> {
    let token = words.number()?;
    words.0.is_empty().then_some(Token::from_raw(token))
}

fn write_back(mut words: WordReader<'_>) -> Option<WriteBack> {
    let (number, token) = (words.number()?, words.number()?);
    words.0.is_empty().then_some(WriteBack { number, token })
}
