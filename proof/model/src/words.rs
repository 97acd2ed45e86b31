//! Tells a history in sentences, for people.

use crate::{
    net::{Message, MessageBody},
    state::ModelAction,
};

const NAMES: [&str; 3] = ["Ann", "Bob", "Cat"];

/// A client's name.
pub fn name(client: usize) -> &'static str {
    NAMES[client]
}

/// What happens, as a sentence.
pub fn sentence(action: &ModelAction) -> String {
    match *action {
        ModelAction::Start(k) => format!("{} asks all nodes", name(k)),
        ModelAction::Deliver(n, message) => arrives(n, message),
        ModelAction::Overtake(n, message) => {
            format!("{}, before an earlier one", arrives(n, message))
        }
        ModelAction::Duplicate(n, message) => {
            format!("{}, not for the last time", arrives(n, message))
        }
        ModelAction::Lose(n, message) => format!("lost: {}", arrives(n, message)),
        ModelAction::Tick(k) => format!("{}'s timer", name(k)),
        ModelAction::Leave(k) => format!("{} leaves", name(k)),
        ModelAction::Crash(k) => format!("{} dies", name(k)),
        ModelAction::Expire(n) => format!("the lease of node {n}'s holder ends"),
        ModelAction::Lapse(n, k) => format!("{}'s place at node {n} lapses", name(k)),
        ModelAction::Restart(n) => format!("node {n} restarts empty"),
        ModelAction::Reopen(n) => format!("node {n} ends its quarantine"),
    }
}

fn arrives(n: usize, Message { client, body }: Message) -> String {
    let who = name(usize::from(client));
    let inquiry = |inquired| if inquired { ", somebody before it waits" } else { "" };
    match body {
        MessageBody::Acquire { hint, ticket, yields, waits } => {
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
        MessageBody::Renew { g, token } => {
            format!("node {n} hears {who}: renew grant {g} for token {token}")
        }
        MessageBody::Release { token } => format!("node {n} hears {who}: release token {token}"),
        MessageBody::Granted { g, token, ticket, inquired, wake } => {
            let how = if wake { "woken" } else { "answered" };
            let rest = inquiry(inquired);
            format!("{who} is {how} by node {n}: grant {g}, token {token}, ticket {ticket}{rest}")
        }
        MessageBody::Queued { ticket } => {
            format!("{who} is answered by node {n}: in line at ticket {ticket}")
        }
        MessageBody::Inquire { g } => {
            format!("{who} hears from node {n}: somebody waits before grant {g}")
        }
        MessageBody::Renewed { g, token, inquired } => {
            format!(
                "{who} is answered by node {n}: grant {g} renewed, token {token}{}",
                inquiry(inquired)
            )
        }
        MessageBody::NotHeld { g } => {
            format!("{who} is answered by node {n}: grant {g} is not held")
        }
    }
}
