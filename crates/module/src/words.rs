//! Parses the arguments of the commands. Nothing here depends on the lock: a malformed command gets
//! the same error whether the lock is held or not.

use taketurns_core::wire::number;
use taketurns_core::{Ask, Label, Member, Note, OnceTerms, Token, limits};

use crate::problem::Problem;
use crate::secret;

type ParseResult<T> = Result<T, Problem>;

/// `FENCELOCK.ACQUIRE`, without the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AcquireWords {
    pub(crate) lease_ms: u64,
    /// How long nobody else gets it, from the grant on; 0 if it ends with the hold.
    pub(crate) at_least_ms: u64,
    /// How long to wait; `None` for a plain try.
    pub(crate) wait_ms: Option<u64>,
    pub(crate) ask: Ask,
    pub(crate) label: Option<Label>,
    pub(crate) bound: bool,
}

/// `seconds [MS] [WAIT seconds] [SHARED | EXCLUSIVE | PERMITS k n | ANY | MEMBER m | ONCE seconds] [LABEL text] [BOUND]
/// [ATLEAST seconds]`, and with `ONCE` also `[PERIOD offset] [ATTEMPTS n] [PAUSE seconds]`: the options in any order,
/// each once.
pub(crate) fn acquire(words: &[&[u8]], max_lease_ms: u64) -> ParseResult<AcquireWords> {
    let (lease, mut rest) = words.split_first().ok_or(Problem::SYNTAX)?;
    let (mut is_ms, mut wait, mut ask, mut label, mut bound) = (false, None, None, None, false);
    let (mut at_least, mut period, mut attempts, mut pause) = (None, None, None, None);
    while let Some(word) = next(&mut rest) {
        match &upper(word) {
            b"MS       " => once(&mut is_ms)?,
            b"BOUND    " => once(&mut bound)?,
            b"WAIT     " => put(&mut wait, wait_ms(must(&mut rest)?)?)?,
            b"LABEL    " => put(&mut label, self::label(must(&mut rest)?)?)?,
            b"SHARED   " => put(&mut ask, Ask::Read)?,
            b"EXCLUSIVE" => put(&mut ask, Ask::Write)?,
            b"ANY      " => put(&mut ask, Ask::Any)?,
            b"MEMBER   " => put(&mut ask, Ask::Member(member(must(&mut rest)?)?))?,
            b"ONCE     " => put(&mut ask, remember(must(&mut rest)?)?)?,
            b"ATLEAST  " => put(&mut at_least, lease_ms(must(&mut rest)?, false, max_lease_ms)?)?,
            b"PERIOD   " => put(&mut period, seconds_ms(must(&mut rest)?)?)?,
            b"ATTEMPTS " => put(&mut attempts, self::attempts(must(&mut rest)?)?)?,
            b"PAUSE    " => put(&mut pause, seconds_ms(must(&mut rest)?)?)?,
            b"PERMITS  " => put(&mut ask, permits(must(&mut rest)?, must(&mut rest)?)?)?,
            _ => return Err(Problem::SYNTAX),
        }
    }
    let lease_ms = lease_ms(lease, is_ms, max_lease_ms)?;
    let mut ask = ask.unwrap_or(Ask::Mutex);
    match &mut ask {
        Ask::Once(terms) => {
            terms.offset_ms = period;
            terms.attempts = attempts.unwrap_or(0);
            terms.pause_ms = pause.unwrap_or(0);
        }
        _ if period.is_some() || attempts.is_some() || pause.is_some() => {
            return Err(Problem::SYNTAX);
        }
        _ => {}
    }
    if !ask.is_possible() || (at_least.is_some() && !ask.may_rest()) {
        return Err(Problem::BAD_ONCE);
    }
    let at_least_ms = at_least.unwrap_or(0);
    Ok(AcquireWords { lease_ms, at_least_ms, wait_ms: wait, ask, label, bound })
}

/// `secret token [RESULT text]`, of an attempt that is done.
pub(crate) fn done(words: &[&[u8]]) -> ParseResult<(u64, Token, Note)> {
    let (secret, token, result) = match words {
        [secret, token] => (secret, token, &b""[..]),
        [secret, token, word, result] if word.eq_ignore_ascii_case(b"RESULT") => {
            (secret, token, *result)
        }
        _ => return Err(Problem::SYNTAX),
    };
    let result = std::str::from_utf8(result).ok().and_then(|text| Note::new(text).ok());
    let token = Token::from_raw(self::token(token)?);
    Ok((self::secret(secret)?, token, result.ok_or(Problem::BAD_RESULT)?))
}

/// `secret token`, of an attempt that failed.
pub(crate) fn fail(words: &[&[u8]]) -> ParseResult<(u64, Token)> {
    let [secret, token] = words else { return Err(Problem::SYNTAX) };
    Ok((self::secret(secret)?, Token::from_raw(self::token(token)?)))
}

fn remember(word: &[u8]) -> ParseResult<Ask> {
    let (keep_ms, offset_ms) = (seconds_ms(word)?, None);
    Ok(Ask::Once(OnceTerms { keep_ms, offset_ms, attempts: 0, pause_ms: 0 }))
}

fn seconds_ms(word: &[u8]) -> ParseResult<u64> {
    let ms = number(word).and_then(|seconds| seconds.checked_mul(1_000));
    ms.ok_or(Problem::BAD_ONCE)
}

fn attempts(word: &[u8]) -> ParseResult<u32> {
    let attempts = number(word).and_then(|attempts| u32::try_from(attempts).ok());
    attempts.filter(|attempts| *attempts > 0).ok_or(Problem::BAD_ONCE)
}

/// `secret seconds [MS]`.
pub(crate) fn renew(words: &[&[u8]], max_lease_ms: u64) -> ParseResult<(u64, u64)> {
    let (secret, lease, is_ms) = match words {
        [secret, lease] => (secret, lease, false),
        [secret, lease, unit] if unit.eq_ignore_ascii_case(b"MS") => (secret, lease, true),
        _ => return Err(Problem::SYNTAX),
    };
    let lease_ms = lease_ms(lease, is_ms, max_lease_ms)?;
    Ok((self::secret(secret)?, lease_ms))
}

/// `[TOKEN token] [NOW]`.
pub(crate) fn break_(words: &[&[u8]]) -> ParseResult<(Option<Token>, bool)> {
    let (mut rest, mut token, mut at_once) = (words, None, false);
    while let Some(word) = next(&mut rest) {
        match &upper(word) {
            b"NOW      " => once(&mut at_once)?,
            b"TOKEN    " => put(&mut token, self::token(must(&mut rest)?)?)?,
            _ => return Err(Problem::SYNTAX),
        }
    }
    Ok((token.map(Token::from_raw), at_once))
}

/// `[cursor] [MATCH pattern] [COUNT count]`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListWords<'a> {
    pub(crate) cursor: u64,
    pub(crate) pattern: Option<&'a [u8]>,
    pub(crate) count: u64,
}

/// The default and the largest number of keys that a page looks at.
const COUNT: u64 = 100;
const COUNT_MAX: u64 = 10_000;

pub(crate) fn list<'a>(words: &[&'a [u8]]) -> ParseResult<ListWords<'a>> {
    let (mut rest, mut pattern, mut count) = (words, None, None);
    let cursor = match words.first().map(|word| number(word)) {
        Some(Some(cursor)) => {
            next(&mut rest);
            cursor
        }
        _ => 0,
    };
    while let Some(word) = next(&mut rest) {
        match &upper(word) {
            b"MATCH    " => put(&mut pattern, must(&mut rest)?)?,
            b"COUNT    " => put(&mut count, self::count(must(&mut rest)?)?)?,
            _ => return Err(Problem::SYNTAX),
        }
    }
    Ok(ListWords { cursor, pattern, count: count.unwrap_or(COUNT) })
}

/// `[COUNT waiters]`: the number of waiters to show.
pub(crate) fn show(words: &[&[u8]]) -> ParseResult<usize> {
    match words {
        [] => Ok(COUNT as usize),
        [word, number] if word.eq_ignore_ascii_case(b"COUNT") => Ok(count(number)? as usize),
        _ => Err(Problem::SYNTAX),
    }
}

fn count(word: &[u8]) -> ParseResult<u64> {
    let wrong = || Problem::say(format!("ERR COUNT takes a number from 1 to {COUNT_MAX}"));
    number(word).filter(|count| (1..=COUNT_MAX).contains(count)).ok_or_else(wrong)
}

/// A secret, of any lock.
pub(crate) fn secret(word: &[u8]) -> ParseResult<u64> {
    let secret = number(word).filter(|secret| (1..=secret::MAX).contains(secret));
    secret.ok_or(Problem::BAD_SECRET)
}

pub(crate) fn token(word: &[u8]) -> ParseResult<u64> {
    number(word).filter(|token| (1..=limits::TOKEN_MAX).contains(token)).ok_or(Problem::BAD_TOKEN)
}

pub(crate) fn member(word: &[u8]) -> ParseResult<Member> {
    let text = std::str::from_utf8(word).map_err(|_| Problem::BAD_MEMBER)?;
    Member::new(text).map_err(|_| Problem::BAD_MEMBER)
}

fn label(word: &[u8]) -> ParseResult<Label> {
    let text = std::str::from_utf8(word).map_err(|_| Problem::BAD_LABEL)?;
    Label::new(text, "").map_err(|_| Problem::BAD_LABEL)
}

fn lease_ms(word: &[u8], is_ms: bool, max_ms: u64) -> ParseResult<u64> {
    let unit_ms = if is_ms { 1 } else { 1_000 };
    let lease_ms = number(word).and_then(|number| number.checked_mul(unit_ms));
    let lease_ms = lease_ms.filter(|ms| limits::is_lease(*ms) && *ms <= max_ms);
    lease_ms.ok_or_else(|| Problem::lease(max_ms))
}

/// Parses seconds with up to three decimals.
fn wait_ms(word: &[u8]) -> ParseResult<u64> {
    let text = std::str::from_utf8(word).map_err(|_| Problem::wait())?;
    let (seconds, thousandths) = text.split_once('.').unwrap_or((text, "0"));
    let ms = number(seconds.as_bytes()).and_then(|seconds| seconds.checked_mul(1_000));
    let is_short = (1..=3).contains(&thousandths.len());
    let rest_ms = is_short.then(|| number(format!("{thousandths:0<3}").as_bytes())).flatten();
    let wait_ms = ms.zip(rest_ms).and_then(|(ms, rest_ms)| ms.checked_add(rest_ms));
    match wait_ms.filter(|ms| *ms <= limits::LEASE_MS_MAX).ok_or_else(Problem::wait)? {
        0 => Ok(limits::LEASE_MS_MAX),
        wait_ms => Ok(wait_ms),
    }
}

fn permits(take: &[u8], of: &[u8]) -> ParseResult<Ask> {
    let permits = number(take).zip(number(of)).and_then(|(take, of)| {
        Some(Ask::Permits { take: take.try_into().ok()?, of: of.try_into().ok()? })
    });
    permits.filter(Ask::is_possible).ok_or_else(|| {
        let max = limits::PERMITS_MAX;
        Problem::say(format!("ERR PERMITS takes how many and of how many, from 1 to {max}"))
    })
}

/// Returns an option in capitals, padded to the length of the longest one; blank if it is no
/// option.
fn upper(word: &[u8]) -> [u8; 9] {
    let mut upper = [b' '; 9];
    if word.len() <= upper.len() && word.is_ascii() && !word.contains(&b' ') {
        upper[..word.len()].copy_from_slice(word);
        upper.make_ascii_uppercase();
    }
    upper
}

fn next<'a>(rest: &mut &[&'a [u8]]) -> Option<&'a [u8]> {
    let (first, others) = rest.split_first()?;
    *rest = others;
    Some(first)
}

fn must<'a>(rest: &mut &[&'a [u8]]) -> ParseResult<&'a [u8]> {
    next(rest).ok_or(Problem::SYNTAX)
}

fn put<T>(slot: &mut Option<T>, value: T) -> ParseResult<()> {
    if slot.is_some() {
        return Err(Problem::SYNTAX);
    }
    *slot = Some(value);
    Ok(())
}

fn once(flag: &mut bool) -> ParseResult<()> {
    if std::mem::replace(flag, true) { Err(Problem::SYNTAX) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_MS: u64 = limits::LEASE_MS_MAX;

    fn words(text: &str) -> Vec<&[u8]> {
        text.split(' ').map(str::as_bytes).collect()
    }

    fn parse(text: &str) -> ParseResult<AcquireWords> {
        acquire(&words(text), MAX_MS)
    }

    #[test]
    fn options_come_in_any_order_and_in_any_case() {
        let plain = parse("30").expect("plain");
        assert_eq!((plain.lease_ms, plain.wait_ms, plain.bound), (30_000, None, false));
        assert_eq!((plain.ask, plain.label), (Ask::Mutex, None));
        let all = parse("250 bound Wait 1.5 MS label web-3 Permits 2 4").expect("all");
        assert_eq!((all.lease_ms, all.wait_ms, all.bound), (250, Some(1_500), true));
        assert_eq!(all.ask, Ask::Permits { take: 2, of: 4 });
        assert_eq!(all.label, Some(Label::new("web-3", "").expect("a label")));
        assert_eq!(parse("1 MEMBER any").expect("a member").ask.to_string(), "member any");
        assert_eq!(parse("1 SHARED").expect("shared").ask, Ask::Read);
        assert_eq!(parse("1 EXCLUSIVE").expect("exclusive").ask, Ask::Write);
        assert_eq!(parse("1 ATLEAST 60").expect("a rest").at_least_ms, 60_000);
        let (keep_ms, offset_ms) = (86_400_000, Some(43_200_000));
        let terms = OnceTerms { keep_ms, offset_ms, attempts: 3, pause_ms: 5_000 };
        let nightly = parse("30 PERIOD 43200 ONCE 86400 PAUSE 5 attempts 3").expect("a once");
        assert_eq!(nightly.ask, Ask::Once(terms));
        for wrong in [
            "1 ONCE 0",
            "1 ONCE 2678401",
            "1 ONCE 60 PERIOD 60",
            "1 ONCE 60 ATTEMPTS 0",
            "1 ONCE 60 PAUSE 86401",
            "1 ONCE 60 ATLEAST 60",
            "1 ONCE x",
        ] {
            assert_eq!(parse(wrong), Err(Problem::BAD_ONCE), "{wrong:?}");
        }
        assert_eq!(parse("1 ATTEMPTS 3"), Err(Problem::SYNTAX));
        let result = Note::new("3 tables").expect("a note");
        let said = done(&[b"7", b"9", b"result", b"3 tables"]);
        assert_eq!(said, Ok((7, Token::from_raw(9), result)));
        assert_eq!(done(&[b"7", b"9", b"RESULT", b"\n"]), Err(Problem::BAD_RESULT));
        assert_eq!(fail(&[b"7"]), Err(Problem::SYNTAX));
    }

    #[test]
    fn a_lease_that_no_lock_takes_is_an_error() {
        for lease in ["0", "-1", "+1", "x", "", "1.5", "86401", "99999999999999999999", "9 MS"] {
            assert_eq!(parse(lease), Err(Problem::lease(MAX_MS)), "{lease:?}");
        }
        assert_eq!(acquire(&words("61"), 60_000), Err(Problem::lease(60_000)));
        assert!(parse("86400").is_ok() && parse("10 MS").is_ok());
        assert_eq!(renew(&words("7 0"), MAX_MS), Err(Problem::lease(MAX_MS)));
        assert_eq!(renew(&words("7 5000 ms"), MAX_MS), Ok((7, 5_000)));
    }

    #[test]
    fn waits_are_seconds_and_nought_is_the_longest() {
        let waits = |text: &str| parse(&format!("1 WAIT {text}")).map(|words| words.wait_ms);
        assert_eq!(waits("0"), Ok(Some(MAX_MS)));
        assert_eq!(waits("0.001"), Ok(Some(1)));
        assert_eq!(waits("2.5"), Ok(Some(2_500)));
        assert_eq!(waits("86400"), Ok(Some(MAX_MS)));
        for wrong in ["-1", "86401", "1.", ".5", "1.2345", "x", "1e3", "18446744073709551615"] {
            assert_eq!(waits(wrong), Err(Problem::wait()), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_said_twice_or_not_at_all_is_an_error() {
        for wrong in [
            "1 MS MS",
            "1 BOUND BOUND",
            "1 SHARED ANY",
            "1 WAIT",
            "1 LABEL",
            "1 MEMBER",
            "1 PERMITS 1",
            "1 WAIT 1 WAIT 2",
            "1 EX",
        ] {
            assert_eq!(parse(wrong), Err(Problem::SYNTAX), "{wrong:?}");
        }
        for wrong in ["1 PERMITS 0 1", "1 PERMITS 2 1", "1 PERMITS 1 1000001", "1 PERMITS -1 2"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(acquire(&[], MAX_MS), Err(Problem::SYNTAX));
        let long = "x".repeat(257);
        assert_eq!(parse(&format!("1 LABEL {long}")), Err(Problem::BAD_LABEL));
        assert_eq!(acquire(&[b"1", b"MEMBER", b"\xff"], MAX_MS), Err(Problem::BAD_MEMBER));
    }

    #[test]
    fn secrets_and_tokens_are_integers_that_a_double_holds() {
        assert_eq!(secret(b"9007199254740991"), Ok(secret::MAX));
        for wrong in [&b"0"[..], b"9007199254740992", b"-5", b"5 ", b"", b"\xff"] {
            assert_eq!(secret(wrong), Err(Problem::BAD_SECRET));
            assert_eq!(token(wrong), Err(Problem::BAD_TOKEN));
        }
    }

    #[test]
    fn a_listing_begins_at_a_cursor_or_at_the_beginning() {
        let list = |text: &'static str| super::list(&words(text));
        let whole = ListWords { cursor: 0, pattern: None, count: COUNT };
        assert_eq!(super::list(&[]), Ok(whole));
        let some = ListWords { cursor: 7, pattern: Some(b"a*"), count: 5 };
        assert_eq!(list("7 match a* COUNT 5"), Ok(some));
        assert_eq!(list("MATCH a* COUNT 5").map(|words| words.cursor), Ok(0));
        assert!(list("x").is_err() && list("0 COUNT 0").is_err() && list("0 MATCH").is_err());
        assert_eq!(break_(&words("TOKEN 5 NOW")), Ok((Some(Token::from_raw(5)), true)));
        assert_eq!(break_(&[]), Ok((None, false)));
        assert!(break_(&words("LATER")).is_err() && break_(&words("TOKEN x")).is_err());
    }
}
