//! What a waiting acquire is told, and where it hears it: a queue that costs nothing until somebody
//! says something.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use taketurns_core::client::Anchor;
use taketurns_core::{Grant, Refusal, Token};

use crate::sync::{Arc, Mutex, lock};

/// What a waiting acquire is told.
#[derive(Debug)]
pub(crate) enum Signal {
    /// The lock was handed to it. Without an anchor it has to ask how long that is.
    Granted { grant: Grant, anchor: Option<Anchor> },
    /// It can't have what it asks for any more.
    Refused(Refusal),
    /// Its place may have lapsed: ask again.
    Rejoin,
    /// What it was granted with this token was broken. News of another grant is old; without a token
    /// it is not known which grant it was.
    Revoked { token: Option<Token> },
}

/// Both ends of the queue: many tell, one hears.
#[derive(Clone, Default)]
pub(crate) struct Signals(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    signals: VecDeque<Signal>,
    listener: Option<Waker>,
}

impl Signals {
    pub(crate) fn tell(&self, signal: Signal) {
        let listener = {
            let mut told = lock(&self.0);
            told.signals.push_back(signal);
            told.listener.take()
        };
        // Outside of the mutex: it may run whoever listens, here and now.
        if let Some(listener) = listener {
            listener.wake();
        }
    }

    /// The next one. Dropping the future loses none.
    pub(crate) async fn next(&self) -> Signal {
        poll_fn(|context| {
            let mut told = lock(&self.0);
            match told.signals.pop_front() {
                Some(signal) => Poll::Ready(signal),
                None => {
                    told.listener = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// All that was said and not heard.
    pub(crate) fn drain(&self) -> VecDeque<Signal> {
        std::mem::take(&mut lock(&self.0).signals)
    }
}
