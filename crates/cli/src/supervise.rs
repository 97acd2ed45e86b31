//! Watching a child that may run only while a lock is held.
//!
//! ```text
//!   lease  ├──────────── renewed at a third, over and over ────────────┤
//!                                     can't be renewed: SIGTERM ─► │ ─► SIGKILL ─► │ deadline
//!                                                          └─ grace ──┘ └─ margin ─┘
//!   broken: SIGTERM, and SIGKILL before the lock passes on         lost already: SIGKILL at once
//! ```
//!
//! So the child is gone before anybody else can be granted the lock. That can't be promised while we
//! are stopped ourselves; then the first thing we do when continued is to kill it.

use std::pin::{Pin, pin};
use std::time::Duration;

use rustix::process::Signal;
use taketurns::{Guard, Locks, LossCause};
use tokio::time::{Instant, sleep, timeout};

use crate::exit::say;
use crate::output::duration;
use crate::process_group::ProcessGroup;
use crate::signals::{self, Signals};
use crate::terminal::{StopAction, Terminal};

/// Most time that the child gets between SIGTERM and SIGKILL.
const GRACE_MAX: Duration = Duration::from_secs(5);
/// Most time that is left for a SIGKILL to take effect before the deadline.
const MARGIN_MAX: Duration = Duration::from_millis(200);
/// The clock is looked at this often even if nothing is due: timers stand still while the machine is
/// suspended, and leases don't.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// How long to find out whether a broken lock has passed on already. If that is not known it has.
const BROKEN_ASK_MAX: Duration = Duration::from_secs(1);

/// How the child ended.
pub(crate) struct ChildEnd {
    /// The child's code, or 128 + n.
    pub(crate) code: u8,
    /// The signal that ended the child.
    pub(crate) signal: Option<Signal>,
    /// The child was ended because of the lock. The user has been told.
    pub(crate) lost: bool,
    /// We were told to end, and have passed that on.
    pub(crate) told_to_end: bool,
}

/// Supervises one child under one lock.
pub(crate) struct Supervisor<'a> {
    pub(crate) locks: &'a Locks,
    pub(crate) guard: &'a Guard,
    pub(crate) terminal: Option<&'a Terminal>,
    /// Since when the lock is held, and for how long at most.
    pub(crate) max_hold: Option<(Instant, Duration)>,
}

/// When a child that has to end is killed.
#[derive(Clone, Copy)]
struct KillSchedule {
    kill_at: Instant,
    killed: bool,
}

impl Supervisor<'_> {
    /// Waits for the child to end, and sees to it that it does if the lock is lost.
    pub(crate) async fn run(&self, job: ProcessGroup, signals: &mut Signals) -> ChildEnd {
        let mut lost = pin!(self.guard.lost());
        let mut known_lost = false;
        let mut ending: Option<KillSchedule> = None;
        let mut told_to_end = false;
        while !job.has_ended() {
            if let Some(signal) = job.stopped_by() {
                self.handle_stop(&job, signal);
            }
            // After the stop, which may have lasted.
            if !known_lost && self.guard.left().is_zero() {
                known_lost = true;
                let cause = cause_by_now(lost.as_mut()).await;
                ending = Some(self.handle_loss(&job, cause, ending).await);
            }
            let pause = self.send_what_is_due(&job, &mut ending);
            tokio::select! {
                biased;
                cause = &mut lost, if !known_lost => {
                    known_lost = true;
                    ending = Some(self.handle_loss(&job, cause, ending).await);
                }
                signal = signals.next_or_change() => {
                    if let Some((signal, _)) = signal {
                        told_to_end |= signals::ends(signal);
                        job.signal(signal);
                    }
                }
                () = sleep(pause) => {}
            }
        }
        if ending.is_some() {
            // The child has obeyed; those it started may not have.
            job.signal(Signal::KILL);
        }
        let (code, signal) = job.reap();
        ChildEnd { code, signal, lost: ending.is_some(), told_to_end }
    }

    /// SIGTERM or SIGKILL if it is time for one; then how long nothing else is due.
    fn send_what_is_due(&self, job: &ProcessGroup, ending: &mut Option<KillSchedule>) -> Duration {
        let now = Instant::now();
        let due = match ending {
            None => {
                let (left, span) = (self.guard.left(), self.span());
                if left.is_zero() {
                    return Duration::ZERO; // lost meanwhile, which is seen to in a moment
                }
                if left > grace(span) {
                    return (left - grace(span)).min(LOOK_MAX);
                }
                self.say_end_is_near(left);
                terminate(job);
                let kill_at = now + left.saturating_sub(margin(span)).min(grace(span));
                *ending = Some(KillSchedule { kill_at, killed: false });
                kill_at
            }
            Some(ending) if ending.killed => return LOOK_MAX,
            Some(ending) if ending.kill_at <= now => {
                job.signal(Signal::KILL);
                ending.killed = true;
                return LOOK_MAX;
            }
            Some(ending) => ending.kill_at,
        };
        due.saturating_duration_since(now).min(LOOK_MAX)
    }

    /// The lock is lost: the child has to go at once, unless it was broken and has not passed on yet.
    async fn handle_loss(
        &self,
        job: &ProcessGroup,
        cause: LossCause,
        ending: Option<KillSchedule>,
    ) -> KillSchedule {
        let now = Instant::now();
        let name = self.guard.name();
        if cause != LossCause::Revoked || ending.is_some() {
            job.signal(Signal::KILL);
            if ending.is_none() {
                say(format_args!("lock {name} was lost: {cause}; the command was killed"));
            }
            return KillSchedule { kill_at: now, killed: true };
        }
        terminate(job);
        say(format_args!("lock {name} was lost: {cause}; the command was told to end"));
        let left = self.left_of_broken().await;
        let kill_in = left.saturating_sub(margin(left)).min(GRACE_MAX);
        KillSchedule { kill_at: now + kill_in, killed: false }
    }

    /// How long it takes until a broken lock passes on; nothing if it has, or if we can't know.
    async fn left_of_broken(&self) -> Duration {
        let asked = timeout(BROKEN_ASK_MAX, self.locks.inspect(self.guard.name().as_str())).await;
        let Ok(Ok(Some(view))) = asked else { return Duration::ZERO };
        let ours = view.holders.iter().find(|holder| holder.token == self.guard.token().fenced());
        // Counted from before the question was sent: it can only be longer.
        ours.map_or(Duration::ZERO, |holder| holder.left)
    }

    /// Goes along with the shell's job control, and comes back when the shell continues us.
    fn handle_stop(&self, job: &ProcessGroup, signal: i32) {
        let Some(terminal) = self.terminal else { return };
        let next = terminal.stop_with(job.pid(), signal);
        // We may have been stopped for long. If that has cost us the lock it is killed as it is.
        if next == StopAction::Continue && !self.guard.left().is_zero() {
            job.signal(Signal::CONT);
        }
    }

    /// What the grace period is a part of.
    fn span(&self) -> Duration {
        let span = self.guard.span();
        self.max_hold.map_or(span, |(_, max_hold)| span.min(max_hold))
    }

    fn say_end_is_near(&self, left: Duration) {
        let (name, left) = (self.guard.name(), duration(left));
        match self.max_hold {
            Some((since, max_hold)) if since.elapsed() + GRACE_MAX >= max_hold => {
                say(format_args!(
                    "lock {name} was held for nearly its --max-hold of {}: the command was told to end",
                    duration(max_hold)
                ))
            }
            _ => {
                // No renewal has failed if the one under way has had no answer.
                let why = self.guard.trouble();
                let why = why.as_deref().unwrap_or("the store does not answer");
                say(format_args!(
                    "lock {name} could not be renewed ({why}) and its lease ends in {left}: the \
                     command was told to end"
                ))
            }
        }
    }
}

/// Why it was lost, if that is known by now. If not, it is time that has run out.
async fn cause_by_now(lost: Pin<&mut impl Future<Output = LossCause>>) -> LossCause {
    tokio::select! {
        biased;
        cause = lost => cause,
        () = std::future::ready(()) => LossCause::Expired,
    }
}

/// A stopped child could not obey, so it is continued too.
fn terminate(job: &ProcessGroup) {
    job.signal(Signal::TERM);
    job.signal(Signal::CONT);
}

/// How long before the deadline the child is told to end.
fn grace(span: Duration) -> Duration {
    (span / 3).min(GRACE_MAX)
}

/// How long before the deadline it is killed.
fn margin(span: Duration) -> Duration {
    (span / 20).min(MARGIN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_lease_leaves_less_grace_and_margin_than_a_long_one() {
        let of = |ms| (grace(Duration::from_millis(ms)), margin(Duration::from_millis(ms)));
        let expected =
            |grace, margin| (Duration::from_millis(grace), Duration::from_millis(margin));
        assert_eq!(of(30_000), expected(5_000, 200));
        assert_eq!(of(3_000), expected(1_000, 150));
        assert_eq!(of(300), expected(100, 15));
    }
}
