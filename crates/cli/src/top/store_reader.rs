//! Queries the store on a thread of its own, so that a slow answer never delays the handling of keys.

use std::thread;

use taketurns::{Error, Locks, Name, View};
use tokio::sync::mpsc;

use super::app::BreakOrder;
use crate::exit::{self, ExitFailure};

/// There is at most one look of each kind under way, and few breaks.
const REPORTS_MAX: usize = 16;

/// A query to the store.
#[derive(Debug)]
pub(crate) enum StoreQuery {
    /// All locks that match a pattern.
    List(String),
    /// One of them.
    Inspect(Name),
    /// Take it from its holders.
    Break(BreakOrder),
}

/// The answer to a [`StoreQuery`].
#[derive(Debug)]
pub(crate) enum StoreReply {
    Listed(Result<Vec<(Name, View)>, Error>),
    Inspected(Name, Result<Option<View>, Error>),
    Broken(BreakOrder, Result<u32, Error>),
}

/// The thread that queries the store.
pub(crate) struct StoreReader {
    wishes: mpsc::UnboundedSender<StoreQuery>,
    reports: mpsc::Receiver<StoreReply>,
}

impl StoreReader {
    pub(crate) fn start(locks: Locks) -> Result<Self, ExitFailure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            ExitFailure::new(
                exit::UNAVAILABLE,
                format_args!("no runtime could be started: {error}"),
            )
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

    pub(crate) fn ask(&self, wish: StoreQuery) {
        // It listens for as long as we are there.
        let _ = self.wishes.send(wish);
    }

    pub(crate) async fn report(&mut self) -> Option<StoreReply> {
        self.reports.recv().await
    }
}

async fn carry_out(locks: &Locks, wish: StoreQuery) -> StoreReply {
    match wish {
        StoreQuery::List(pattern) => StoreReply::Listed(locks.list(&pattern).await),
        StoreQuery::Inspect(name) => {
            let view = locks.inspect(name.as_str()).await;
            StoreReply::Inspected(name, view)
        }
        StoreQuery::Break(asked) => {
            let outcome = break_lock(locks, &asked).await;
            StoreReply::Broken(asked, outcome)
        }
    }
}

async fn break_lock(locks: &Locks, asked: &BreakOrder) -> Result<u32, Error> {
    let BreakOrder { name, tokens, at_once } = asked;
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
