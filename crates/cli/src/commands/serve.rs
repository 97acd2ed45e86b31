//! `taketurns serve`: the locks of a store in a browser, and for Prometheus.

use std::env;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{self, ExitFailure};
use crate::output;
use crate::serve::{BoundServer, Settings};
use crate::store;
use crate::watch::again;

/// Where it listens if nobody says where.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7411);
/// Where a token is looked for if there is no file.
const TOKEN: &str = "TAKETURNS_SERVE_TOKEN";

/// Show the locks of a store in a browser as they change, and to Prometheus
///
/// The page is at http://127.0.0.1:7411/, for this machine alone. /metrics is for Prometheus, /healthz for
/// those who keep it running, /openapi.json describes what programs can ask.
///
/// A lock can be broken on the page with the token, and not without: put one into a file and name that
/// with --token-file, or into TAKETURNS_SERVE_TOKEN. To listen beyond this machine it needs a token too,
/// and then nothing is shown without it. There is no TLS: put a proxy in front, or use ssh -L.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", default_value_t = LISTEN, value_parser = listen)]
    listen: SocketAddr,

    /// A file with the token in it, which only you can read
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,

    /// Show nothing without the token, to others on this machine either
    #[arg(long)]
    closed: bool,

    /// A name under which a proxy on this machine offers the page; then it is --closed. Can be given several
    /// times
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,

    /// How often to look, in seconds; a store with very many locks is looked at less often, so that at
    /// most a tenth of the time is spent on it
    #[arg(long, value_name = "SECS", default_value = "0.5", value_parser = again::every)]
    every: Duration,

    /// Only locks whose name matches: * stands for any characters, ? for one
    #[arg(default_value = "*")]
    pattern: String,
}

pub(crate) async fn run(store: Option<&str>, args: Args) -> Result<u8, ExitFailure> {
    let token = token(&args)?;
    let locks = store::open(store).await?;
    let settings = Settings {
        listen: args.listen,
        token,
        is_closed: args.closed,
        hosts: args.allow_host,
        pattern: args.pattern,
        every: args.every,
        store: store::public(store),
    };
    let listening = BoundServer::start(locks.clone(), settings).await?;
    let ended = ended()?;
    let about = match listening.can_break() {
        true => "",
        false => " (without a token, so that no lock can be broken on the page)",
    };
    output::text(format_args!("{}{about}", listening.url()))?;
    let served = tokio::select! {
        served = listening.run() => served,
        () = ended => Ok(()),
    };
    store::close(locks).await;
    served.map(|()| 0)
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let wanted = "it is not an IP address with a port, as 127.0.0.1:7411 or [::1]:7411";
    text.parse().map_err(|_| wanted.to_owned())
}

/// Until somebody wants it to end. Listens from now on.
fn ended() -> Result<impl Future<Output = ()>, ExitFailure> {
    let listen = |kind| {
        signal(kind).map_err(|error| {
            ExitFailure::new(exit::UNAVAILABLE, format_args!("signals can't be handled: {error}"))
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

/// From the file or the environment: on the command line everybody on the machine could read it.
fn token(args: &Args) -> Result<Option<String>, ExitFailure> {
    let Some(path) = &args.token_file else {
        let given = env::var_os(TOKEN).unwrap_or_default().into_string();
        let given = given.map_err(|_| ExitFailure::usage(format_args!("{TOKEN} is not UTF-8")))?;
        return Ok(Some(given).filter(|token| !token.is_empty()));
    };
    let path_shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        ExitFailure::usage(format_args!("--token-file {path_shown}: it can't be read: {error}"))
    })?;
    let token = text.trim();
    if token.is_empty() {
        return Err(ExitFailure::usage(format_args!("--token-file {path_shown}: it is empty")));
    }
    Ok(Some(token.to_owned()))
}
