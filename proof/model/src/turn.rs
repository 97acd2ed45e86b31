//! What a client does.
//!
//! Every event ends in [`Turn::settle`], which looks at all seats together and decides: hold, confirm,
//! or yield.

use crate::{
    CLIENTS, Config, MAJORITY, NODES,
    broken::Broken,
    client::{Client, Phase, Seat, Vote},
    net::Body,
    variants::Variant,
    world::State,
};

/// A client at its turn to do something.
pub(crate) struct Turn<'a> {
    pub(crate) config: &'a Config,
    pub(crate) state: &'a mut State,
    pub(crate) k: usize,
}

impl Turn<'_> {
    fn me(&mut self) -> &mut Client {
        &mut self.state.clients[self.k]
    }

    fn seat(&mut self, n: usize) -> &mut Seat {
        &mut self.state.sites[n].seats[self.k]
    }

    fn send(&mut self, n: usize, body: Body) {
        self.state.sites[n].net.send(self.k, body);
    }

    fn acquire(&mut self, n: usize, yields: u8) {
        let Client { phase, ticket, .. } = *self.me();
        let hint = if ticket == 0 { self.config.hints[self.k] } else { 0 };
        let waits = phase != Phase::Held;
        self.send(n, Body::Acquire { hint, ticket, yields, waits });
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
        *self.me() = Client { phase: Phase::Over, token, ..Client::default() };
        for n in 0..NODES {
            *self.seat(n) = Seat::default();
            self.send(n, Body::Release { token });
        }
    }

    /// The timer: says again what may have been lost, and keeps leases and places alive.
    pub(crate) fn tick(&mut self) {
        let Client { phase, ticket, token, .. } = *self.me();
        let votes = self.votes(|_| true);
        for n in 0..NODES {
            let seat = *self.seat(n);
            self.seat(n).silent = !seat.heard;
            self.seat(n).heard = false;
            match (phase, seat.vote) {
                (Phase::Idle, _) => {}
                (Phase::Over, _) if seat.buried => {}
                (Phase::Over, _) => self.send(n, Body::Release { token }),
                (Phase::Ask, _) if self.answered(n) => {}
                (Phase::Ask, _) | (Phase::Wait | Phase::Held, None) => self.acquire(n, 0),
                (Phase::Wait | Phase::Held, Some(vote)) => {
                    let confirms = phase == Phase::Held || votes >= MAJORITY;
                    self.send(
                        n,
                        Body::Renew { g: vote.g, token: if confirms { token } else { 0 } },
                    );
                    let known = match self.config.variant {
                        Variant::GrantWithoutTicket => seat.ticket,
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
    pub(crate) fn receive(&mut self, n: usize, body: Body) {
        let phase = self.me().phase;
        self.seat(n).heard = true;
        self.seat(n).silent = false;
        match (phase, body) {
            (Phase::Idle | Phase::Over, _) => return,
            (_, Body::Granted { g, token, ticket, inquired, wake }) => {
                let ticket = if self.config.is(Variant::GrantWithoutTicket) { g } else { ticket };
                // In line only a renewal is an ack: a grant by hand-over has no more than a waiter lease.
                let acked = if wake || phase == Phase::Wait { 0 } else { token };
                self.granted(n, Vote { g, token, asked: 0, acked, inquired }, ticket);
            }
            (_, Body::Queued { ticket }) if self.seat(n).vote.is_none() => {
                self.seat(n).waits = true;
                self.placed(n, ticket);
            }
            (_, Body::Renewed { g, token, inquired }) => {
                self.me().told = self.me().told.max(token);
                let ticket = self.seat(n).ticket;
                self.granted(n, Vote { g, token, asked: 0, acked: token, inquired }, ticket);
            }
            (_, Body::Inquire { g }) => {
                if let Some(vote) = &mut self.seat(n).vote
                    && vote.g == g
                {
                    vote.inquired = true;
                }
            }
            (_, Body::NotHeld { g }) => {
                let seat = self.seat(n);
                seat.floor = seat.floor.max(g);
                if seat.vote.is_some_and(|vote| vote.g == g) {
                    seat.vote = None;
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
    fn granted(&mut self, n: usize, news: Vote, ticket: u8) {
        let waits = self.me().phase == Phase::Wait;
        let seat = self.seat(n);
        if news.g <= seat.floor {
            // The node may not have heard yet that this one was given back.
            if waits && seat.vote.is_none() && !self.config.is(Variant::YieldOnce) {
                self.acquire(n, news.g);
            }
            return;
        }
        match &mut seat.vote {
            Some(vote) if vote.g > news.g => return,
            Some(vote) if vote.g == news.g => {
                vote.token = vote.token.max(news.token);
                vote.acked = if news.acked == 0 { vote.acked } else { news.acked };
                vote.inquired = news.inquired;
            }
            _ => seat.vote = Some(news),
        }
        seat.waits = false;
        self.placed(n, ticket);
    }

    /// The node has the client at `ticket`; if that is another than its own, it is told.
    fn placed(&mut self, n: usize, ticket: u8) {
        let Client { phase, ticket: own, .. } = *self.me();
        let news = self.seat(n).ticket != ticket;
        self.seat(n).ticket = ticket;
        if phase == Phase::Wait && ticket != own && news {
            self.acquire(n, 0);
        }
    }

    fn answered(&mut self, n: usize) -> bool {
        let seat = self.seat(n);
        seat.vote.is_some() || seat.waits
    }

    fn votes(&self, which: impl Fn(&Vote) -> bool) -> usize {
        self.state
            .sites
            .iter()
            .filter(|site| site.seats[self.k].vote.as_ref().is_some_and(&which))
            .count()
    }

    /// How many nodes have acknowledged `token` by a lease that is not over.
    fn acks(&self, token: u8) -> usize {
        let counts = |n: &usize| self.state.leased(*n, self.k) && self.acked(*n) == token;
        (0..NODES).filter(counts).count()
    }

    fn acked(&self, n: usize) -> u8 {
        self.state.sites[n].seats[self.k].vote.map_or(0, |vote| vote.acked)
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
        let own = (0..NODES).map(|n| self.seat(n).ticket).max().unwrap_or(0);
        let me = self.me();
        me.phase = Phase::Wait;
        me.ticket = if me.ticket == 0 { own } else { me.ticket };
        let own = me.ticket;
        for n in 0..NODES {
            if let Some(vote) = &mut self.seat(n).vote {
                vote.acked = 0;
            }
            if self.answered(n) && self.seat(n).ticket != own {
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
            let seat = self.seat(n);
            let counts = !seat.silent;
            responsive += usize::from(
                seat.vote.is_some() && (counts || self.config.is(Variant::SilentVotesCount)),
            );
        }
        if responsive < MAJORITY && self.me().phase == Phase::Wait {
            self.yield_what_is_inquired();
        }
    }

    /// Asks all its votes for the largest token it knows of.
    fn confirm(&mut self) {
        let tokens = (0..NODES).filter_map(|n| self.seat(n).vote).map(|vote| vote.token).max();
        let Client { token, told, .. } = *self.me();
        let token = token.max(told).max(tokens.unwrap_or(0));
        self.me().token = token;
        let equal = self.votes(|vote| vote.token == token) >= MAJORITY;
        if self.config.is(Variant::NoWriteBack) || (self.config.is(Variant::NoConfirm) && equal) {
            return self.confirm_by_itself(token);
        }
        for n in 0..NODES {
            if let Some(vote) = &mut self.seat(n).vote
                && vote.asked != token
            {
                vote.asked = token;
                let g = vote.g;
                self.send(n, Body::Renew { g, token });
            }
        }
    }

    /// What broken variants do instead: nobody is asked.
    fn confirm_by_itself(&mut self, token: u8) {
        for n in 0..NODES {
            if let Some(vote) = &mut self.seat(n).vote {
                vote.acked = token;
            }
        }
        if self.acks(token) >= MAJORITY {
            self.hold(token);
        }
    }

    fn yield_what_is_inquired(&mut self) {
        for n in 0..NODES {
            let seat = self.seat(n);
            let Some(vote) = seat.vote.filter(|vote| vote.inquired) else { continue };
            seat.vote = None;
            seat.waits = true;
            if !self.config.is(Variant::NoFloor) {
                self.seat(n).floor = vote.g;
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
            self.state.broken.add(Broken::TOKENS);
        }
        self.state.top = self.state.top.max(token);
        for other in (0..CLIENTS).filter(|&other| self.state.clients[other].phase == Phase::Wait) {
            if self.state.sites.iter().filter(|site| site.is_before(other, k)).count() >= MAJORITY {
                self.state.broken.add(Broken::ORDER);
            }
        }
    }
}
