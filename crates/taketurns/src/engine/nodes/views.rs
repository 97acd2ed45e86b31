//! Views of a quorum: the views of its nodes, merged into one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use taketurns_core::{HolderView, Name, Pattern, View, WaiterView};
use tokio::sync::mpsc;

use super::super::{Engine, EngineError, EngineFuture, Stamp};
use super::membership::NAME;
use super::node::next;
use super::{NodeSet, stamp};

/// For how long the slow are waited for once a majority has answered: what they know may be of
/// interest, but is not needed.
const GRACE: Duration = Duration::from_millis(200);

impl NodeSet {
    /// Asks all nodes that are there, and answers once all have answered, or a majority and then some.
    async fn ask_all<T: Send + 'static>(
        self: &Arc<Self>,
        ask: impl for<'e> Fn(&'e dyn Engine) -> EngineFuture<'e, Result<T, EngineError>>
        + Clone
        + Send
        + 'static,
    ) -> Result<Vec<T>, EngineError> {
        let (sender, mut answers) = mpsc::unbounded_channel();
        for node in 0..self.count() {
            let (nodes, ask, sender) = (self.clone(), ask.clone(), sender.clone());
            self.runtime.spawn(async move {
                let answer = match nodes.all[node].reach() {
                    Ok(engine) => ask(engine).await,
                    Err(error) => Err(error),
                };
                let _ = sender.send((node, answer));
            });
        }
        drop(sender);
        let majority = self.majority();
        let gather = self.runtime.spawn(async move {
            let (mut found, mut troubles) = (Vec::new(), Vec::new());
            loop {
                let grace = (found.len() >= majority).then_some(GRACE);
                match next(&mut answers, grace).await {
                    Some((_, Ok(value))) => found.push(value),
                    Some((node, Err(error))) => troubles.push((node, error.to_string())),
                    None => return (found, troubles),
                }
            }
        });
        let gathered = gather.await;
        let (found, troubles) =
            gathered.ok_or_else(|| EngineError::Unknown("it has ended".into()))?;
        if found.len() < majority {
            return Err(self.no_quorum(troubles));
        }
        Ok(found)
    }

    pub(crate) async fn view(
        self: &Arc<Self>,
        name: &Name,
        waiters_max: usize,
    ) -> Result<Option<View>, EngineError> {
        let wanted = name.clone();
        let views = self.ask_all(move |engine| {
            let name = wanted.clone();
            Box::pin(async move { engine.view(&name, waiters_max).await })
        });
        let views: Vec<View> = views.await?.into_iter().flatten().collect();
        Ok((!views.is_empty()).then(|| self.merge(views)))
    }

    pub(crate) async fn list(
        self: &Arc<Self>,
        pattern: &Pattern,
        after: Option<&Name>,
        max: usize,
        waiters_max: usize,
    ) -> Result<Vec<(Name, View)>, EngineError> {
        // One more, since one of them may be the list of members.
        let page = max.saturating_add(1);
        let (pattern, after) = (pattern.clone(), after.cloned());
        let pages = self.ask_all(move |engine| {
            let (pattern, after) = (pattern.clone(), after.clone());
            Box::pin(async move { engine.list(&pattern, after.as_ref(), page, waiters_max).await })
        });
        let pages = pages.await?;
        // What comes after the end of a full page, another node may know of and this one not yet.
        let full = pages.iter().filter(|names| names.len() >= page);
        let end = full.filter_map(|names| names.last()).map(|(name, _)| name.clone()).min();
        let mut views: BTreeMap<Name, Vec<View>> = BTreeMap::new();
        for (name, view) in pages.into_iter().flatten() {
            let is_complete = end.as_ref().is_none_or(|end| name <= *end);
            if is_complete && name.as_str() != NAME {
                views.entry(name).or_default().push(view);
            }
        }
        let merged = views.into_iter().map(|(name, views)| (name, self.merge(views)));
        Ok(merged.take(max).collect())
    }

    /// What time it is, if a majority is there.
    pub(crate) async fn ping(self: &Arc<Self>) -> Result<Stamp, EngineError> {
        let pinged = self.ask_all(|engine| engine.ping()).await?;
        debug_assert!(pinged.len() >= self.majority());
        Ok(stamp())
    }

    /// One view of several nodes' views. Who has the votes of a majority is the holder; all others
    /// wait, whatever votes they have.
    fn merge(&self, views: Vec<View>) -> View {
        let mut votes: BTreeMap<_, Vec<HolderView>> = BTreeMap::new();
        for holder in views.iter().flat_map(|view| &view.holders) {
            let (who, why) = (holder.label.who().to_owned(), holder.label.why().to_owned());
            let voter = (holder.client, who, why);
            votes.entry(voter).or_default().push(holder.clone());
        }
        let holder =
            votes.into_values().filter(|votes| votes.len() >= self.majority()).max_by_key(Vec::len);
        let holder = holder.map(|mut votes| {
            votes.sort_by_key(|vote| std::cmp::Reverse(vote.left));
            let held_for = votes.iter().map(|vote| vote.held_for).max().unwrap_or_default();
            let revoked = votes.iter().filter(|vote| vote.revoked).count() >= self.majority();
            let tokens = votes.iter().map(|vote| vote.token);
            let token = tokens.max_by_key(|token| {
                (votes.iter().filter(|vote| vote.token == *token).count(), *token)
            });
            let token = token.flatten();
            let mut holder = votes.swap_remove(self.majority() - 1);
            (holder.held_for, holder.revoked, holder.token) = (held_for, revoked, token);
            holder
        });
        // `None` comes before all others.
        let mut quarantines: Vec<_> = views.iter().map(|view| view.quarantine_left).collect();
        quarantines.sort_unstable();
        let quarantine_left = quarantines.get(self.majority() - 1).copied().flatten();
        let last_token = views.iter().filter_map(|view| view.last_token).max();
        let mut merged = views.into_iter().max_by_key(|view| view.waiting).unwrap_or_default();
        let votes = std::mem::take(&mut merged.holders);
        // Here somebody waits who has the vote of this node.
        let is_holder =
            |vote: &HolderView| holder.as_ref().is_some_and(|holder| holder.client == vote.client);
        for vote in votes.into_iter().filter(|vote| !is_holder(vote)) {
            let HolderView { label, client, ask, held_for, .. } = vote;
            merged.waiters.insert(0, WaiterView::new(label, client, ask, held_for));
            merged.waiting += 1;
        }
        merged.last_token = last_token;
        merged.holders = holder.into_iter().collect();
        merged.members = Vec::new();
        merged.quarantine_left = quarantine_left;
        merged
    }
}
