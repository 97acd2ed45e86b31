//! The configurations that are looked at exhaustively.

use crate::{Budget, ModelConfig, NODES, variants::Variant};

/// Two clients, every state, progress from each of them: small enough for every test run.
pub fn small() -> Vec<ModelConfig> {
    let none = Budget::default();
    let budgets = [
        ("2 clients", none),
        ("2 clients, any order of messages", Budget { overtakes: u8::MAX, ..none }),
        ("2 clients, a message is lost", Budget { losses: 1, ..none }),
        ("2 clients, a place lapses", Budget { lapses: 1, ..none }),
        ("2 clients, a message comes twice", Budget { duplicates: 1, ..none }),
        ("2 clients, a client gives up", Budget { cancels: 1, ..none }),
        ("2 clients, a client dies", Budget { crashes: 1, ..none }),
    ];
    let mut all = with_progress(budgets);
    all.push(ModelConfig {
        counters: [0, 2, 1],
        progress: true,
        ..ModelConfig::new("2 clients, nodes differ", 2)
    });
    all
}

/// What takes minutes.
pub fn large() -> Vec<ModelConfig> {
    let none = Budget::default();
    let budgets = [
        ("2 clients, a lease ends", Budget { expiries: 1, ..none }),
        ("2 clients, a timer", Budget { ticks: 1, ..none }),
    ];
    let mut all = with_progress(budgets);
    let any = u8::MAX;
    let more = [
        (
            "2 clients, any order, one comes twice",
            2,
            Budget { overtakes: any, duplicates: 1, ..none },
        ),
        ("2 clients, any order, a lease ends", 2, Budget { overtakes: any, expiries: 1, ..none }),
        ("2 clients, a node restarts empty", 2, Budget { restarts: 1, ..none }),
        ("2 clients, a timer, a lease ends", 2, Budget { ticks: 1, expiries: 1, ..none }),
        ("3 clients", 3, none),
    ];
    // Some of these have more states than fit: as many as a few minutes allow.
    all.extend(more.map(|(name, clients, budget)| {
        let limit = Some(60_000_000);
        ModelConfig { budget, limit, ..ModelConfig::new(name, clients) }
    }));
    all
}

fn with_progress<const N: usize>(budgets: [(&'static str, Budget); N]) -> Vec<ModelConfig> {
    budgets
        .map(|(name, budget)| ModelConfig { budget, progress: true, ..ModelConfig::new(name, 2) })
        .into()
}

/// Where an exhaustive check finds `variant` within seconds, if it does. The others need more at once
/// than it can look at, and are left to random runs.
pub fn finds(variant: Variant) -> Option<ModelConfig> {
    let none = Budget::default();
    let (budget, counters, progress) = match variant {
        Variant::NoWriteBack => (Budget { expiries: 1, ..none }, [0, 2, 0], false),
        Variant::NoQuarantine => (Budget { restarts: 1, ..none }, [0; NODES], false),
        Variant::NoBurial => (Budget { duplicates: 1, ..none }, [0; NODES], true),
        Variant::YieldOnce => (Budget { losses: 1, ..none }, [0; NODES], true),
        Variant::NoInquire
        | Variant::RaiseOnlyTickets
        | Variant::YieldOnlyIfInquired
        | Variant::SilentVotesCount => (none, [0; NODES], true),
        _ => return None,
    };
    Some(ModelConfig { budget, counters, progress, variant, ..ModelConfig::new("2 clients", 2) })
}
