//! One node: who holds its vote, who waits, and which token it gave out last.

use crate::{
    CLIENTS, ModelConfig,
    net::{MessageBody, ModelNetwork},
    variants::Variant,
};

/// The holder of a node's vote.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VoteHolder {
    /// Which client.
    pub client: u8,
    /// The number of the grant.
    pub g: u8,
    /// The token it votes for.
    pub token: u8,
    /// The ticket it goes back into line with if it yields.
    pub ticket: u8,
}

/// A node. All that happens to it is one of these functions, each one atomic step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ModelNode {
    /// The last token given out or heard of.
    pub c: u8,
    /// The least ticket for a newcomer.
    pub next: u8,
    /// Who holds its vote.
    pub holder: Option<VoteHolder>,
    /// The ticket of each client that waits, or 0.
    pub places: [u8; CLIENTS],
    /// Clients that released, as bits: what arrives of them later is refused.
    pub buried: u8,
    /// Whether it restarted empty and grants nothing yet.
    pub quarantined: bool,
}

impl ModelNode {
    /// The ticket that it knows of a client, or 0.
    pub fn ticket_of(&self, client: usize) -> u8 {
        match self.holder {
            Some(holder) if usize::from(holder.client) == client => holder.ticket,
            _ => self.places[client],
        }
    }

    /// Carries out a client's request and sends what comes of it.
    pub(crate) fn receive(
        &mut self,
        config: &ModelConfig,
        net: &mut ModelNetwork,
        client: usize,
        body: MessageBody,
    ) {
        match body {
            MessageBody::Acquire { .. } if self.buried & (1 << client) != 0 => {}
            MessageBody::Acquire { hint, ticket, yields, waits } => {
                if self.holder.is_some_and(|holder| usize::from(holder.client) == client) {
                    self.acquire_as_holder(config, net, client, ticket, yields);
                } else if self.places[client] != 0 {
                    self.set_place(config, net, client, ticket);
                    self.queued(config, net, client, ticket);
                } else {
                    self.acquire_as_newcomer(config, net, client, (hint, ticket), waits);
                }
            }
            MessageBody::Renew { g, token } => self.renew(config, net, client, g, token),
            MessageBody::Release { token } => {
                self.c = self.c.max(token);
                self.remove(client);
                if !config.is(Variant::NoBurial) {
                    self.buried |= 1 << client;
                }
                self.hand_over(net, None);
            }
            _ => unreachable!("{body:?} does not go to a node"),
        }
    }

    fn acquire_as_holder(
        &mut self,
        config: &ModelConfig,
        net: &mut ModelNetwork,
        client: usize,
        ticket: u8,
        yields: u8,
    ) {
        let holder = self.holder.as_mut().expect("the caller looked");
        if config.is(Variant::RaiseOnlyTickets) {
            holder.ticket = holder.ticket.max(ticket);
        } else if ticket != 0 {
            holder.ticket = ticket;
        }
        let held = *holder;
        if !config.is(Variant::NextForgetsTickets) {
            self.next = self.next.max(held.ticket + 1);
        }
        let named = yields == held.g || (yields != 0 && config.is(Variant::YieldByOwner));
        // A client that yielded takes no part of that grant any more, so it needs a new one even if
        // meanwhile nobody is before it.
        if named && (self.inquired(config) || !config.is(Variant::YieldOnlyIfInquired)) {
            self.places[client] = held.ticket;
            self.holder = None;
            self.hand_over(net, Some(client));
        }
        match self.holder {
            Some(holder) if usize::from(holder.client) == client => {
                let inquired = self.inquired(config);
                let VoteHolder { g, token, ticket, .. } = holder;
                net.send(client, MessageBody::Granted { g, token, ticket, inquired, wake: false });
            }
            _ => self.queued(config, net, client, ticket),
        }
    }

    fn acquire_as_newcomer(
        &mut self,
        config: &ModelConfig,
        net: &mut ModelNetwork,
        client: usize,
        (hint, ticket): (u8, u8),
        waits: bool,
    ) {
        if self.holder.is_none() && self.places == [0; CLIENTS] && !self.quarantined {
            let g = (self.c + 1).max(hint);
            let ticket = if ticket == 0 { g } else { ticket };
            self.c = g;
            self.next = self.next.max(ticket + 1);
            self.holder = Some(VoteHolder { client: client as u8, g, token: g, ticket });
            net.send(
                client,
                MessageBody::Granted { g, token: g, ticket, inquired: false, wake: false },
            );
        } else if waits {
            let place = if ticket == 0 { hint.max(self.next).max(self.c + 1) } else { ticket };
            self.next = self.next.max(place + 1);
            self.set_place(config, net, client, place);
            self.queued(config, net, client, ticket);
        }
    }

    /// Answers that the client waits. One that came with a ticket learns nothing it would act upon.
    fn queued(&self, config: &ModelConfig, net: &mut ModelNetwork, client: usize, asked_for: u8) {
        if asked_for == 0 || config.is(Variant::ClientClockTickets) {
            net.send(client, MessageBody::Queued { ticket: self.places[client] });
        }
    }

    /// Puts a client at a ticket, and lets the holder know if that is before it.
    fn set_place(
        &mut self,
        config: &ModelConfig,
        net: &mut ModelNetwork,
        client: usize,
        ticket: u8,
    ) {
        let before = self.places[client];
        if ticket == 0 || (config.is(Variant::RaiseOnlyTickets) && ticket < before) {
            return;
        }
        self.places[client] = ticket;
        if !config.is(Variant::NextForgetsTickets) {
            self.next = self.next.max(ticket + 1);
        }
        if let Some(holder) = self.holder
            && (ticket, client) < (holder.ticket, usize::from(holder.client))
            && ticket != before
            && !config.is(Variant::NoInquire)
        {
            net.send(usize::from(holder.client), MessageBody::Inquire { g: holder.g });
        }
    }

    fn renew(
        &mut self,
        config: &ModelConfig,
        net: &mut ModelNetwork,
        client: usize,
        g: u8,
        token: u8,
    ) {
        let before = self.c;
        self.c = self.c.max(token);
        if config.is(Variant::BlindWriteBack) && token != 0 {
            self.c = token;
            if let Some(holder) = &mut self.holder {
                holder.token = token;
            }
        }
        let inquired = self.inquired(config);
        match &mut self.holder {
            Some(holder) if usize::from(holder.client) == client && holder.g == g => {
                let votes = before <= token || (config.is(Variant::BlindWriteBack) && token != 0);
                if votes {
                    holder.token = token;
                }
                let token = if votes { token } else { before };
                net.send(client, MessageBody::Renewed { g, token, inquired });
            }
            _ => net.send(client, MessageBody::NotHeld { g }),
        }
    }

    /// Whether somebody waits who comes before the holder.
    fn inquired(&self, config: &ModelConfig) -> bool {
        let Some(holder) = self.holder else { return false };
        !config.is(Variant::NoInquire)
            && self.head().is_some_and(|head| head < (holder.ticket, usize::from(holder.client)))
    }

    fn head(&self) -> Option<(u8, usize)> {
        (0..CLIENTS)
            .filter(|&client| self.places[client] != 0)
            .map(|client| (self.places[client], client))
            .min()
    }

    /// Grants to the lowest ticket if the vote is free. `asking` gets it as an answer, anybody else as
    /// a wake-up.
    pub(crate) fn hand_over(&mut self, net: &mut ModelNetwork, asking: Option<usize>) {
        if self.holder.is_some() || self.quarantined {
            return;
        }
        let Some((ticket, client)) = self.head() else { return };
        self.places[client] = 0;
        self.c += 1;
        let g = self.c;
        self.holder = Some(VoteHolder { client: client as u8, g, token: g, ticket });
        if asking != Some(client) {
            net.send(
                client,
                MessageBody::Granted { g, token: g, ticket, inquired: false, wake: true },
            );
        }
    }

    /// Forgets a client, who held, waited or neither.
    pub(crate) fn remove(&mut self, client: usize) {
        self.places[client] = 0;
        if self.holder.is_some_and(|holder| usize::from(holder.client) == client) {
            self.holder = None;
        }
    }
}
