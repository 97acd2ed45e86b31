//! The HTTP API, for programs and for the page. `openapi.json` describes it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::http::{StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use taketurns::{Name, Token};

use super::Dashboard;
use super::access::{Access, Denial};
use super::address::Peer;
use super::answer::{ErrorResponse, JsonBody, QueryParams, document};
use super::audit::BreakOrder;
use super::exposition::{self, ServerMetrics};
use super::poller::{StoreState, now_ms};
use crate::exit;
use crate::json;
use crate::output::whole_millis;
use crate::watch::order::{Filter, Sort};
use crate::watch::{BOUNDS_MS, ObservedTurn, Totals};

/// How many locks or turns are told of if nobody says how many.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1_000;
const FILTER_CHARS_MAX: usize = 512;
const WHY_CHARS_MAX: usize = 200;

/// The query of a listing: which locks, and how many of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LockQuery {
    #[serde(default)]
    filter: String,
    #[serde(default)]
    sort: Sort,
    limit: Option<usize>,
    /// After how many pictures `/api/events` ends; never if not said.
    pub(super) pictures: Option<u64>,
}

/// A query that was checked.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Selection {
    pub(super) filter: Filter,
    pub(super) sort: Sort,
    pub(super) limit: usize,
}

impl LockQuery {
    pub(super) fn selection(&self) -> Result<Selection, ErrorResponse> {
        let limit = self.limit.unwrap_or(LIMIT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(ErrorResponse::bad(format!("limit is between 1 and {LIMIT_MAX}")));
        }
        if self.filter.chars().count() > FILTER_CHARS_MAX {
            return Err(ErrorResponse::bad(format!(
                "filter has at most {FILTER_CHARS_MAX} characters"
            )));
        }
        Ok(Selection { filter: Filter::new(&self.filter), sort: self.sort, limit })
    }
}

/// The store at the last look.
#[derive(Serialize)]
pub(super) struct StoreStatus<'a> {
    /// Where it is, without what is secret.
    store: &'a str,
    version: &'static str,
    /// It answered the last look.
    up: bool,
    /// Why not.
    error: Option<&'a str>,
    /// What time it is here, in Unix milliseconds.
    now_ms: u64,
    /// When it was last seen; null before that.
    seen_ms: Option<u64>,
    /// How long the last look took.
    took_ms: u64,
    /// How often it is looked at.
    every_ms: u64,
    /// A lock can be broken through this server, with its token.
    can_break: bool,
    totals: Totals,
}

impl<'a> StoreStatus<'a> {
    pub(super) fn new(server: &'a Dashboard, known: &'a StoreState) -> Self {
        Self {
            store: &server.store,
            version: env!("CARGO_PKG_VERSION"),
            up: known.is_up(),
            error: known.trouble.as_deref(),
            now_ms: now_ms(),
            seen_ms: known.watch.seen_ms(),
            took_ms: whole_millis(known.took),
            every_ms: whole_millis(known.interval),
            can_break: server.access.can_break(),
            totals: known.watch.totals(),
        }
    }
}

/// Locks as of the last look.
#[derive(Serialize)]
pub(super) struct FilteredLocks<'a> {
    #[serde(flatten)]
    status: StoreStatus<'a>,
    /// How many match the filter.
    matching: usize,
    /// Each with its first waiter.
    locks: Vec<json::LockJson<'a>>,
}

impl<'a> FilteredLocks<'a> {
    pub(super) fn new(server: &'a Dashboard, known: &'a StoreState, selection: &Selection) -> Self {
        let Selection { filter, sort, limit } = selection;
        let (locks, matching) = known.watch.locks(filter, *sort, *limit);
        let lock = |(name, view)| json::LockJson::with_waiters(name, view, 1);
        Self {
            status: StoreStatus::new(server, known),
            matching,
            locks: locks.into_iter().map(lock).collect(),
        }
    }
}

/// Turns, the latest first.
#[derive(Serialize)]
struct TurnList<'a> {
    turns: Vec<&'a ObservedTurn>,
}

/// How long those waited who were granted a lock.
#[derive(Serialize)]
pub(super) struct WaitsJson<'a> {
    /// Upper bounds of all places but the last.
    bounds_ms: &'static [u64],
    counts: &'a [u64],
    sum_ms: u64,
}

impl<'a> WaitsJson<'a> {
    pub(super) fn new(known: &'a StoreState) -> Self {
        let waits = known.watch.waits();
        Self { bounds_ms: &BOUNDS_MS, counts: &waits.counts, sum_ms: waits.sum_ms }
    }
}

pub(super) async fn status(
    State(server): State<Arc<Dashboard>>,
) -> Result<Response, ErrorResponse> {
    document(&StoreStatus::new(&server, &server.poller.known()))
}

pub(super) async fn locks(
    State(server): State<Arc<Dashboard>>,
    QueryParams(which): QueryParams<LockQuery>,
) -> Result<Response, ErrorResponse> {
    document(&FilteredLocks::new(&server, &server.poller.known(), &which.selection()?))
}

pub(super) async fn turns(
    State(server): State<Arc<Dashboard>>,
    QueryParams(which): QueryParams<LockQuery>,
) -> Result<Response, ErrorResponse> {
    let Selection { filter, limit, .. } = which.selection()?;
    document(&TurnList { turns: server.poller.known().watch.turns(&filter, None, limit) })
}

pub(super) async fn waits(State(server): State<Arc<Dashboard>>) -> Result<Response, ErrorResponse> {
    document(&WaitsJson::new(&server.poller.known()))
}

/// The query for one lock.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NameQuery {
    name: String,
}

/// One lock as it is now, with everybody who waits for it.
pub(super) async fn lock(
    State(server): State<Arc<Dashboard>>,
    QueryParams(named): QueryParams<NameQuery>,
) -> Result<Response, ErrorResponse> {
    let name = server.named(&named.name)?;
    match server.poller.locks.inspect(name.as_str()).await? {
        Some(view) => document(&json::LockJson::new(&name, &view)),
        None => document(&json::LockJson::unused(&name)),
    }
}

impl Dashboard {
    /// A lock that this server shows.
    fn named(&self, name: &str) -> Result<Name, ErrorResponse> {
        let name = Name::new(name).map_err(ErrorResponse::bad)?;
        if self.poller.pattern.matches(name.as_str()) {
            return Ok(name);
        }
        let why = format!("this server shows {} and no other locks", self.poller.pattern.as_str());
        Err(ErrorResponse::new(StatusCode::NOT_FOUND, why))
    }
}

/// The request to break a lock.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BreakRequest {
    name: String,
    why: String,
    /// Pass it on at once.
    #[serde(default)]
    at_once: bool,
    /// Only the holder with this fencing token: a whole number, however it is written.
    token: Option<f64>,
}

pub(super) async fn break_lock(
    State(server): State<Arc<Dashboard>>,
    Extension(peer): Extension<Peer>,
    JsonBody(breaking): JsonBody<BreakRequest>,
) -> Result<Response, ErrorResponse> {
    let order = breaking.checked(&server, peer)?;
    if let Some(audit) = &server.audit {
        audit.asked(&order).map_err(|error| {
            let why = format!("nothing is broken, since the audit log can't be written: {error}");
            ErrorResponse::new(StatusCode::INTERNAL_SERVER_ERROR, why)
        })?;
    }
    // It runs to its end even if the client has disconnected, so the log says what was done.
    let carried_out = tokio::spawn(async move { server.carry_out(order).await });
    let failed = |error| ErrorResponse::new(StatusCode::INTERNAL_SERVER_ERROR, error);
    carried_out.await.map_err(failed)?
}

impl BreakRequest {
    fn checked(self, server: &Dashboard, peer: Peer) -> Result<BreakOrder, ErrorResponse> {
        let lock = server.named(&self.name)?;
        let why = self.why.trim();
        let is_text = !why.is_empty() && !why.contains(char::is_control);
        if !is_text || why.chars().count() > WHY_CHARS_MAX {
            return Err(ErrorResponse::bad(format!(
                "why says in 1 to {WHY_CHARS_MAX} characters, on one line, what the lock is broken for"
            )));
        }
        let token = self
            .token
            .map(|token| whole(token).ok_or_else(|| ErrorResponse::bad("that is not a token")));
        let token = token.transpose()?;
        Ok(BreakOrder { lock, why: why.to_owned(), at_once: self.at_once, token, peer })
    }
}

impl Dashboard {
    /// Breaks a lock, and records what became of it.
    async fn carry_out(&self, order: BreakOrder) -> Result<Response, ErrorResponse> {
        let BreakOrder { lock, why, at_once, token, peer } = &order;
        let mut request = self.poller.locks.break_lock(lock.as_str());
        if *at_once {
            request = request.at_once();
        }
        if let Some(token) = token {
            request = request.token(*token);
        }
        let outcome = request.await;
        let by = format_args!("(at once: {at_once}) by {}", peer.0);
        match &outcome {
            Ok(broken) => {
                self.breaks.fetch_add(u64::from(*broken > 0), Ordering::Relaxed);
                exit::say(format_args!("{lock} broken for {broken} {by}: {why}"));
            }
            Err(error) => exit::say(format_args!("{lock}: a break {by} failed: {error}: {why}")),
        }
        if let Some(Err(error)) = self.audit.as_ref().map(|audit| audit.ended(&order, &outcome)) {
            exit::say(format_args!("the audit log can't be written: {error}"));
        }
        document(&json::BreakJson { lock, broken: outcome?, at_once: *at_once })
    }
}

fn whole(token: f64) -> Option<Token> {
    const MAX: f64 = ((1_u64 << 53) - 1) as f64;
    ((1.0..=MAX).contains(&token) && token.fract() == 0.0).then(|| Token::from_raw(token as u64))
}

pub(super) async fn metrics(State(server): State<Arc<Dashboard>>) -> Response {
    let text = {
        let known = server.poller.known();
        let own = ServerMetrics {
            is_up: known.is_up(),
            took_s: known.took.as_secs_f64(),
            looks: *server.poller.looks().borrow(),
            breaks: server.breaks.load(Ordering::Relaxed),
        };
        exposition::text(&known.watch, &own)
    };
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// For those who keep it running: 200 if the store answers, 503 if it does not. Says no more, since
/// anybody may ask.
pub(super) async fn health(State(server): State<Arc<Dashboard>>) -> Response {
    let is_up = server.poller.known().is_up();
    let plain = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
    match is_up {
        true => (StatusCode::OK, plain, "ok\n").into_response(),
        false => {
            (StatusCode::SERVICE_UNAVAILABLE, plain, "the store does not answer\n").into_response()
        }
    }
}

pub(super) async fn nothing(uri: Uri) -> ErrorResponse {
    ErrorResponse::new(StatusCode::NOT_FOUND, format!("there is no {}", uri.path()))
}

pub(super) async fn not_so(uri: Uri) -> ErrorResponse {
    let why = format!("{} is not asked for in that way", uri.path());
    ErrorResponse::new(StatusCode::METHOD_NOT_ALLOWED, why)
}

/// A check of a request's headers, and the server that it protects.
pub(super) type AccessCheck = (Arc<Dashboard>, fn(&Access, &HeaderMap) -> Result<(), Denial>);

/// Lets a request through that shows it.
pub(super) async fn checked(
    State((server, check)): State<AccessCheck>,
    headers: HeaderMap,
    request: Request,
    next: Next,
) -> Result<Response, ErrorResponse> {
    check(&server.access, &headers)?;
    Ok(next.run(request).await)
}
