//! The picture as it changes: server-sent events, one after each look.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use serde::Serialize;
use tokio::sync::watch;

use super::Dashboard;
use super::answer::{ErrorResponse, QueryParams};
use super::api::{FilteredLocks, LockQuery, Selection, WaitsJson};
use crate::watch::ObservedTurn;

/// How many turns are told of at first. From then on it is all that is new, or the page would not learn of
/// the end of some.
const TURNS_MAX: usize = 2_000;

/// What is on the page.
#[derive(Serialize)]
struct Picture<'a> {
    #[serde(flatten)]
    locks: FilteredLocks<'a>,
    /// The turns that changed since the last picture. The first picture has all known turns.
    turns: Vec<&'a ObservedTurn>,
    waits: WaitsJson<'a>,
}

/// One who watches.
struct Viewer {
    server: Arc<Dashboard>,
    selection: Selection,
    looks: watch::Receiver<u64>,
    /// Up to which look it has been told of turns.
    told: Option<u64>,
    /// How many pictures it still wants, if that is bounded.
    left: Option<u64>,
}

pub(super) async fn events(
    State(server): State<Arc<Dashboard>>,
    QueryParams(which): QueryParams<LockQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ErrorResponse> {
    let mut looks = server.poller.looks();
    if *looks.borrow() > 0 {
        // The first picture is there already.
        looks.mark_changed();
    }
    let selection = which.selection()?;
    if which.pictures == Some(0) {
        return Err(ErrorResponse::bad("pictures is 1 or more"));
    }
    let viewer = Viewer { server, selection, looks, told: None, left: which.pictures };
    let pictures = stream::unfold(viewer, |mut viewer| async {
        let picture = viewer.next().await?;
        Some((Ok(picture), viewer))
    });
    Ok(Sse::new(pictures).keep_alive(KeepAlive::default()))
}

impl Viewer {
    /// The next picture; `None` if it wants no more.
    async fn next(&mut self) -> Option<Event> {
        self.left = match self.left {
            Some(0) => return None,
            left => left.map(|left| left - 1),
        };
        self.looks.changed().await.ok()?;
        let known = self.server.poller.known();
        let turns_max = if self.told.is_none() { TURNS_MAX } else { usize::MAX };
        let picture = Picture {
            locks: FilteredLocks::new(&self.server, &known, &self.selection),
            turns: known.watch.turns(&self.selection.filter, self.told, turns_max),
            waits: WaitsJson::new(&known),
        };
        let event = Event::default().event("picture").json_data(&picture).ok()?;
        self.told = Some(known.watch.looks());
        Some(event)
    }
}
