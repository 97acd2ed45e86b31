//! The client's end of the network: an engine whose every request is a message, and its answer another.
//!
//! ```text
//!   call ──► outbox ──► (the world: late, lost, twice, out of order) ──► node
//!   call ◄── answered ◄──────────────────────────────────────────────── reply
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use taketurns::engine::{
    Answer, AnswerFuture, Durability, Engine, EngineError, EngineEvent, EngineFuture, Guarantees,
    Open, Pattern, Request, Stamp, Wakes,
};
use taketurns::simulation::Machine;
use taketurns::{ClientId, Name, View};
use tokio::sync::oneshot;

use crate::machine::{Host, lock};

/// What is asked of a node.
#[derive(Clone, Debug)]
pub(crate) enum SimQuestion {
    Step(Name, Request),
    View(Name, usize),
    Ping,
}

/// What it says.
#[derive(Clone, Debug)]
pub(crate) enum SimAnswer {
    Step(Answer),
    View(Box<Option<View>>),
    Ping(Stamp),
}

/// A request on its way.
#[derive(Clone, Debug)]
pub(crate) struct SentRequest {
    pub(crate) call: u64,
    pub(crate) host: usize,
    pub(crate) node: usize,
    pub(crate) question: SimQuestion,
}

/// The requests that wait for an answer, and the clients that wake-ups go to.
pub(crate) struct SimNetwork {
    state: Mutex<State>,
    timeout: Duration,
    max_lease: Duration,
}

#[derive(Default)]
struct State {
    calls: u64,
    outbox: Vec<SentRequest>,
    open: BTreeMap<u64, oneshot::Sender<Result<SimAnswer, EngineError>>>,
    answered: BTreeSet<u64>,
    clients: BTreeMap<(usize, ClientId), (usize, Wakes)>,
}

impl SimNetwork {
    pub(crate) fn new(timeout: Duration, max_lease: Duration) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), timeout, max_lease })
    }

    pub(crate) fn outbox(&self) -> Vec<SentRequest> {
        std::mem::take(&mut lock(&self.state).outbox)
    }

    /// What is sent meanwhile is not.
    pub(crate) fn without_a_word(&self, act: impl FnOnce()) {
        let sent_before = self.outbox();
        act();
        lock(&self.state).outbox = sent_before;
    }

    /// Has the client heard the answer to it?
    pub(crate) fn is_answered(&self, call: u64) -> bool {
        lock(&self.state).answered.contains(&call)
    }

    pub(crate) fn answer(&self, call: u64, said: Result<SimAnswer, EngineError>) {
        let mut state = lock(&self.state);
        if let Some(open) = state.open.remove(&call) {
            state.answered.insert(call);
            drop(state);
            let _ = open.send(said);
        }
    }

    /// The machine of a client, as a node knows it.
    pub(crate) fn host_of(&self, node: usize, client: ClientId) -> Option<usize> {
        lock(&self.state).clients.get(&(node, client)).map(|(host, _)| *host)
    }

    pub(crate) fn push(&self, node: usize, client: ClientId, woken: EngineEvent) {
        let wakes = lock(&self.state).clients.get(&(node, client)).map(|(_, wakes)| wakes.clone());
        if let Some(wakes) = wakes {
            wakes.push(woken);
        }
    }

    /// A connection was made anew: wake-ups may have been lost with the old one.
    pub(crate) fn doubt(&self, host: usize, node: usize) {
        let clients: Vec<Wakes> = lock(&self.state)
            .clients
            .iter()
            .filter(|((at, _), (whose, _))| (*at, *whose) == (node, host))
            .map(|(_, (_, wakes))| wakes.clone())
            .collect();
        clients.into_iter().for_each(|wakes| wakes.push(EngineEvent::Recheck));
    }

    /// A machine is gone, and so are those who waited on it.
    pub(crate) fn forget(&self, host: usize) {
        lock(&self.state).clients.retain(|_, (whose, _)| *whose != host);
    }
}

/// The way from one machine to one node.
pub(crate) struct SimStore {
    pub(crate) net: Arc<SimNetwork>,
    pub(crate) host: usize,
    pub(crate) node: usize,
    pub(crate) machine: Weak<Host>,
}

impl Open for SimStore {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        // Handled by the machine, and not while it stands still.
        let (through, mut arriving) = wakes.intercept();
        let arrive = async move {
            while let Some(woken) = arriving.recv().await {
                wakes.push(woken);
            }
        };
        if let Some(machine) = self.machine.upgrade() {
            machine.spawn(Box::pin(arrive));
        }
        lock(&self.net.state).clients.insert((self.node, client), (self.host, through));
        Box::pin(async move { Ok(Box::new(SimEngine { store: *self, client }) as Box<dyn Engine>) })
    }
}

/// The same, in use by a client.
struct SimEngine {
    store: SimStore,
    client: ClientId,
}

impl Drop for SimEngine {
    fn drop(&mut self) {
        let SimStore { net, node, .. } = &self.store;
        let wakes = lock(&net.state).clients.remove(&(*node, self.client));
        drop(wakes);
    }
}

impl SimStore {
    /// Sent when it is first polled.
    fn ask(
        &self,
        question: SimQuestion,
    ) -> impl Future<Output = Result<SimAnswer, EngineError>> + use<> {
        let (net, host, node) = (self.net.clone(), self.host, self.node);
        async move {
            let (answer, answered) = oneshot::channel();
            let call = {
                let mut state = lock(&net.state);
                state.calls += 1;
                let call = state.calls;
                state.open.insert(call, answer);
                state.outbox.push(SentRequest { call, host, node, question });
                PendingCall { net: net.clone(), call }
            };
            let timeout = sleep(net.timeout);
            tokio::select! {
                biased;
                said = answered => said.unwrap_or_else(|_| Err(unknown())),
                () = timeout => { drop(call); Err(unknown()) }
            }
        }
    }
}

/// A call that nobody waits for any more is not open.
struct PendingCall {
    net: Arc<SimNetwork>,
    call: u64,
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        let open = lock(&self.net.state).open.remove(&self.call);
        drop(open);
    }
}

fn unknown() -> EngineError {
    EngineError::Unknown("there was no answer".to_owned())
}

fn sleep(for_: Duration) -> impl Future<Output = ()> {
    taketurns::simulation::sleep(for_)
}

fn mismatch() -> EngineError {
    EngineError::Broken("that was no answer to it".to_owned())
}

impl Engine for SimEngine {
    fn call(&self, lock: &Name, request: Request) -> AnswerFuture {
        let asked = self.store.ask(SimQuestion::Step(lock.clone(), request));
        AnswerFuture::later(async move {
            match asked.await? {
                SimAnswer::Step(answer) => Ok(answer),
                _ => Err(mismatch()),
            }
        })
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        Box::pin(async move {
            match self.store.ask(SimQuestion::Ping).await? {
                SimAnswer::Ping(stamp) => Ok(stamp),
                _ => Err(mismatch()),
            }
        })
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        Box::pin(async move {
            match self.store.ask(SimQuestion::View(lock.clone(), waiters_max)).await? {
                SimAnswer::View(view) => Ok(*view),
                _ => Err(mismatch()),
            }
        })
    }

    fn list<'a>(
        &'a self,
        _: &'a Pattern,
        _: Option<&'a Name>,
        _: usize,
        _: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>> {
        Box::pin(async { Err(EngineError::Unsupported("nobody looks here".to_owned())) })
    }

    fn max_lease(&self) -> Duration {
        self.store.net.max_lease
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees::full(Durability::AnyClient)
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            lock(&self.store.net.state).clients.remove(&(self.store.node, self.client));
        })
    }
}
