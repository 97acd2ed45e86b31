//! G6: nothing is left behind.

use super::Findings;
use crate::{Event, What};

pub(super) fn check(events: &[Event], findings: &mut Findings) {
    for event in events {
        if let What::Left { thing } = &event.what {
            findings.add(event.at_us, "", thing.clone());
        }
    }
}
