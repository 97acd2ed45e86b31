//! Requests as a verb and its arguments, and the words that arguments are made of.

use super::head::{LEASE_DIGITS, TIME_DIGITS};
use super::read_owner;
use super::reply::WordReader;
use crate::{
    AcquireRequest, Ask, AttemptEnd, Ballot, ClientId, Label, Member, Note, OnceTerms, Owner,
    Request, Token, WriteBack,
};

/// A kind of request, or a look.
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
    Finish,
    Undo,
    Tick,
    View,
}

impl Verb {
    /// All, each at the place of its number.
    pub const ALL: [Verb; 13] = [
        Verb::Acquire,
        Verb::Refresh,
        Verb::Renew,
        Verb::Release,
        Verb::Break,
        Verb::ClientGone,
        Verb::Resize,
        Verb::PoolAdd,
        Verb::PoolRemove,
        Verb::Finish,
        Verb::Undo,
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
            Request::Finish { .. } => Verb::Finish,
            Request::Undo => Verb::Undo,
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
            Verb::Finish => "finish",
            Verb::Undo => "undo",
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
            args.write(|bytes| push_asker(bytes, *lease_ms, *owner, *client));
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
        Request::Finish { owner, token, end, bury_until_ms } => {
            args.push_owner(*owner);
            args.push_number(*bury_until_ms);
            args.push_number(token.raw());
            match end {
                AttemptEnd::Done(result) => args.write(|bytes| {
                    bytes.push(b'D');
                    bytes.extend_from_slice(result.as_str().as_bytes());
                }),
                AttemptEnd::Failed => args.push(b"F"),
            }
        }
        Request::Undo | Request::Tick => {}
    }
}

fn encode_acquire(args: &mut StepArgs, acquire: &AcquireRequest) {
    args.write(|bytes| {
        push_asker(bytes, acquire.lease_ms, acquire.owner, acquire.client);
        if acquire.at_least_ms > 0 {
            push_number(bytes, acquire.at_least_ms);
        }
        push_ask(bytes, &acquire.ask);
        bytes.push(b'\n');
        bytes.extend_from_slice(acquire.label.lines().as_bytes());
    });
    args.write(|bytes| match acquire.waiter_lease_ms {
        Some(waiter_lease_ms) => push_lease(bytes, waiter_lease_ms),
        None => bytes.push(b'-'),
    });
    args.write(|bytes| push_padded(bytes, acquire.not_after_ms, TIME_DIGITS));
    if let Some(Ballot { hint, ticket, yields }) = acquire.ballot {
        args.push_numbers(hint, &[ticket, yields]);
    }
}

/// Reads a request. `None` if it makes no sense, or is no request but a look.
pub fn decode_request(verb: Verb, args: &[&[u8]]) -> Option<Request> {
    Some(match (verb, args) {
        (Verb::Acquire, &[request, waiter_lease, not_after, ref rest @ ..]) => {
            let (lease_ms, owner, client, words) = asker(request)?;
            let (asked, label) = text(words)?.split_once('\n')?;
            let (at_least_ms, ask_) = resting_ask(asked)?;
            Request::Acquire(AcquireRequest {
                owner,
                client,
                ask: ask_,
                at_least_ms,
                lease_ms,
                waiter_lease_ms: maybe(waiter_lease)
                    .filter(|_| waiter_lease.len() <= LEASE_DIGITS)?,
                not_after_ms: number(not_after)?,
                ballot: optional(rest, ballot)?,
                label: Label::from_lines(label).ok()?,
            })
        }
        (Verb::Refresh, &[client_, waiter_lease]) => {
            Request::Refresh { client: client(client_)?, waiter_lease_ms: number(waiter_lease)? }
        }
        (Verb::Renew, &[words, ref rest @ ..]) => {
            let (lease_ms, owner, client, words) = asker(words)?;
            words.is_empty().then_some(())?;
            Request::Renew { owner, client, lease_ms, write_back: optional(rest, write_back)? }
        }
        (Verb::Release, &[owner, bury, ref rest @ ..]) => Request::Release {
            owner: read_owner(owner)?,
            bury_until_ms: number(bury)?,
            last_used: optional(rest, last_used)?,
        },
        (Verb::Break, &[token, at_once]) => Request::Break {
            token: maybe(token)?.map(Token::from_raw),
            at_once: u8::try_from(number(at_once)?).ok()? != 0,
        },
        (Verb::ClientGone, &[client_]) => Request::ClientGone { client: client(client_)? },
        (Verb::Resize, &[permits]) => {
            Request::Resize { permits: u32::try_from(number(permits)?).ok()? }
        }
        (Verb::PoolAdd, &[name]) => Request::PoolAdd { member: member(name)? },
        (Verb::PoolRemove, &[name]) => Request::PoolRemove { member: member(name)? },
        (Verb::Finish, &[owner, bury, token, end]) => Request::Finish {
            owner: read_owner(owner)?,
            bury_until_ms: number(bury)?,
            token: Token::from_raw(number(token)?),
            end: match text(end)?.split_at_checked(1)? {
                ("D", result) => AttemptEnd::Done(Note::new(result).ok()?),
                ("F", "") => AttemptEnd::Failed,
                _ => return None,
            },
        },
        (Verb::Undo, &[]) => Request::Undo,
        (Verb::Tick, &[]) => Request::Tick,
        _ => return None,
    })
}

/// Who asks for a lock or keeps it, and for how long: the beginning of a holder as the scripts store it. The
/// widths are fixed, so a script finds each word without looking for it.
fn push_asker(bytes: &mut Vec<u8>, lease_ms: u64, owner: Owner, client: ClientId) {
    push_lease(bytes, lease_ms);
    push_hex(bytes, &owner.expose().to_be_bytes());
    push_hex(bytes, &client.bits().to_be_bytes());
}

/// Reads what [`push_asker`] wrote, and what follows it.
fn asker(word: &[u8]) -> Option<(u64, Owner, ClientId, &[u8])> {
    let (lease, word) = word.split_at_checked(LEASE_DIGITS)?;
    let (owner, word) = word.split_at_checked(32)?;
    let (client_, word) = word.split_at_checked(16)?;
    Some((number(lease)?, read_owner(owner)?, client(client_)?, word))
}

/// A lease that has more digits is refused like the longest that fits.
fn push_lease(bytes: &mut Vec<u8>, lease_ms: u64) {
    const LONGEST: u64 = 10_u64.pow(LEASE_DIGITS as u32) - 1;
    push_padded(bytes, lease_ms.min(LONGEST), LEASE_DIGITS);
}

/// Writes decimal digits, with zeros before them if there are fewer.
fn push_padded(bytes: &mut Vec<u8>, number: u64, digits: usize) {
    let start = bytes.len();
    push_number(bytes, number);
    let missing = digits.saturating_sub(bytes.len() - start);
    bytes.splice(start..start, std::iter::repeat_n(b'0', missing));
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
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

/// Reads what is asked for, and before it for how long it is taken at least: nothing if it goes with its lease.
pub fn resting_ask(text: &str) -> Option<(u64, Ask)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (at_least, rest) = text.split_at(digits);
    let at_least_ms = match at_least {
        "" => 0,
        _ if at_least.starts_with('0') || digits > LEASE_DIGITS => return None,
        _ => number(at_least.as_bytes())?,
    };
    Some((at_least_ms, ask(rest)?))
}

/// Reads what is asked for.
pub fn ask(text: &str) -> Option<Ask> {
    Some(match text {
        "m" => Ask::Mutex,
        "r" => Ask::Read,
        "w" => Ask::Write,
        "a" => Ask::Any,
        _ => match text.split_at_checked(1)? {
            ("m", tokens) => Ask::Turns { tokens: tokens.parse().ok()? },
            ("k", tokens) => Ask::Stay { tokens: tokens.parse().ok()? },
            ("s", permits) => {
                let (take, of) = permits.split_once('/')?;
                Ask::Permits { take: take.parse().ok()?, of: of.parse().ok()? }
            }
            ("n", member) => Ask::Member(Member::new(member).ok()?),
            ("o", terms) => Ask::Once(once_terms(terms)?),
            _ => return None,
        },
    })
}

fn once_terms(text: &str) -> Option<OnceTerms> {
    let mut numbers = text.split('/').map(|word| maybe(word.as_bytes()));
    let mut next = || numbers.next().flatten();
    let (keep_ms, offset_ms, attempts, pause_ms) = (next()??, next()?, next()??, next()??);
    let attempts = u32::try_from(attempts).ok()?;
    numbers.next().is_none().then_some(OnceTerms { keep_ms, offset_ms, attempts, pause_ms })
}

fn push_ask(text: &mut Vec<u8>, ask: &Ask) {
    match ask {
        Ask::Mutex => text.push(b'm'),
        Ask::Turns { tokens } => {
            text.push(b'm');
            push_number(text, (*tokens).into());
        }
        Ask::Stay { tokens } => {
            text.push(b'k');
            push_number(text, (*tokens).into());
        }
        Ask::Read => text.push(b'r'),
        Ask::Write => text.push(b'w'),
        Ask::Permits { take, of } => {
            text.push(b's');
            push_number(text, (*take).into());
            text.push(b'/');
            push_number(text, (*of).into());
        }
        Ask::Any => text.push(b'a'),
        Ask::Member(member) => {
            text.push(b'n');
            text.extend_from_slice(member.as_str().as_bytes());
        }
        Ask::Once(OnceTerms { keep_ms, offset_ms, attempts, pause_ms }) => {
            text.push(b'o');
            push_number(text, *keep_ms);
            for number in [*offset_ms, Some((*attempts).into()), Some(*pause_ms)] {
                text.push(b'/');
                push_maybe(text, number);
            }
        }
    }
}

/// Reads a number, or `-` for none.
pub(super) fn maybe(word: &[u8]) -> Option<Option<u64>> {
    match word {
        b"-" => Some(None),
        word => number(word).map(Some),
    }
}

/// A number, or `-` for none.
fn push_maybe(text: &mut Vec<u8>, number: Option<u64>) {
    match number {
        Some(number) => push_number(text, number),
        None => text.push(b'-'),
    }
}

/// Numbers, with a space before each.
pub(super) fn push_numbers(text: &mut Vec<u8>, numbers: &[Option<u64>]) {
    for number in numbers {
        text.push(b' ');
        push_maybe(text, *number);
    }
}

// Nearly all words are numbers. With `parse` and `format!` they would cost more than the step that they ask for.

/// Reads decimal digits alone: no sign, no space.
pub fn number(word: &[u8]) -> Option<u64> {
    /// Every number with at most this many digits fits into a `u64`.
    const SURE: usize = 19;
    let (sure, rest) = word.split_at(word.len().min(SURE));
    let (mut number, mut is_number) = (0_u64, !word.is_empty());
    for byte in sure {
        let digit = byte.wrapping_sub(b'0');
        is_number &= digit <= 9;
        // What is no number may be too large for one.
        number = number.wrapping_mul(10).wrapping_add(digit.into());
    }
    let digit = |number: u64, byte: &u8| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        number.checked_mul(10)?.checked_add(digit.into())
    };
    rest.iter().try_fold(number, digit).filter(|_| is_number)
}

/// Reads up to sixteen hexadecimal digits.
pub(super) fn hex(word: &[u8]) -> Option<u64> {
    let (mut number, mut is_number) = (0, (1..=16).contains(&word.len()));
    for byte in word {
        let digit = VALUES[usize::from(*byte)];
        is_number &= digit < 16;
        number = number << 4 | u64::from(digit & 15);
    }
    is_number.then_some(number)
}

/// What each byte is worth as a hexadecimal digit; more than any if it is none.
const VALUES: [u8; 256] = {
    let mut values = [u8::MAX; 256];
    let mut digit = 0;
    while digit < 16 {
        values[DIGITS[digit] as usize] = digit as u8;
        values[DIGITS[digit].to_ascii_uppercase() as usize] = digit as u8;
        digit += 1;
    }
    values
};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Writes decimal digits, two at a time.
pub fn push_number(text: &mut Vec<u8>, mut number: u64) {
    let (mut digits, mut at) = ([0; 20], 20);
    while number >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    let [ten, one] = PAIRS[number as usize];
    at -= 1;
    digits[at] = one;
    if number >= 10 {
        at -= 1;
        digits[at] = ten;
    }
    text.extend_from_slice(&digits[at..]);
}

const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [DIGITS[number / 10], DIGITS[number % 10]];
        number += 1;
    }
    pairs
};

/// Writes two hexadecimal digits for each byte.
pub(super) fn push_hex(text: &mut Vec<u8>, bytes: &[u8]) {
    let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    text.extend(bytes.iter().flat_map(digits));
}

#[cfg(test)]
mod tests;
