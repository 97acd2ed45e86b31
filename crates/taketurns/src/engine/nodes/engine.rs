//! The engine over nodes: everything but the protocol by which a majority decides.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use taketurns_core::{AcquireRequest, Ask, ClientId, Name, Owner, Pattern, View, limits};

use super::super::{
    Answer, AnswerFuture, Engine, EngineError, EngineFuture, Guarantees, Reply, Request, Stamp,
};
use super::{
    NodeConnections, NodeList, NodeListener, NodeSet, refuse_once, refuse_other_kinds,
    refuse_to_rest, stamp,
};

/// The protocol that decides who holds a lock on a majority of nodes.
pub(crate) trait MajorityProtocol: NodeListener {
    const GUARANTEES: Guarantees;

    fn acquire(
        self: &Arc<Self>,
        name: &Name,
        acquire: AcquireRequest,
    ) -> impl Future<Output = Result<Reply, EngineError>> + Send;

    fn renew(
        self: &Arc<Self>,
        name: &Name,
        owner: Owner,
        lease_ms: u64,
    ) -> impl Future<Output = Result<Reply, EngineError>> + Send;

    fn release(
        self: &Arc<Self>,
        name: &Name,
        owner: Owner,
    ) -> impl Future<Output = Result<Reply, EngineError>> + Send;

    fn refresh(self: &Arc<Self>, name: &Name, waiter_lease_ms: u64) -> Reply;
}

/// An engine over nodes, as one client sees it.
pub(crate) struct MajorityEngine<D> {
    driver: Arc<D>,
    links: NodeConnections,
}

impl<D: MajorityProtocol> MajorityEngine<D> {
    /// Connects to the nodes.
    pub(crate) async fn open(
        members: NodeList,
        client: ClientId,
        drive: impl FnOnce(Arc<NodeSet>) -> D,
    ) -> Result<Box<dyn Engine>, EngineError> {
        let (driver, links) = NodeConnections::open(members, client, drive).await?;
        Ok(Box::new(Self { driver, links }))
    }

    /// What is seen of a lock. Where nobody queues on a node, who has some votes and no majority does not
    /// wait there: it is about to give them back.
    fn shown(mut view: View) -> View {
        if !D::GUARANTEES.fair {
            (view.waiting, view.waiters) = (0, Vec::new());
        }
        view
    }

    fn nodes(&self) -> &Arc<NodeSet> {
        self.driver.nodes()
    }

    async fn carry_out(
        driver: &Arc<D>,
        name: &Name,
        request: Request,
    ) -> Result<Reply, EngineError> {
        let nodes = driver.nodes();
        match request {
            Request::Acquire(acquire) => {
                refuse_other_kinds(&acquire.ask)?;
                refuse_to_rest(acquire.at_least_ms)?;
                driver.acquire(name, acquire).await
            }
            Request::Release { owner, .. } => driver.release(name, owner).await,
            Request::Renew { owner, lease_ms, .. } => {
                // The holder of a handle may renew from anywhere, even after the runtime that would answer has ended.
                let (driver, name) = (driver.clone(), name.clone());
                let renew = async move { driver.renew(&name, owner, lease_ms).await };
                let renewed = nodes.runtime.spawn(renew).await;
                renewed.unwrap_or_else(|| Err(EngineError::Unknown("it has ended".into())))
            }
            Request::Refresh { waiter_lease_ms, .. } => Ok(driver.refresh(name, waiter_lease_ms)),
            Request::Break { .. } => nodes.break_all(name, request).await,
            Request::ClientGone { .. } | Request::Tick => {
                nodes.broadcast(name, request).await.map(|_| Reply::Done)
            }
            Request::Resize { permits } => {
                refuse_other_kinds(&Ask::Permits { take: 1, of: permits }).map(|()| Reply::Done)
            }
            Request::PoolAdd { .. } | Request::PoolRemove { .. } => {
                refuse_other_kinds(&Ask::Any).map(|()| Reply::Done)
            }
            Request::Finish { .. } | Request::Undo => Err(refuse_once()),
        }
    }
}

impl<D: MajorityProtocol> Engine for MajorityEngine<D> {
    fn call(&self, lock: &Name, request: Request) -> AnswerFuture {
        let (driver, lock) = (self.driver.clone(), lock.clone());
        AnswerFuture::later(async move {
            let reply = Self::carry_out(&driver, &lock, request).await?;
            Ok(Answer { reply, stamp: Some(stamp()), more: false })
        })
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        Box::pin(self.nodes().ping())
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        Box::pin(async move {
            let view = self.nodes().view(lock, waiters_max).await?;
            Ok(view.map(Self::shown))
        })
    }

    fn list<'a>(
        &'a self,
        pattern: &'a Pattern,
        after: Option<&'a Name>,
        max: usize,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>> {
        Box::pin(async move {
            let views = self.nodes().list(pattern, after, max, waiters_max).await?;
            Ok(views.into_iter().map(|(name, view)| (name, Self::shown(view))).collect())
        })
    }

    fn max_lease(&self) -> Duration {
        self.links.max_lease
    }

    /// A waiter's vote is kept for a waiter lease. A restarted node is in quarantine for at most the longest lease, so
    /// everything it forgot must be over by then.
    fn max_waiter_lease(&self) -> Duration {
        let max = Duration::from_millis(limits::WAITER_LEASE_MS_MAX);
        if D::GUARANTEES.fair { max.min(self.links.max_lease) } else { max }
    }

    fn guarantees(&self) -> Guarantees {
        D::GUARANTEES
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(self.links.close())
    }
}
