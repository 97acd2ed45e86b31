//! One node of a quorum: an engine that may not be there yet, and what is known of its clock.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use taketurns_core::session::{Anchor, Anchors};
use taketurns_core::{Name, Reply, Request};
use tokio::sync::mpsc;

use super::super::{Engine, EngineError, Stamp};
use crate::clock::local_us;
use crate::runtime::timeout;
use crate::sync::Mutex;
pub(crate) use crate::sync::lock;

/// One node.
pub(crate) struct QuorumNode {
    /// For people.
    pub(crate) address: String,
    engine: OnceLock<Box<dyn Engine>>,
    anchors: Mutex<Anchors>,
    /// To which quorum it belongs was not written down there before this client came.
    pub(crate) is_new: AtomicBool,
    /// Why it is not there.
    trouble: Mutex<Option<String>>,
}

/// The answer of a node.
pub(crate) struct NodeAnswer {
    pub(crate) reply: Reply,
    /// `None` only for a release that told no time.
    pub(crate) anchor: Option<Anchor>,
    /// Its clock was set forward since it was last heard.
    pub(crate) clock_set: bool,
    pub(crate) more: bool,
}

impl NodeAnswer {
    /// The reply to all but a release, with the node's time.
    pub(crate) fn timed(self) -> Result<(Reply, Anchor), EngineError> {
        let no_time = || EngineError::Broken("the node answered without its time".into());
        Ok((self.reply, self.anchor.ok_or_else(no_time)?))
    }
}

/// Receives the next report; with a `grace`, only if it comes within it.
pub(crate) async fn next<T>(
    reports: &mut mpsc::UnboundedReceiver<T>,
    grace: Option<Duration>,
) -> Option<T> {
    match grace {
        Some(grace) => timeout(grace, reports.recv()).await.flatten(),
        None => reports.recv().await,
    }
}

impl QuorumNode {
    pub(crate) fn new(address: String) -> Self {
        Self {
            address,
            engine: OnceLock::new(),
            is_new: AtomicBool::new(false),
            anchors: Mutex::default(),
            trouble: Mutex::default(),
        }
    }

    pub(crate) fn engine(&self) -> Option<&dyn Engine> {
        self.engine.get().map(AsRef::as_ref)
    }

    /// It is there from now on.
    pub(crate) fn install(&self, engine: Box<dyn Engine>) {
        let _ = self.engine.set(engine);
    }

    /// It is not there, for this reason.
    pub(crate) fn is_missing(&self, why: &EngineError) {
        *lock(&self.trouble) = Some(why.to_string());
    }

    /// The engine, if it is there.
    pub(crate) fn reach(&self) -> Result<&dyn Engine, EngineError> {
        self.engine().ok_or_else(|| {
            let why = lock(&self.trouble).clone();
            let why = why.unwrap_or_else(|| format!("{} is not connected yet", self.address));
            EngineError::Unreachable(why)
        })
    }

    pub(crate) async fn call(
        &self,
        name: &Name,
        request: Request,
    ) -> Result<NodeAnswer, EngineError> {
        let asked_us = local_us();
        let answer = self.reach()?.call(name, request).await?;
        let observed = answer.stamp.map(|stamp| self.observe(asked_us, stamp)).unzip();
        let (anchor, clock_set) = (observed.0, observed.1 == Some(true));
        Ok(NodeAnswer { reply: answer.reply, anchor, clock_set, more: answer.more })
    }

    /// Takes an answer's time into account. True if the clock was set forward.
    pub(crate) fn observe(&self, asked_us: u64, stamp: Stamp) -> (Anchor, bool) {
        let sent_us = stamp.sent_us.unwrap_or(asked_us);
        let anchor = Anchor { sent_us, engine_ms: stamp.now_ms };
        let as_ever = lock(&self.anchors).observe(stamp.origin, anchor, local_us());
        (anchor, !as_ever)
    }

    /// What its clock shows at a local time, if it was ever heard.
    pub(crate) fn clock_ms(&self, at_us: u64) -> Option<u64> {
        lock(&self.anchors).latest(0).map(|anchor| anchor.engine_ms_at(at_us))
    }
}
