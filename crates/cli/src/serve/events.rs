//! The picture as it changes: server-sent events, one after each look.
//!
//! Pictures are made one at a time, so that other requests are answered in between, and viewers who look at the same
//! share one.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::Dashboard;
use super::answer::{ErrorResponse, QueryParams};
use super::api::{FilteredLocks, LockQuery, Selection, WaitsJson};
use super::poller::StoreState;
use crate::watch::ObservedTurn;

/// How many viewers there are at a time. The other connections are for requests that end.
pub(super) const STREAMS_MAX: usize = 256;
/// How many pictures of one look are kept for others who want the same.
const SHARED_MAX: usize = 16;

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
    /// One of [`STREAMS_MAX`].
    _place: OwnedSemaphorePermit,
}

/// The pictures of the latest look that somebody has asked for, by what they show and since which look.
#[derive(Default)]
pub(super) struct SharedPictures {
    look: u64,
    made: HashMap<(Selection, Option<u64>), Event>,
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
    let place = server.streams.clone().try_acquire_owned().map_err(|_| {
        let why = format!("{STREAMS_MAX} others are watching already");
        ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, why)
    })?;
    let viewer =
        Viewer { server, selection, looks, told: None, left: which.pictures, _place: place };
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
        let mut pictures = self.server.pictures.lock().await;
        let known = self.server.poller.known();
        let event = pictures.picture(&self.server, &known, &self.selection, self.told)?;
        self.told = Some(known.watch.looks());
        Some(event)
    }
}

impl SharedPictures {
    fn picture(
        &mut self,
        server: &Dashboard,
        known: &StoreState,
        selection: &Selection,
        told: Option<u64>,
    ) -> Option<Event> {
        if self.look != known.watch.looks() {
            *self = Self { look: known.watch.looks(), made: HashMap::new() };
        }
        let wanted = (selection.clone(), told);
        if let Some(made) = self.made.get(&wanted) {
            return Some(made.clone());
        }
        let turns_max = if told.is_none() { TURNS_MAX } else { usize::MAX };
        let picture = Picture {
            locks: FilteredLocks::new(server, known, selection),
            turns: known.watch.turns(&selection.filter, told, turns_max),
            waits: WaitsJson::new(known),
        };
        let event = Event::default().event("picture").json_data(&picture).ok()?;
        if self.made.len() < SHARED_MAX {
            self.made.insert(wanted, event.clone());
        }
        Some(event)
    }
}
