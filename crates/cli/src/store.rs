//! Which store, and connecting to it.

use std::env;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpid};
use taketurns::{Connect, Locks};

use crate::exit::{self, ExitFailure};
use crate::status::LoadingLine;

/// How long the program waits at its end for releases that are under way. What is not done by then
/// ends with its lease.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// How to wait for a server that is loading its data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadingOptions {
    /// For how long; `None` for as long as it loads.
    pub(crate) within: Option<Duration>,
    /// Say so on stderr, even if that is no terminal.
    pub(crate) verbose: bool,
}

/// A connection to the store.
pub(crate) struct StoreConnection {
    pub(crate) locks: Locks,
    /// How long the program waited for a server that was loading its data. Connecting itself does not
    /// count: it takes no longer than it has to.
    pub(crate) waited: Duration,
}

/// Connects to the store that the user named, or to the file in the user's state directory.
pub(crate) async fn open(url: Option<&str>) -> Result<Locks, ExitFailure> {
    Ok(open_as(url, "taketurns", getpid(), LoadingOptions::default()).await?.locks)
}

/// The same, for what takes a lock: others see the program and the process, beside the host.
pub(crate) async fn open_as(
    url: Option<&str>,
    program: &str,
    pid: Pid,
    loading: LoadingOptions,
) -> Result<StoreConnection, ExitFailure> {
    let url = named(url)?;
    let since: Arc<OnceLock<Instant>> = Arc::default();
    let first = since.clone();
    // A wait without a limit must not be a silent one.
    let mut line = LoadingLine::new(loading.verbose || loading.within.is_none());
    let mut connect = Connect::new(&url).who(who(program, pid)).on_loading(move |why| {
        first.get_or_init(Instant::now);
        line.tell(why);
    });
    if let Some(within) = loading.within {
        connect = connect.within(within);
    }
    let locks = connect.open().await?;
    Ok(StoreConnection { locks, waited: since.get().map_or(Duration::ZERO, Instant::elapsed) })
}

/// The URL of the store that the user named, or of the file in the user's state directory.
pub(crate) fn named(url: Option<&str>) -> Result<String, ExitFailure> {
    let url = match url.filter(|url| !url.is_empty()) {
        Some(url) => url.to_owned(),
        None => default_url()?,
    };
    if url.starts_with("memory:") {
        return Err(ExitFailure::usage(
            "memory: is shared within one process only, so it can't keep commands apart; use \
             file:PATH",
        ));
    }
    Ok(url)
}

/// Ends the connection once what is under way is done.
pub(crate) async fn close(locks: Locks) {
    let _ = tokio::time::timeout(CLOSE_MAX, locks.close()).await;
}

/// The store as it may be shown to anybody: without user, password and options.
pub(crate) fn public(url: Option<&str>) -> String {
    let url = match url.filter(|url| !url.is_empty()) {
        Some(url) => url.to_owned(),
        None => default_url().unwrap_or_default(),
    };
    let (scheme, rest) = url.split_once(':').unwrap_or((&url, ""));
    if scheme == "quorum" {
        let nodes: Vec<String> = nodes(rest).map(|node| public(Some(node))).collect();
        return format!("quorum:{}", nodes.join(","));
    }
    let rest = if scheme == "file" { rest } else { rest.split(['?', '#']).next().unwrap_or("") };
    match rest.strip_prefix("//") {
        // All before the last @ may be a password, with an @ in it too.
        Some(place) => format!("{scheme}://{}", place.rsplit('@').next().unwrap_or("")),
        None => format!("{scheme}:{rest}"),
    }
}

/// The nodes of a quorum. A comma parts two of them where a scheme follows: a password may have one.
fn nodes(list: &str) -> impl Iterator<Item = &str> {
    let is_start = |at: &usize| {
        let after = list[at + 1..].trim_start();
        ["redis://", "rediss://", "memory:"].iter().any(|scheme| after.starts_with(scheme))
    };
    let commas = list.match_indices(',').map(|(at, _)| at).filter(is_start);
    let ends = commas.chain([list.len()]);
    ends.scan(0, |start, end| Some(list[std::mem::replace(start, end + 1)..end].trim()))
}

/// Makes the directory too, for the user's eyes only: who may write there may take any lock.
fn default_url() -> Result<String, ExitFailure> {
    let directory = state_directory()?.join("taketurns");
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(|error| {
        let directory = directory.display();
        let message = format!("{directory} can't be made: {error}; name a store with --store");
        ExitFailure::new(exit::UNAVAILABLE, message)
    })?;
    let file = directory.join("locks.db");
    let file = file.to_str().ok_or_else(|| {
        ExitFailure::usage("the state directory's path is not UTF-8; name a store with --store")
    })?;
    Ok(format!("file:{file}"))
}

fn state_directory() -> Result<PathBuf, ExitFailure> {
    // A relative path here is invalid and to be ignored, says the XDG specification.
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .ok_or_else(|| {
            ExitFailure::usage(
                "no store: neither HOME nor XDG_STATE_HOME is set to an absolute path; name one \
                 with --store file:PATH or TAKETURNS_STORE",
            )
        })
}

/// `host:pid program`, cut so that it leaves room in the label for a reason.
fn who(program: &str, pid: Pid) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let clean = |text: &str, max| -> String {
        text.chars().filter(|c| !c.is_control()).take(max).collect()
    };
    format!("{}:{} {}", clean(&host, 32), pid, clean(program, 16)).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_shown_without_what_is_secret() {
        let cases = [
            ("file:/var/lib/locks.db", "file:/var/lib/locks.db"),
            ("redis://h:1", "redis://h:1"),
            ("rediss://user:se@cret@h:1/2?password_file=/x", "rediss://h:1/2"),
            ("redis+sentinel://:secret@a,b,c/m", "redis+sentinel://a,b,c/m"),
            ("quorum:redis://:secret@a, redis://:secret@b?x=secret", "quorum:redis://a,redis://b"),
            ("quorum:redis://u:sec,ret@a,redis://b", "quorum:redis://a,redis://b"),
            ("redis://h?secret", "redis://h"),
        ];
        for (url, shown) in cases {
            assert_eq!(public(Some(url)), shown);
        }
    }

    #[test]
    fn who_is_short_and_clean_whatever_the_program_is_called() {
        let who = who(&"\x1büüüü".repeat(100), getpid());
        assert!(who.len() <= 128 && !who.contains('\x1b'), "{who}");
        assert!(who.contains(&format!(":{} ", std::process::id())), "{who}");
    }
}
