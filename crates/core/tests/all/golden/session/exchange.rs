//! What a client does around its session: sends requests, hands in answers, wakes tasks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use taketurns_core::session::{
    Anchor, CallFailure, Effects, HoldRenewal, Origin, PlaceRefresh, TimedReply, Transmit,
    WakerSwap,
};
use taketurns_core::{Name, Owner, Request};

use super::read::{self, Subject};
use super::{Guard, Server, World, show};
use crate::golden::words::{Words, name, owner};

impl World {
    pub(super) fn send(&mut self, subject: Subject, owner: Owner, request: &Request) {
        self.sent.insert((subject, owner), self.now_us);
        self.out.say(format!("send {}", show::request(request)));
    }

    pub(super) fn answer(&mut self, words: &Words<'_>) -> Result<(), String> {
        if words.at(1)? == "refresh" {
            return self.answer_refresh(words);
        }
        let (subject, owner) = (read::subject(words.at(1)?)?, owner(words.at(2)?)?);
        let sent_us = self.sent.remove(&(subject, owner)).ok_or("nothing was sent")?;
        let answer = self.read_answer(words, &self.lock(owner)?, sent_us)?;
        match subject {
            Subject::Acquire => {
                self.session.handle_acquire_answer(self.now_us, owner, answer);
                return self.poll_acquire(owner);
            }
            Subject::Renew => self.renewed(owner, answer),
            Subject::Release => {
                let mut swap = WakerSwap::new(self.waker(Subject::Release, owner)?);
                let id = *self.releases.get(&owner).ok_or("nothing is released")?;
                let session = &mut self.session;
                let reply = answer.map(|answer| {
                    session.observe(self.now_us, answer.origin, answer.anchor);
                    answer.reply
                });
                match session.handle_release_answer(self.now_us, id, reply, &mut swap) {
                    Some(released) => {
                        self.end(Subject::Release, owner);
                        self.out.say(show::released(released));
                    }
                    None => self.out.say("wait"),
                }
            }
        }
        Ok(())
    }

    fn answer_refresh(&mut self, words: &Words<'_>) -> Result<(), String> {
        let lock = read::lock(words.at(2)?)?;
        let (sent_us, refresh) = self.refreshes.remove(&lock).ok_or("nothing was sent")?;
        let answer = self.read_answer(words, &lock, sent_us)?;
        self.session.handle_refreshes(self.now_us, vec![(refresh, answer)]);
        Ok(())
    }

    fn renewed(&mut self, owner: Owner, answer: Result<TimedReply, CallFailure>) {
        let is_renewed = self.session.handle_renewal(self.now_us, owner, answer);
        let guard = self.guards.values().find(|guard| guard.hold.owner() == owner);
        match guard.filter(|_| is_renewed) {
            Some(Guard { hold, .. }) => {
                self.out.say(format!("renewed until={}", show::ms(hold.valid_until_us())));
            }
            None => self.out.say("not renewed"),
        }
    }

    fn read_answer(
        &self,
        words: &Words<'_>,
        lock: &Name,
        sent_us: u64,
    ) -> Result<Result<TimedReply, CallFailure>, String> {
        let (origin, now_ms) = self.engine(lock);
        let anchor = Anchor { sent_us, engine_ms: words.option("engine", now_ms)? };
        Ok(read::reply(words)?.map(|reply| TimedReply { reply, origin, anchor }))
    }

    /// Hands out all that the session has for others, as a client does after every call.
    pub(super) fn flush(&mut self, is_timeout: bool) -> Result<(), String> {
        let mut is_told = is_timeout;
        while let Some(Effects { wakers, events, look }) = self.session.take_effects() {
            is_told |= look;
            for event in &events {
                self.out.say(show::event(event));
            }
            wakers.into_iter().for_each(Waker::wake);
        }
        self.show_woken();
        for transmit in self.session.take_transmits() {
            self.transmit(transmit);
        }
        let next_us = self.session.poll_timeout();
        let is_sooner = next_us.is_some_and(|next| self.next_us.is_none_or(|before| next < before));
        if is_sooner && !is_told {
            return Err("the next timeout is sooner than before, and nobody is told to look".into());
        }
        if self.next_us != next_us {
            self.next_us = next_us;
            let next = next_us.map_or("none".into(), show::ms);
            self.out.say(format!("next timeout {next}"));
        }
        Ok(())
    }

    fn show_woken(&mut self) {
        for ((subject, owner), counter) in &self.wakers {
            for _ in 0..counter.0.swap(0, Ordering::Relaxed) {
                let what = if *subject == Subject::Release { "release " } else { "" };
                self.out.say(format!("woken {what}{}", name(*owner)));
            }
        }
    }

    fn transmit(&mut self, transmit: Transmit) {
        self.out.say(format!("transmit {}", show::transmit(&transmit)));
        match transmit {
            Transmit::Renew(renewals) => {
                for HoldRenewal { hold, .. } in renewals {
                    self.sent.insert((Subject::Renew, hold.owner()), self.now_us);
                }
            }
            Transmit::Refresh(refreshes) => {
                let sent = |refresh: PlaceRefresh| (refresh.lock.clone(), (self.now_us, refresh));
                self.refreshes.extend(refreshes.into_iter().map(sent));
            }
            Transmit::Release { id, owner, .. } => {
                self.releases.insert(owner, id);
                self.wakers.insert((Subject::Release, owner), Arc::default());
                self.poll_release(owner);
            }
        }
    }

    /// An operation is over.
    pub(super) fn end(&mut self, subject: Subject, owner: Owner) {
        self.wakers.remove(&(subject, owner));
        self.sent.remove(&(subject, owner));
    }

    pub(super) fn waker(&self, subject: Subject, owner: Owner) -> Result<Waker, String> {
        let counter = self.wakers.get(&(subject, owner));
        let counter = counter.ok_or_else(|| format!("{} has nothing under way", name(owner)))?;
        Ok(Waker::from(counter.clone()))
    }

    pub(super) fn lock(&self, owner: Owner) -> Result<Name, String> {
        self.locks.get(&owner).cloned().ok_or_else(|| format!("{} is unknown", name(owner)))
    }

    pub(super) fn guard(&mut self, owner: Owner) -> Result<Guard, String> {
        self.guards.remove(&owner).ok_or_else(|| format!("{} has no guard", name(owner)))
    }

    /// The connection to a lock's server, and what its clock shows.
    pub(super) fn engine(&self, lock: &Name) -> (Origin, u64) {
        let source = read::server(lock);
        let server = self.servers.get(&source);
        let Server { ahead_ms, epoch } = server.copied().unwrap_or_default();
        (Origin { source, epoch }, (self.now_us / 1_000).saturating_add_signed(ahead_ms))
    }

    pub(super) fn server(&mut self, words: &Words<'_>) -> Result<&mut Server, String> {
        Ok(self.servers.entry(words.option("server", 0)?).or_default())
    }
}
