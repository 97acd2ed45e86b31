//! The one task that renews what a client holds, refreshes its places and wakes whoever has paused.

use taketurns_core::session::{HoldRenewal, PlaceRefresh, Transmit};
use taketurns_core::{Name, Reply, Request};
use tokio::sync::watch;
use tracing::{Instrument, Span};

use crate::Error;
use crate::client::{Client, failure, sleep_until_some};
use crate::meter;
use crate::operation::ReleaseOperation;
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
                let span = telling::renew(renewals.len());
                self.spawn(renew(self.clone(), renewals, span.clone()).instrument(span));
            }
            Transmit::Refresh(refreshes) => self.spawn(refresh(self.clone(), refreshes)),
            // Whoever gave it up does not wait for it.
            Transmit::Release { lock, id, .. } => ReleaseOperation::new(self, lock, id).start(),
        }
    }
}

async fn renew(client: Arc<Client>, renewals: Vec<HoldRenewal>, span: Span) {
    let call = |HoldRenewal { hold, lease_ms }: &HoldRenewal| -> (Name, Request) {
        (hold.name().clone(), client.renewal(hold.owner(), *lease_ms))
    };
    let answers = client.call_all(renewals.iter().map(call).collect()).await;
    let failed = answers.iter().filter(|answer| answer.is_err()).count();
    span.record("failed", failed);
    for (HoldRenewal { hold, .. }, answer) in renewals.into_iter().zip(answers) {
        meter::renewal(meter::RenewalOutcome::of(&answer));
        let lock = hold.name();
        let trouble = match &answer {
            Err(error) => Some(Error::from_engine(lock, error.clone())),
            Ok(answer) => crate::guard::not_renewed(&answer.reply),
        };
        if let Some(error) = &trouble {
            tracing::debug!(target: target::HELD, %lock, %error, "a renewal failed");
        }
        // Of a lock that is lost the last trouble may say why.
        if trouble.is_some()
            || matches!(&answer, Ok(answer) if matches!(answer.reply, Reply::Renewed(_)))
        {
            hold.set_trouble(trouble.map(|error| error.to_string()));
        }
        let answer = answer.map_err(|error| failure(&error));
        client.drive(|session, now_us| session.handle_renewal(now_us, hold.owner(), answer));
    }
}

async fn refresh(client: Arc<Client>, refreshes: Vec<PlaceRefresh>) {
    let waiter_lease_ms = client.waiter_lease_ms;
    let request = Request::Refresh { client: client.id, waiter_lease_ms };
    let calls = refreshes.iter().map(|refresh| (refresh.lock.clone(), request.clone())).collect();
    let answers = client.call_all(calls).await;
    let answers = refreshes.into_iter().zip(answers).map(|(refresh, answer)| {
        let answer = answer.map_err(|error| {
            tracing::debug!(target: target::WAITS, lock = %refresh.lock, %error, "a place could not be refreshed");
            failure(&error)
        });
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
