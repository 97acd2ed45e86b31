//! What a client does.
//!
//! Every event ends in [`ClientStep::settle`], which looks at all views together and decides: hold, confirm,
//! or yield.

use crate::{
    CLIENTS, MAJORITY, ModelConfig, NODES,
    broken::BrokenPromises,
    client::{ModelClient, ModelVote, NodeView, Phase},
    net::MessageBody,
    state::ModelState,
    variants::Variant,
};

/// A client at its turn to do something.
pub(crate) struct ClientStep<'a> {
    pub(crate) config: &'a ModelConfig,
    pub(crate) state: &'a mut ModelState,
    pub(crate) k: usize,
}

impl ClientStep<'_> {
    fn me(&mut self) -> &mut ModelClient {
        &mut self.state.clients[self.k]
    }

    fn view(&mut self, n: usize) -> &mut NodeView {
        &mut self.state.sites[n].views[self.k]
    }

    fn send(&mut self, n: usize, body: MessageBody) {
        self.state.sites[n].net.send(self.k, body);
    }

    fn acquire(&mut self, n: usize, yields: u8) {
        let ModelClient { phase, ticket, .. } = *self.me();
        let hint = if ticket == 0 { self.config.hints[self.k] } else { 0 };
        let waits = phase != Phase::Held;
        self.send(n, MessageBody::Acquire { hint, ticket, yields, waits });
    }

    /// Begins: asks every node at once.
    pub(crate) fn start(&mut self) {
        self.me().phase = Phase::Ask;
        if self.config.is(Variant::ClientClockTickets) {
            self.me().ticket = self.config.hints[self.k];
        }
        for n in 0..NODES {
            self.acquire(n, 0);
        }
    }

    /// Stops, whether it holds or not: lets every node know.
    pub(crate) fn leave(&mut self) {
        let token = if self.me().phase == Phase::Held { self.me().token } else { 0 };
        *self.me() = ModelClient { phase: Phase::Over, token, ..ModelClient::default() };
        for n in 0..NODES {
            *self.view(n) = NodeView::default();
            self.send(n, MessageBody::Release { token });
        }
    }

    /// The timer: says again what may have been lost, and keeps leases and places alive.
    pub(crate) fn tick(&mut self) {
        let ModelClient { phase, ticket, token, .. } = *self.me();
        let votes = self.votes(|_| true);
        for n in 0..NODES {
            let view = *self.view(n);
            self.view(n).silent = !view.heard;
            self.view(n).heard = false;
            match (phase, view.vote) {
                (Phase::Idle, _) => {}
                (Phase::Over, _) if view.buried => {}
                (Phase::Over, _) => self.send(n, MessageBody::Release { token }),
                (Phase::Ask, _) if self.answered(n) => {}
                (Phase::Ask, _) | (Phase::Wait | Phase::Held, None) => self.acquire(n, 0),
                (Phase::Wait | Phase::Held, Some(vote)) => {
                    let confirms = phase == Phase::Held || votes >= MAJORITY;
                    self.send(
                        n,
                        MessageBody::Renew { g: vote.g, token: if confirms { token } else { 0 } },
                    );
                    let known = match self.config.variant {
                        Variant::GrantWithoutTicket => view.ticket,
                        _ => self.state.sites[n].node.ticket_of(self.k),
                    };
                    if phase == Phase::Wait && known != ticket {
                        self.acquire(n, 0);
                    }
                }
            }
        }
        self.settle();
    }

    /// A message from node `n`.
    pub(crate) fn receive(&mut self, n: usize, body: MessageBody) {
        let phase = self.me().phase;
        self.view(n).heard = true;
        self.view(n).silent = false;
        match (phase, body) {
            (Phase::Idle | Phase::Over, _) => return,
            (_, MessageBody::Granted { g, token, ticket, inquired, wake }) => {
                let ticket = if self.config.is(Variant::GrantWithoutTicket) { g } else { ticket };
                // In line only a renewal is an ack: a grant by hand-over has no more than a waiter lease.
                let acked = if wake || phase == Phase::Wait { 0 } else { token };
                self.granted(n, ModelVote { g, token, asked: 0, acked, inquired }, ticket);
            }
            (_, MessageBody::Queued { ticket }) if self.view(n).vote.is_none() => {
                self.view(n).waits = true;
                self.placed(n, ticket);
            }
            (_, MessageBody::Renewed { g, token, inquired }) => {
                self.me().told = self.me().told.max(token);
                let ticket = self.view(n).ticket;
                self.granted(n, ModelVote { g, token, asked: 0, acked: token, inquired }, ticket);
            }
            (_, MessageBody::Inquire { g }) => {
                if let Some(vote) = &mut self.view(n).vote
                    && vote.g == g
                {
                    vote.inquired = true;
                }
            }
            (_, MessageBody::NotHeld { g }) => {
                let view = self.view(n);
                view.floor = view.floor.max(g);
                if view.vote.is_some_and(|vote| vote.g == g) {
                    view.vote = None;
                    if phase == Phase::Wait {
                        self.acquire(n, 0);
                    }
                }
            }
            _ => {}
        }
        self.settle();
    }

    /// The node says that the client holds there.
    fn granted(&mut self, n: usize, news: ModelVote, ticket: u8) {
        let waits = self.me().phase == Phase::Wait;
        let view = self.view(n);
        if news.g <= view.floor {
            // The node may not have heard yet that this one was given back.
            if waits && view.vote.is_none() && !self.config.is(Variant::YieldOnce) {
                self.acquire(n, news.g);
            }
            return;
        }
        match &mut view.vote {
            Some(vote) if vote.g > news.g => return,
            Some(vote) if vote.g == news.g => {
                vote.token = vote.token.max(news.token);
                vote.acked = if news.acked == 0 { vote.acked } else { news.acked };
                vote.inquired = news.inquired;
            }
            _ => view.vote = Some(news),
        }
        view.waits = false;
        self.placed(n, ticket);
    }

    /// The node has the client at `ticket`; if that is another than its own, it is told.
    fn placed(&mut self, n: usize, ticket: u8) {
        let ModelClient { phase, ticket: own, .. } = *self.me();
        let news = self.view(n).ticket != ticket;
        self.view(n).ticket = ticket;
        if phase == Phase::Wait && ticket != own && news {
            self.acquire(n, 0);
        }
    }

    fn answered(&mut self, n: usize) -> bool {
        let view = self.view(n);
        view.vote.is_some() || view.waits
    }

    fn votes(&self, which: impl Fn(&ModelVote) -> bool) -> usize {
        self.state
            .sites
            .iter()
            .filter(|site| site.views[self.k].vote.as_ref().is_some_and(&which))
            .count()
    }

    /// How many nodes have acknowledged `token` by a lease that is not over.
    fn acks(&self, token: u8) -> usize {
        let counts = |n: &usize| self.state.leased(*n, self.k) && self.acked(*n) == token;
        (0..NODES).filter(counts).count()
    }

    fn acked(&self, n: usize) -> u8 {
        self.state.sites[n].views[self.k].vote.map_or(0, |vote| vote.acked)
    }

    fn settle(&mut self) {
        match self.me().phase {
            Phase::Ask => self.settle_ask(),
            Phase::Wait => self.settle_wait(),
            _ => {}
        }
    }

    /// With a majority of answers: holds if they are grants with one token, else gets its ticket.
    fn settle_ask(&mut self) {
        if (0..NODES).filter(|&n| self.answered(n)).count() < MAJORITY {
            return;
        }
        if let Some(token) =
            (0..NODES).map(|n| self.acked(n)).find(|&t| t != 0 && self.acks(t) >= MAJORITY)
        {
            return self.hold(token);
        }
        let own = (0..NODES).map(|n| self.view(n).ticket).max().unwrap_or(0);
        let me = self.me();
        me.phase = Phase::Wait;
        me.ticket = if me.ticket == 0 { own } else { me.ticket };
        let own = me.ticket;
        for n in 0..NODES {
            if let Some(vote) = &mut self.view(n).vote {
                vote.acked = 0;
            }
            if self.answered(n) && self.view(n).ticket != own {
                self.acquire(n, 0);
            }
        }
        self.settle_wait();
    }

    /// Holds, confirms or yields.
    fn settle_wait(&mut self) {
        let token = self.me().token;
        if token != 0 && self.acks(token) >= MAJORITY {
            return self.hold(token);
        }
        if self.votes(|_| true) >= MAJORITY {
            self.confirm();
        }
        let mut responsive = 0;
        for n in 0..NODES {
            let view = self.view(n);
            let counts = !view.silent;
            responsive += usize::from(
                view.vote.is_some() && (counts || self.config.is(Variant::SilentVotesCount)),
            );
        }
        if responsive < MAJORITY && self.me().phase == Phase::Wait {
            self.yield_what_is_inquired();
        }
    }

    /// Asks all its votes for the largest token it knows of.
    fn confirm(&mut self) {
        let tokens = (0..NODES).filter_map(|n| self.view(n).vote).map(|vote| vote.token).max();
        let ModelClient { token, told, .. } = *self.me();
        let token = token.max(told).max(tokens.unwrap_or(0));
        self.me().token = token;
        let equal = self.votes(|vote| vote.token == token) >= MAJORITY;
        if self.config.is(Variant::NoWriteBack) || (self.config.is(Variant::NoConfirm) && equal) {
            return self.confirm_by_itself(token);
        }
        for n in 0..NODES {
            if let Some(vote) = &mut self.view(n).vote
                && vote.asked != token
            {
                vote.asked = token;
                let g = vote.g;
                self.send(n, MessageBody::Renew { g, token });
            }
        }
    }

    /// What broken variants do instead: nobody is asked.
    fn confirm_by_itself(&mut self, token: u8) {
        for n in 0..NODES {
            if let Some(vote) = &mut self.view(n).vote {
                vote.acked = token;
            }
        }
        if self.acks(token) >= MAJORITY {
            self.hold(token);
        }
    }

    fn yield_what_is_inquired(&mut self) {
        for n in 0..NODES {
            let view = self.view(n);
            let Some(vote) = view.vote.filter(|vote| vote.inquired) else { continue };
            view.vote = None;
            view.waits = true;
            if !self.config.is(Variant::NoFloor) {
                self.view(n).floor = vote.g;
            }
            self.acquire(n, vote.g);
        }
    }

    /// Holds from now on; sees whether anybody was before it, by token or by ticket.
    fn hold(&mut self, token: u8) {
        let k = self.k;
        self.me().phase = Phase::Held;
        self.me().token = token;
        if token <= self.state.top {
            self.state.broken.add(BrokenPromises::TOKENS);
        }
        self.state.top = self.state.top.max(token);
        for other in (0..CLIENTS).filter(|&other| self.state.clients[other].phase == Phase::Wait) {
            if self.state.sites.iter().filter(|site| site.is_before(other, k)).count() >= MAJORITY {
                self.state.broken.add(BrokenPromises::ORDER);
            }
        }
    }
}
