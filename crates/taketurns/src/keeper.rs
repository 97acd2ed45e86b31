//! The task that renews a client's locks, refreshes its places, and wakes operations whose pause is over.

use taketurns_core::session::{HoldRenewal, PlaceRefresh, TimedReply, Transmit};
use taketurns_core::{Reply, Request};
use tokio::sync::watch;
use tracing::Instrument;

use crate::Error;
use crate::client::{CallAnswer, CallStart, Client, failure};
use crate::clock::local_us;
use crate::error::malformed;
use crate::meter::{self, RequestKind};
use crate::operation::ReleaseOperation;
use crate::runtime::sleep_until_some;
use crate::sync::Arc;
use crate::telling::{self, target};

/// Does what is due until told to stop.
pub(crate) fn keep(
    client: Arc<Client>,
    mut stop: watch::Receiver<bool>,
) -> impl Future<Output = ()> + Send {
    // Made before it is polled: the runtime may end before that.
    let attended = KeeperWatch(client);
    async move {
        let client = &attended.0;
        let mut is_stopped = false;
        loop {
            let ((due_us, is_over), transmits) = client.shell.drive_and_send(|session, now_us| {
                session.handle_timeout(now_us);
                // On a runtime that is not ours releases go on for as long as a lease.
                let is_over = is_stopped && session.close();
                (session.poll_timeout(), is_over)
            });
            transmits.into_iter().for_each(|transmit| client.transmit(transmit));
            if is_over {
                return;
            }
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop), if !is_stopped => is_stopped = true,
                () = sleep_until_some(due_us) => {}
                () = client.shell.is_due.notified() => {}
            }
        }
    }
}

impl Client {
    /// Sends what the session wants sent. In a task of its own, so that what hangs does not stop the next.
    pub(crate) fn transmit(self: &Arc<Self>, transmit: Transmit) {
        match transmit {
            Transmit::Renew(renewals) => {
                let (client, span) = (self.clone(), telling::renew(renewals.len()));
                let noted = span.clone();
                let renew = async move {
                    let troubles = client.renew(renewals).await;
                    noted.record("failed", troubles.iter().flatten().count());
                };
                self.spawn(renew.instrument(span));
            }
            Transmit::Refresh(refreshes) => self.spawn(refresh(self.clone(), refreshes)),
            // The caller gave the acquire up, so nobody waits for its release.
            Transmit::Release { lock, id, .. } => ReleaseOperation::new(self, lock, id).start(),
        }
    }

    /// Renews locks, in one round trip where the engine can. Returns what went wrong with each; a lock that is lost by
    /// then is no error here.
    pub(crate) async fn renew(self: &Arc<Self>, renewals: Vec<HoldRenewal>) -> Vec<Option<Error>> {
        let call = |HoldRenewal { hold, lease_ms }: &HoldRenewal| {
            (hold.name().clone(), self.renewal(hold.owner(), *lease_ms))
        };
        let sent = CallStart { at_us: local_us(), what: RequestKind::Renew };
        let answers = self.engine.call_all(renewals.iter().map(call).collect()).await;
        let answered_us = local_us();
        let mut troubles = Vec::with_capacity(renewals.len());
        for (HoldRenewal { hold, .. }, answer) in renewals.into_iter().zip(answers) {
            let lock = hold.name();
            sent.took(answer.is_ok(), answered_us);
            let answer = self.read(sent, lock, answer).and_then(CallAnswer::timed);
            meter::renewal(meter::RenewalOutcome::of(&answer));
            let (trouble, is_renewed) = match &answer {
                Err(error) => (Some(Error::from_engine(lock, error.clone())), false),
                Ok(TimedReply { reply: Reply::Renewed(_), .. }) => (None, true),
                Ok(TimedReply { reply: Reply::Revoked | Reply::NotHeld, .. }) => (None, false),
                Ok(TimedReply { reply, .. }) => (Some(malformed("a renewal", reply)), false),
            };
            if let Some(error) = &trouble {
                tracing::debug!(target: target::HELD, %lock, %error, "a renewal failed");
            }
            // If the lock is lost, the last trouble may say why.
            if trouble.is_some() || is_renewed {
                hold.set_trouble(trouble.as_ref().map(Error::to_string));
            }
            let answer = answer.map_err(|error| failure(&error));
            self.drive(|session, now_us| session.handle_renewal(now_us, hold.owner(), answer));
            troubles.push(trouble);
        }
        troubles
    }
}

async fn refresh(client: Arc<Client>, refreshes: Vec<PlaceRefresh>) {
    let waiter_lease_ms = client.waiter_lease_ms;
    let request = Request::Refresh { client: client.id, waiter_lease_ms };
    let calls = refreshes.iter().map(|refresh| (refresh.lock.clone(), request.clone())).collect();
    let sent = CallStart { at_us: local_us(), what: RequestKind::Refresh };
    let answers = client.engine.call_all(calls).await;
    let answered_us = local_us();
    let answers = refreshes.into_iter().zip(answers).map(|(refresh, answer)| {
        sent.took(answer.is_ok(), answered_us);
        let answer = client.read(sent, &refresh.lock, answer).and_then(CallAnswer::timed);
        telling::refreshed(
            &refresh.lock,
            answered_us.saturating_sub(sent.at_us),
            answer.as_ref().err(),
        );
        let answer = answer.map_err(|error| failure(&error));
        (refresh, answer)
    });
    let answers = answers.collect();
    client.drive(|session, now_us| session.handle_refreshes(now_us, answers));
}

/// If the task that renews is dropped, its runtime has ended.
struct KeeperWatch(Arc<Client>);

impl Drop for KeeperWatch {
    fn drop(&mut self) {
        self.0.shell.drive(|session, now_us| session.handle_unattended(now_us));
    }
}
