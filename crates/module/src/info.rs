//! What the module has done, for INFO.

use taketurns_core::{Reply, Step, WakeEvent};

use crate::state::with_state;
use crate::sys::InfoCtx;

/// Since the server started.
#[derive(Default)]
pub(crate) struct Counts {
    grants: u64,
    hand_overs: u64,
    releases: u64,
    renewals: u64,
    queued: u64,
    busy: u64,
    refusals: u64,
    broken: u64,
    pub(crate) admitted: u64,
    pub(crate) stale: u64,
}

impl Counts {
    pub(crate) fn note_wakes(&mut self, step: &Step) {
        let handed = |event: &WakeEvent| matches!(event, WakeEvent::Granted(_));
        self.hand_overs += step.wakes.iter().filter(|wake| handed(&wake.event)).count() as u64;
    }

    pub(crate) fn note_reply(&mut self, reply: &Reply) {
        match reply {
            Reply::Granted(_) => self.grants += 1,
            Reply::Queued(_) => self.queued += 1,
            Reply::Busy | Reply::Kept => self.busy += 1,
            Reply::Renewed(_) => self.renewals += 1,
            Reply::Released => self.releases += 1,
            Reply::Broken(count) => self.broken += u64::from(*count),
            Reply::Refused(_) => self.refusals += 1,
            _ => {}
        }
    }
}

pub(crate) fn show(info: &InfoCtx) {
    with_state(|state| {
        let counts = &state.counts;
        for (name, number) in [
            (c"grants", counts.grants),
            (c"hand_overs", counts.hand_overs),
            (c"releases", counts.releases),
            (c"renewals", counts.renewals),
            (c"queued", counts.queued),
            (c"busy", counts.busy),
            (c"refusals", counts.refusals),
            (c"broken", counts.broken),
            (c"tokens_admitted", counts.admitted),
            (c"tokens_stale", counts.stale),
            (c"blocked_clients", state.waiting() as u64),
            (c"polling_clients", state.polls.len() as u64),
            (c"bound_locks", state.tied() as u64),
            (c"bindings", state.bindings.len() as u64),
            (c"max_lease_ms", state.max_lease_ms()),
            (c"quarantine_until_ms", state.until_ms),
        ] {
            info.number(name, number);
        }
        let failover = if state.quarantine_ms.is_some() { "quarantine" } else { "immediate" };
        info.text(c"failover", failover);
    });
}
