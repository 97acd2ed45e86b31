//! Asks the store, on a thread of its own: however long an answer takes to come or to be read, keys
//! are seen to.

use std::thread;

use taketurns::{Error, Locks, Name, View};
use tokio::sync::mpsc;

use super::app::Break;
use crate::exit::{self, Failure};

/// There is at most one look of each kind under way, and few breaks.
const REPORTS_MAX: usize = 16;

/// What to ask.
#[derive(Debug)]
pub(crate) enum Wish {
    /// All locks that match a pattern.
    List(String),
    /// One of them.
    Inspect(Name),
    /// Take it from its holders.
    Break(Break),
}

/// What the store said.
#[derive(Debug)]
pub(crate) enum Report {
    Listed(Result<Vec<(Name, View)>, Error>),
    Inspected(Name, Result<Option<View>, Error>),
    Broken(Break, Result<u32, Error>),
}

/// Whoever looks.
pub(crate) struct Looker {
    wishes: mpsc::UnboundedSender<Wish>,
    reports: mpsc::Receiver<Report>,
}

impl Looker {
    pub(crate) fn start(locks: Locks) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            Failure::new(exit::UNAVAILABLE, format_args!("no runtime could be started: {error}"))
        })?;
        let (wishes, mut wished) = mpsc::unbounded_channel();
        let (sender, reports) = mpsc::channel(REPORTS_MAX);
        thread::spawn(move || {
            runtime.block_on(async {
                while let Some(wish) = wished.recv().await {
                    let (locks, sender) = (locks.clone(), sender.clone());
                    tokio::spawn(async move { sender.send(carry_out(&locks, wish).await).await });
                }
            });
        });
        Ok(Self { wishes, reports })
    }

    pub(crate) fn ask(&self, wish: Wish) {
        // It listens for as long as we are there.
        let _ = self.wishes.send(wish);
    }

    pub(crate) async fn report(&mut self) -> Option<Report> {
        self.reports.recv().await
    }
}

async fn carry_out(locks: &Locks, wish: Wish) -> Report {
    match wish {
        Wish::List(pattern) => Report::Listed(locks.list(&pattern).await),
        Wish::Inspect(name) => {
            let view = locks.inspect(name.as_str()).await;
            Report::Inspected(name, view)
        }
        Wish::Break(asked) => {
            let outcome = break_lock(locks, &asked).await;
            Report::Broken(asked, outcome)
        }
    }
}

async fn break_lock(locks: &Locks, asked: &Break) -> Result<u32, Error> {
    let Break { name, tokens, at_once } = asked;
    let breaking = || {
        let breaking = locks.break_lock(name.as_str());
        if *at_once { breaking.at_once() } else { breaking }
    };
    if tokens.is_empty() {
        return breaking().await;
    }
    let mut broken = 0;
    for token in tokens {
        broken += breaking().token(*token).await?;
    }
    Ok(broken)
}
