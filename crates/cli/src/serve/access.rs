//! Who may ask what. Pure: a request's headers are given, and the answer is yes or why not.
//!
//! - A browser sends requests on behalf of any page that its user has open. So what another site's page
//!   sends is refused (`Origin`, `Sec-Fetch-Site`), and so is a name that such a site may have pointed at
//!   this machine (`Host`). There are no cookies: nothing is sent along by itself.
//! - On loopback, every user of the machine may read, unless the server is closed. From other machines, every
//!   request needs the token.
//! - Breaking a lock always needs the token.

use std::net::IpAddr;

use axum::http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use axum::http::{StatusCode, Uri};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The shortest token: one that nobody guesses.
pub(super) const TOKEN_MIN: usize = 16;

/// What a server asks of those who ask it.
pub(crate) struct Access {
    /// The token that a request must show. Without one, nobody can break a lock.
    pub(super) token: Option<String>,
    /// Others than this machine can reach it.
    pub(super) is_open: bool,
    /// Nothing is told without the token.
    pub(super) is_closed: bool,
    /// Names that it goes by, beside those of this machine itself.
    pub(super) hosts: Vec<String>,
    /// No lock is broken, with the token either.
    pub(super) is_read_only: bool,
}

/// Why something is not done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) status: StatusCode,
    pub(crate) why: &'static str,
}

const fn denied(status: StatusCode, why: &'static str) -> Denial {
    Denial { status, why }
}

const DOUBLED: Denial = denied(
    StatusCode::BAD_REQUEST,
    "the request has a header twice that may be there once: Host, Origin, Authorization or Sec-Fetch-Site",
);
const READ_ONLY: Denial = denied(
    StatusCode::FORBIDDEN,
    "this server was started with --read-only: use taketurns break at a shell",
);
const FOREIGN: Denial =
    denied(StatusCode::FORBIDDEN, "this request comes from another site's page");
const HOSTLESS: Denial = denied(
    StatusCode::FORBIDDEN,
    "this server does not go by that name: use its address, or start it with --allow-host NAME",
);
const MISSING: Denial =
    denied(StatusCode::UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN");
const WRONG: Denial = denied(StatusCode::UNAUTHORIZED, "that is not the token");
const TOKENLESS: Denial = denied(
    StatusCode::FORBIDDEN,
    "this server was started without a token, so that nobody can break a lock through it: start it \
     with --token-file or TAKETURNS_SERVE_TOKEN",
);

impl Access {
    /// Can a lock be broken through this server at all?
    pub(super) fn can_break(&self) -> bool {
        self.token.is_some() && !self.is_read_only
    }

    /// Every request.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> Result<(), Denial> {
        // A proxy may have checked one of them, and this server would read the other.
        let is_double = |name| headers.get_all(name).iter().nth(1).is_some();
        if [HOST, ORIGIN, AUTHORIZATION, SEC_FETCH_SITE].into_iter().any(is_double) {
            return Err(DOUBLED);
        }
        let host = text(headers, &HOST).unwrap_or_default();
        // Beyond loopback the token protects the server, under any host name.
        if !self.is_open && !self.goes_by(host) {
            return Err(HOSTLESS);
        }
        let origin = text(headers, &ORIGIN).and_then(authority);
        if headers.contains_key(ORIGIN) && !origin.is_some_and(|origin| self.is_own(origin, host)) {
            return Err(FOREIGN);
        }
        // A link from elsewhere may lead here: the page alone says nothing, and asks by itself.
        Ok(())
    }

    /// Those that tell something.
    pub(crate) fn may_look(&self, headers: &HeaderMap) -> Result<(), Denial> {
        if text(headers, &SEC_FETCH_SITE)
            .is_some_and(|site| site != "same-origin" && site != "none")
        {
            return Err(FOREIGN);
        }
        if self.is_closed { self.has_token(headers) } else { Ok(()) }
    }

    /// Those that change something.
    pub(crate) fn may_break(&self, headers: &HeaderMap) -> Result<(), Denial> {
        self.may_look(headers)?;
        if self.is_read_only {
            return Err(READ_ONLY);
        }
        self.has_token(headers)
    }

    fn has_token(&self, headers: &HeaderMap) -> Result<(), Denial> {
        let token = self.token.as_deref().ok_or(TOKENLESS)?;
        let shown = text(headers, &AUTHORIZATION).ok_or(MISSING)?;
        let shown =
            shown.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let (_, shown) = shown.ok_or(MISSING)?;
        if is_same(shown.trim(), token) { Ok(()) } else { Err(WRONG) }
    }

    fn goes_by(&self, host: &str) -> bool {
        let name = name_of(host);
        let address: Option<IpAddr> = name.trim_matches(['[', ']']).parse().ok();
        name.eq_ignore_ascii_case("localhost")
            || address.is_some_and(|address| address.to_canonical().is_loopback())
            || self.is_allowed(name)
    }

    /// Is a page from there ours? A proxy may tell us another name than the browser knows us by.
    fn is_own(&self, origin: &str, host: &str) -> bool {
        origin == host || self.is_allowed(name_of(origin))
    }

    fn is_allowed(&self, name: &str) -> bool {
        self.hosts.iter().any(|known| name_of(known).eq_ignore_ascii_case(name))
    }
}

/// Without the port.
fn name_of(host: &str) -> &str {
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
    name.map_or(host, |(name, _)| name)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// `http://localhost:7411` is of `localhost:7411`. One that is `null` is of nobody.
fn authority(origin: &str) -> Option<&str> {
    let (scheme, rest) = origin.split_once("://")?;
    let is_url = origin.parse::<Uri>().is_ok() && ["http", "https"].contains(&scheme);
    is_url.then_some(rest)
}

/// In a time that does not tell where they differ.
fn is_same(shown: &str, token: &str) -> bool {
    let (shown, token) = (shown.as_bytes(), token.as_bytes());
    let differences = shown.iter().zip(token).fold(0, |sum, (a, b)| sum | (a ^ b));
    shown.len() == token.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    fn at_home(token: Option<&str>) -> Access {
        Access {
            token: token.map(str::to_owned),
            is_open: false,
            is_closed: false,
            hosts: vec!["locks.example".to_owned()],
            is_read_only: false,
        }
    }

    #[test]
    fn a_header_that_is_there_twice_is_refused() {
        let access = Access { is_open: true, is_closed: true, ..at_home(Some(TOKEN)) };
        for name in ["host", "origin", "authorization", "sec-fetch-site"] {
            let mut twice = headers(&[("host", "localhost")]);
            twice.append(HeaderName::from_static(name), "localhost".parse().unwrap());
            if name != "host" {
                assert_ne!(access.admits(&twice), Err(DOUBLED), "{name}");
                twice.append(HeaderName::from_static(name), "localhost".parse().unwrap());
            }
            assert_eq!(access.admits(&twice), Err(DOUBLED), "{name}");
        }
    }

    #[test]
    fn a_server_that_only_shows_breaks_nothing_with_the_token_either() {
        let access = Access { is_read_only: true, ..at_home(Some(TOKEN)) };
        let token = headers(&[("authorization", "Bearer 0123456789abcdef")]);
        assert_eq!(access.may_look(&token), Ok(()));
        assert_eq!(access.may_break(&token), Err(READ_ONLY));
        assert!(!access.can_break() && at_home(Some(TOKEN)).can_break());
    }

    #[test]
    fn on_loopback_it_answers_to_its_own_names_only() {
        let access = at_home(None);
        for host in [
            "localhost",
            "LOCALHOST:7411",
            "127.0.0.1:1",
            "127.0.0.2:1",
            "[::1]:7411",
            "LOCKS.example:80",
        ] {
            assert_eq!(access.admits(&headers(&[("host", host)])), Ok(()), "{host}");
        }
        for host in
            ["evil.example", "evil.example:7411", "127.0.0.1.evil.example", "", "localhost:x"]
        {
            assert_eq!(access.admits(&headers(&[("host", host)])), Err(HOSTLESS), "{host}");
        }
        assert_eq!(access.admits(&HeaderMap::new()), Err(HOSTLESS));
    }

    #[test]
    fn what_another_sites_page_sends_is_refused() {
        let access = at_home(Some(TOKEN));
        let from = |origin| headers(&[("host", "localhost:7411"), ("origin", origin)]);
        assert_eq!(access.admits(&from("http://localhost:7411")), Ok(()));
        assert_eq!(access.admits(&from("https://locks.example")), Ok(()), "a proxy's name");
        for origin in
            ["http://evil.example", "http://localhost:7412", "null", "", "file://localhost:7411"]
        {
            assert_eq!(access.admits(&from(origin)), Err(FOREIGN), "{origin}");
        }
        for (site, allowed) in
            [("same-origin", true), ("none", true), ("cross-site", false), ("same-site", false)]
        {
            let looked = access.may_look(&headers(&[("sec-fetch-site", site)]));
            assert_eq!(looked.is_ok(), allowed, "{site}");
        }
    }

    #[test]
    fn on_loopback_looking_is_free_and_breaking_needs_the_token() {
        let none = HeaderMap::new();
        let with = |value: &str| headers(&[("authorization", value)]);
        let access = at_home(Some(TOKEN));
        assert_eq!(access.may_look(&none), Ok(()));
        assert_eq!(access.may_break(&none), Err(MISSING));
        assert_eq!(access.may_break(&with("Basic 0123456789abcdef")), Err(MISSING));
        assert_eq!(access.may_break(&with("Bearer 0123456789abcdeF")), Err(WRONG));
        assert_eq!(access.may_break(&with("Bearer 0123456789abcde")), Err(WRONG));
        assert_eq!(access.may_break(&with("bearer 0123456789abcdef")), Ok(()));
        assert_eq!(at_home(None).may_break(&with("Bearer x")), Err(TOKENLESS));
    }

    #[test]
    fn beyond_loopback_nothing_is_told_without_the_token() {
        let access = Access { is_open: true, is_closed: true, ..at_home(Some(TOKEN)) };
        assert_eq!(access.admits(&headers(&[("host", "any.example")])), Ok(()));
        assert_eq!(access.may_look(&HeaderMap::new()), Err(MISSING));
        let token = headers(&[("authorization", "Bearer 0123456789abcdef")]);
        assert_eq!(access.may_look(&token), Ok(()));
    }
}
