//! To which quorum a server belongs: what is written in the pool of that name, read as anybody would who
//! looks at a lock, but without a marker being made.

use redis::cmd;
use taketurns_core::wire::Verb;

use super::super::scripts::{ScriptBinding, TimeFrom, text};
use super::super::view;
use super::gather::ExamConnection;
use crate::clock::millis;
use crate::engine::redis::backend;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::handshake::facts::ServerFacts;
use crate::engine::redis::handshake::module;
use crate::engine::redis::url::RedisConfig;

/// `None` if it can't be read. The pool is a native lock, whatever protocol the node uses.
pub(super) async fn read(
    asking: &ExamConnection<'_>,
    config: &RedisConfig,
    facts: &ServerFacts,
    key: &[u8],
) -> Option<Vec<String>> {
    let binding = ScriptBinding {
        run: facts.run.clone(),
        known: String::new(),
        mark: String::new(),
        until_ms: 0,
        max_lease_ms: millis(config.max_lease),
        channel: format!("{}wake:", config.prefix),
        wire: None,
    };
    let mut script = cmd("EVAL");
    script.arg(text(Verb::View, &binding, TimeFrom::Server)).arg(1).arg(key).arg(0);
    let answer = match asking.one(&script).await {
        // The module has it.
        Err(Failure::WrongType(_)) => {
            let id = asking.one(&module::bind(&binding, None)).await.ok()?;
            let id: String = redis::from_redis_value(id).ok()?;
            let mut view = cmd(backend::DO);
            view.arg(key).arg(id).arg(Verb::View.name()).arg(0);
            asking.one(&view).await
        }
        answer => answer,
    };
    let view = view::read(&answer.ok()?)?.unwrap_or_default();
    Some(view.members.iter().map(|member| member.name.as_str().to_owned()).collect())
}
