//! The steps of one client for one lock, in the order in which they were asked for.
//!
//! Each step has a connection of its own, so without this the second of two requests may reach the row first: a try,
//! say, before the release that makes room for it. Besides, a step that would wait for the row of another one of the
//! same client waits here, and needs no connection for that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use taketurns_core::Name;
use tokio::sync::oneshot;

use crate::sync::lock;

/// The last step of each lock that has steps under way.
#[derive(Default)]
pub(super) struct StepOrder {
    last: Mutex<LastSteps>,
}

#[derive(Default)]
struct LastSteps {
    /// The number of each, and its end.
    by_lock: BTreeMap<Name, (u64, oneshot::Receiver<()>)>,
    count: u64,
}

/// A step's place among those of its lock. The next one begins when this is dropped.
pub(super) struct StepTurn {
    order: Arc<StepOrder>,
    name: Name,
    number: u64,
    before: Option<oneshot::Receiver<()>>,
    _end: oneshot::Sender<()>,
}

impl StepOrder {
    /// Takes the next place.
    pub(super) fn enter(self: &Arc<Self>, name: &Name) -> StepTurn {
        let (end, ended) = oneshot::channel();
        let mut last = lock(&self.last);
        last.count += 1;
        let number = last.count;
        let before = last.by_lock.insert(name.clone(), (number, ended));
        let before = before.map(|(_, ended)| ended);
        drop(last);
        StepTurn { order: self.clone(), name: name.clone(), number, before, _end: end }
    }
}

impl StepTurn {
    /// Waits until the steps before it have ended.
    pub(super) async fn begin(&mut self) {
        if let Some(before) = self.before.take() {
            // It is dropped at its end, without a word.
            let _ = before.await;
        }
    }
}

impl Drop for StepTurn {
    fn drop(&mut self) {
        let mut last = lock(&self.order.last);
        if last.by_lock.get(&self.name).is_some_and(|(number, _)| *number == self.number) {
            last.by_lock.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn has_begun(turn: &mut StepTurn) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        turn.before.as_mut().is_none_or(|before| pin!(before).poll(&mut context) != Poll::Pending)
    }

    #[test]
    fn steps_of_one_lock_begin_one_after_the_other_and_leave_nothing() {
        let order = Arc::new(StepOrder::default());
        let name = |name: &str| Name::new(name).unwrap();
        let (mut first, mut second) = (order.enter(&name("a")), order.enter(&name("a")));
        let (mut third, mut other) = (order.enter(&name("a")), order.enter(&name("b")));
        assert!(has_begun(&mut first) && has_begun(&mut other));
        assert!(!has_begun(&mut second) && !has_begun(&mut third));
        drop(first);
        assert!(has_begun(&mut second) && !has_begun(&mut third));
        drop((second, third, other));
        assert!(lock(&order.last).by_lock.is_empty());
        assert!(has_begun(&mut order.enter(&name("a"))));
    }
}
