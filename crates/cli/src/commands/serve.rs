//! `taketurns serve`: the dashboard, the HTTP API and the metrics of a store.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{self, ExitFailure};
use crate::output;
use crate::serve::{BoundServer, CertificateFiles, ListenAddress, Settings};
use crate::store;
use crate::watch::again;

/// The default address.
const LISTEN: &str = "127.0.0.1:7411";
/// The variable with the token, if no file is given.
const TOKEN: &str = "TAKETURNS_SERVE_TOKEN";

/// Serve a live dashboard, an HTTP API and Prometheus metrics
///
/// The dashboard is at http://127.0.0.1:7411/, reachable from this machine only. Prometheus scrapes
/// /metrics; health checks use /healthz; /openapi.json describes the API.
///
/// Breaking a lock on the dashboard needs a token. Put one into a file and name it with --token-file, or
/// into TAKETURNS_SERVE_TOKEN. Listening on an address that other machines can reach also needs a token;
/// then every request needs it. Without --tls-cert, everybody on the network path sees it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address and port to listen on, or unix:PATH for a Unix socket; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = LISTEN)]
    listen: ListenAddress,

    /// File with the certificate chain for TLS, in PEM form; read again when it changes
    #[arg(long, value_name = "PATH", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// File with the certificate's private key, in PEM form
    #[arg(long, value_name = "PATH", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// File with the token; only you should be able to read it
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,

    /// Require the token for every request, even from this machine
    #[arg(long)]
    closed: bool,

    /// Break no lock, not even for a request with the token
    #[arg(long)]
    read_only: bool,

    /// File to which each break is appended: who asked for it, why, and what became of it
    #[arg(long, value_name = "PATH")]
    audit_log: Option<PathBuf>,

    /// Host name under which a proxy on this machine offers the dashboard; implies --closed. Can be repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,

    /// Poll interval in seconds; a store with very many locks is polled less often, so that polling takes
    /// at most a tenth of the time
    #[arg(long, value_name = "SECS", default_value = "0.5", value_parser = again::every)]
    every: Duration,

    /// Only locks whose name matches: * matches any characters, ? matches one
    #[arg(default_value = "*")]
    pattern: String,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    let (token, is_read_only) = (token(&args)?, args.read_only);
    let locks = store::open(store).await?;
    let settings = Settings {
        listen: args.listen,
        certificate: args
            .tls_cert
            .zip(args.tls_key)
            .map(|(cert, key)| CertificateFiles { cert, key }),
        token,
        is_closed: args.closed,
        is_read_only: args.read_only,
        audit: args.audit_log,
        hosts: args.allow_host,
        pattern: args.pattern,
        every: args.every,
        store: store::public(store),
    };
    let listening = BoundServer::start(locks.clone(), settings).await?;
    let ended = ended()?;
    let about = match listening.can_break() {
        true => "",
        false if is_read_only => " (read-only)",
        false => " (read-only: breaking a lock needs --token-file or TAKETURNS_SERVE_TOKEN)",
    };
    output::text(format_args!("{}{about}", listening.url()))?;
    tokio::select! {
        () = listening.run() => {}
        () = ended => {}
    }
    store::close(locks).await;
    Ok(0)
}

/// Waits for SIGINT or SIGTERM. The handlers are installed when this returns.
fn ended() -> Result<impl Future<Output = ()>, ExitFailure> {
    let listen = |kind| {
        signal(kind).map_err(|error| {
            ExitFailure::new(
                exit::UNAVAILABLE,
                format_args!("can't install signal handlers: {error}"),
            )
        })
    };
    let (mut interrupt, mut terminate) =
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Reads the token from the file or the environment. Every user of the machine could read it on the
/// command line.
fn token(args: &Args) -> Result<Option<String>, ExitFailure> {
    let Some(path) = &args.token_file else {
        let given = env::var_os(TOKEN).unwrap_or_default().into_string();
        let given = given.map_err(|_| ExitFailure::usage(format_args!("{TOKEN} is not UTF-8")))?;
        return Ok(Some(given).filter(|token| !token.is_empty()));
    };
    let path_shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        ExitFailure::usage(format_args!("--token-file {path_shown}: can't read it: {error}"))
    })?;
    let token = text.trim();
    if token.is_empty() {
        return Err(ExitFailure::usage(format_args!(
            "--token-file {path_shown}: the file is empty"
        )));
    }
    Ok(Some(token.to_owned()))
}
