//! What a check is about: how many clients, which faults and how many of them, and what is broken on
//! purpose.

use crate::{CLIENTS, NODES, variants::Variant};

/// How often each thing that need not happen may still happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Budget {
    /// Timers of clients: resending, refreshing, renewing.
    pub ticks: u8,
    /// Messages that arrive before an earlier one of the same two and the same direction; 255 is no limit.
    pub overtakes: u8,
    /// Messages that arrive twice.
    pub duplicates: u8,
    /// Messages that never arrive.
    pub losses: u8,
    /// Leases of holders that end.
    pub expiries: u8,
    /// Places in line that lapse.
    pub lapses: u8,
    /// Clients that give up before they hold.
    pub cancels: u8,
    /// Clients that die.
    pub crashes: u8,
    /// Nodes that restart empty.
    pub restarts: u8,
}

/// One configuration to check.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// How it is called in tables.
    pub name: &'static str,
    /// How many clients there are.
    pub clients: usize,
    /// The token that each client's clock gives it as a hint. They are not equal where clocks are skewed.
    pub hints: [u8; CLIENTS],
    /// The last token of each node at the start.
    pub counters: [u8; NODES],
    /// What may happen, and how often.
    pub budget: Budget,
    /// Whether an exhaustive check looks at progress from every state. Random runs do at their end.
    pub progress: bool,
    /// How many steps to look at, if not all.
    pub limit: Option<usize>,
    /// What is broken on purpose.
    pub variant: Variant,
}

impl ModelConfig {
    /// `clients` clients with equal clocks, nodes that agree, and no faults.
    pub fn new(name: &'static str, clients: usize) -> Self {
        ModelConfig {
            name,
            clients,
            hints: [1; CLIENTS],
            counters: [0; NODES],
            budget: Budget::default(),
            progress: false,
            limit: None,
            variant: Variant::Sound,
        }
    }

    /// Whether `variant` is what is broken.
    pub(crate) fn is(&self, variant: Variant) -> bool {
        self.variant == variant
    }
}
