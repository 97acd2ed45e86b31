//! `taketurns serve`: a page that shows the locks of a store as they change, and what programs and
//! Prometheus read.
//!
//! ```text
//!   poller ── lists the store at an interval ──► watch (what was learnt)
//!                                                  │
//!   address ─► connections ─► access ─► api, events ─┴──► page, programs, Prometheus
//!   (where)    (limits, TLS)  (who)      └─► audit
//! ```

mod access;
mod address;
mod answer;
mod api;
mod audit;
mod certificate;
mod connections;
mod events;
mod exposition;
mod poller;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use taketurns::Locks;
use tokio::sync::{Mutex, Semaphore};

use crate::exit::{self, ExitFailure};
use access::Access;
use address::BoundSocket;
pub(crate) use address::ListenAddress;
use answer::ErrorResponse;
use audit::AuditLog;
use certificate::Certificate;
pub(crate) use certificate::CertificateFiles;
use events::SharedPictures;
use poller::StorePoller;

/// The largest document that somebody sends: the longest name, and a reason.
const BODY_MAX: usize = 16 * 1024;

/// Everything comes from here, and nothing is sent elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The options of the server.
pub(crate) struct Settings {
    pub(crate) listen: ListenAddress,
    /// For TLS.
    pub(crate) certificate: Option<CertificateFiles>,
    pub(crate) token: Option<String>,
    /// Nothing is shown without the token, on loopback either.
    pub(crate) is_closed: bool,
    /// No lock is broken.
    pub(crate) is_read_only: bool,
    /// The file of the audit log.
    pub(crate) audit: Option<PathBuf>,
    pub(crate) hosts: Vec<String>,
    pub(crate) pattern: String,
    pub(crate) every: Duration,
    /// The store, without what is secret.
    pub(crate) store: String,
}

/// The state that all requests share.
pub(crate) struct Dashboard {
    access: Access,
    poller: StorePoller,
    store: String,
    breaks: AtomicU64,
    audit: Option<AuditLog>,
    /// A place for each viewer.
    streams: Arc<Semaphore>,
    pictures: Mutex<SharedPictures>,
}

impl Settings {
    /// What would be too dangerous to serve.
    fn check(&self) -> Result<(), ExitFailure> {
        let is_short = |token: &String| token.len() < access::TOKEN_MIN;
        if self.token.as_ref().is_some_and(is_short) {
            return Err(ExitFailure::usage(format_args!(
                "the token has fewer than {} characters: `openssl rand -hex 16` makes a good one",
                access::TOKEN_MIN
            )));
        }
        let is_text = |token: &String| token.bytes().all(|byte| byte.is_ascii_graphic());
        if !self.token.as_ref().is_none_or(is_text) {
            return Err(ExitFailure::usage("the token has characters that no header can carry"));
        }
        if self.is_closed() && self.token.is_none() {
            return Err(ExitFailure::usage(
                "--closed and --allow-host: nobody could look; give a token with --token-file or \
                 TAKETURNS_SERVE_TOKEN",
            ));
        }
        if self.listen.is_open() && self.token.is_none() {
            return Err(ExitFailure::usage(format_args!(
                "--listen {}: others than this machine could look; give a token with --token-file or \
                 TAKETURNS_SERVE_TOKEN",
                self.listen
            )));
        }
        Ok(())
    }

    /// Also where a proxy leads others here.
    fn is_closed(&self) -> bool {
        self.is_closed || !self.hosts.is_empty()
    }
}

/// A server whose socket is bound.
pub(crate) struct BoundServer {
    socket: BoundSocket,
    certificate: Option<Certificate>,
    server: Arc<Dashboard>,
}

impl BoundServer {
    /// Begins to listen.
    pub(crate) async fn start(locks: Locks, settings: Settings) -> Result<Self, ExitFailure> {
        settings.check()?;
        let (is_open, is_closed) = (settings.listen.is_open(), settings.is_closed());
        let Settings { listen, certificate, token, hosts, is_read_only, audit, .. } = settings;
        let Settings { pattern, every, store, .. } = settings;
        let certificate = certificate.map(Certificate::read).transpose();
        let certificate =
            certificate.map_err(|error| ExitFailure::usage(format_args!("TLS: {error}")))?;
        let audit = audit.map(|path| {
            let shown = path.display().to_string();
            AuditLog::new(path).map_err(|error| {
                let why = format_args!("--audit-log {shown}: can't write it: {error}").to_string();
                ExitFailure::new(exit::UNAVAILABLE, why)
            })
        });
        let audit = audit.transpose()?;
        let socket = BoundSocket::bind(&listen).await.map_err(|error| {
            ExitFailure::new(
                exit::UNAVAILABLE,
                format_args!("{listen} can't be listened on: {error}"),
            )
        })?;
        let server = Dashboard {
            access: Access { token, is_open, is_closed: is_closed || is_open, hosts, is_read_only },
            poller: StorePoller::new(locks, pattern, every),
            store,
            breaks: AtomicU64::new(0),
            audit,
            streams: Arc::new(Semaphore::new(events::STREAMS_MAX)),
            pictures: Mutex::default(),
        };
        Ok(Self { socket, certificate, server: Arc::new(server) })
    }

    /// Returns where the page is.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        match self.socket.address() {
            Ok(ListenAddress::Tcp(address)) => format!("{scheme}://{address}/"),
            Ok(unix) => unix.to_string(),
            Err(_) => String::new(),
        }
    }

    /// Returns whether a lock can be broken through it.
    pub(crate) fn can_break(&self) -> bool {
        self.server.access.can_break()
    }

    /// Answers for ever.
    pub(crate) async fn run(self) {
        let looking = self.server.clone();
        tokio::select! {
            () = async { looking.poller.run().await } => {}
            never = connections::serve(self.socket, self.certificate, router(self.server)) => match never {},
        }
    }
}

fn router(server: Arc<Dashboard>) -> Router {
    let looks: api::AccessCheck = (server.clone(), Access::may_look);
    let breaks: api::AccessCheck = (server.clone(), Access::may_break);
    let looking = Router::new()
        .route("/api/status", get(api::status))
        .route("/api/locks", get(api::locks))
        .route("/api/lock", get(api::lock))
        .route("/api/turns", get(api::turns))
        .route("/api/waits", get(api::waits))
        .route("/api/events", get(events::events))
        .route("/metrics", get(api::metrics))
        .route_layer(middleware::from_fn_with_state(looks, api::checked));
    let breaking = Router::new()
        .route("/api/break", post(api::break_lock))
        .route_layer(middleware::from_fn_with_state(breaks, api::checked));
    looking
        .merge(breaking)
        .route("/healthz", get(api::health))
        .route("/", get(|| file(HTML, include_str!("page/index.html"))))
        .route("/page.css", get(|| file(CSS, include_str!("page/page.css"))))
        .route("/page.js", get(|| file(JS, include_str!("page/page.js"))))
        .route("/icon.svg", get(|| file(SVG, include_str!("page/icon.svg"))))
        .route("/openapi.json", get(|| file(JSON, include_str!("page/openapi.json"))))
        .fallback(api::nothing)
        .method_not_allowed_fallback(api::not_so)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn(connections::in_time))
        .layer(middleware::from_fn_with_state(server.clone(), guard))
        .with_state(server)
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const JSON: &str = "application/json";

async fn file(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}

/// Every request, and every answer.
async fn guard(
    State(server): State<Arc<Dashboard>>,
    headers: HeaderMap,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match server.access.admits(&headers) {
        Ok(()) => next.run(request).await,
        Err(denied) => ErrorResponse::from(denied).into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(listen: &str, token: Option<&str>) -> Settings {
        Settings {
            listen: listen.parse().unwrap(),
            certificate: None,
            token: token.map(str::to_owned),
            is_closed: false,
            is_read_only: false,
            audit: None,
            hosts: vec![],
            pattern: "*".to_owned(),
            every: Duration::from_secs(1),
            store: String::new(),
        }
    }

    #[test]
    fn beyond_loopback_it_needs_a_token_that_nobody_guesses() {
        let long = Some("0123456789abcdef");
        for listen in ["127.0.0.1:0", "127.9.9.9:80", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            assert!(settings(listen, None).check().is_ok(), "{listen}");
        }
        for listen in ["0.0.0.0:0", "[::]:0", "10.0.0.1:80", "[::ffff:10.0.0.1]:0"] {
            let refused = settings(listen, None).check().unwrap_err();
            assert!(refused.to_string().contains("--token-file"), "{refused}");
            assert!(settings(listen, long).check().is_ok(), "{listen}");
        }
        let closed = |token| Settings { is_closed: true, ..settings("127.0.0.1:0", token) };
        assert!(closed(None).check().is_err() && closed(long).check().is_ok());
        let hosts = vec!["locks.example".to_owned()];
        let proxied = Settings { hosts, ..settings("127.0.0.1:0", None) };
        assert!(proxied.check().is_err(), "everybody who reaches the proxy could look");
        assert!(settings("127.0.0.1:0", Some("short")).check().is_err());
        assert!(settings("127.0.0.1:0", Some("0123456789abcde\n")).check().is_err());
    }
}
