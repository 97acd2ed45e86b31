//! Histories in words.

use crate::{
    net::{Body, Message},
    world::Action,
};

const NAMES: [&str; 3] = ["Ann", "Bob", "Cat"];

/// A client's name.
pub fn name(client: usize) -> &'static str {
    NAMES[client]
}

/// What happens, as a sentence.
pub fn sentence(action: &Action) -> String {
    match *action {
        Action::Start(k) => format!("{} asks all nodes", name(k)),
        Action::Deliver(n, message) => arrives(n, message),
        Action::Overtake(n, message) => format!("{}, before an earlier one", arrives(n, message)),
        Action::Duplicate(n, message) => format!("{}, not for the last time", arrives(n, message)),
        Action::Lose(n, message) => format!("lost: {}", arrives(n, message)),
        Action::Tick(k) => format!("{}'s timer", name(k)),
        Action::Leave(k) => format!("{} leaves", name(k)),
        Action::Crash(k) => format!("{} dies", name(k)),
        Action::Expire(n) => format!("the lease of node {n}'s holder ends"),
        Action::Lapse(n, k) => format!("{}'s place at node {n} lapses", name(k)),
        Action::Restart(n) => format!("node {n} restarts empty"),
        Action::Reopen(n) => format!("node {n} ends its quarantine"),
    }
}

fn arrives(n: usize, Message { client, body }: Message) -> String {
    let who = name(usize::from(client));
    let inquiry = |inquired| if inquired { ", somebody before it waits" } else { "" };
    match body {
        Body::Acquire { hint, ticket, yields, waits } => {
            let mut text = format!("node {n} hears {who}: acquire");
            match ticket {
                0 => text += &format!(", hint {hint}"),
                _ => text += &format!(" at ticket {ticket}"),
            }
            if yields != 0 {
                text += &format!(", yields grant {yields}");
            }
            if !waits {
                text += ", does not wait";
            }
            text
        }
        Body::Renew { g, token } => {
            format!("node {n} hears {who}: renew grant {g} for token {token}")
        }
        Body::Release { token } => format!("node {n} hears {who}: release token {token}"),
        Body::Granted { g, token, ticket, inquired, wake } => {
            let how = if wake { "woken" } else { "answered" };
            let rest = inquiry(inquired);
            format!("{who} is {how} by node {n}: grant {g}, token {token}, ticket {ticket}{rest}")
        }
        Body::Queued { ticket } => {
            format!("{who} is answered by node {n}: in line at ticket {ticket}")
        }
        Body::Inquire { g } => {
            format!("{who} hears from node {n}: somebody waits before grant {g}")
        }
        Body::Renewed { g, token, inquired } => {
            format!(
                "{who} is answered by node {n}: grant {g} renewed, token {token}{}",
                inquiry(inquired)
            )
        }
        Body::NotHeld { g } => format!("{who} is answered by node {n}: grant {g} is not held"),
    }
}
