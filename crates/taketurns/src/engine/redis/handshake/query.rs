//! Asks a server who it is, and reads what it says.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Value, cmd};

use super::Handshake;
use super::facts::{SECTIONS, ServerFacts};
use super::requirements::Placement;
use crate::engine::redis::connection::ServerConnection;
use crate::engine::redis::connection::failure::Failure;

/// One write: facts, the lag where it matters, and whether wake-ups may be published.
pub(crate) async fn ask_facts(
    handshake: &Handshake,
    connection: &ServerConnection,
) -> Result<(ServerFacts, Option<Duration>), Failure> {
    let address = &connection.address;
    // Scripts publish, and say nothing if they may not: so it is tried here, with a message that
    // nobody passes on.
    let mut publish = cmd("PUBLISH");
    publish.arg(handshake.connector.channels.first()).arg("");
    let mut commands = vec![publish];
    commands.extend(SECTIONS.iter().map(|section| {
        let mut info = cmd("INFO");
        info.arg(section);
        info
    }));
    commands.push(cmd("TIME"));
    let guarded = handshake.placement == Placement::Sentinel;
    if guarded {
        let mut settings = cmd("CONFIG");
        settings.arg("GET").arg("min-replicas-to-write").arg("min-replicas-max-lag");
        commands.push(settings);
    }
    let mut answers = connection.send_all(&commands).await;
    // Many users may not read settings. All other commands must succeed.
    let settings = if guarded { answers.pop().and_then(Result::ok) } else { None };
    let lag = settings.and_then(|reply| lag(&reply));
    let time = answers.pop().unwrap_or_else(|| Err(Failure::gone(address)));
    let mut answers = answers.into_iter();
    let published = answers.next().unwrap_or_else(|| Err(Failure::gone(address)));
    let info: Result<Vec<_>, _> = answers.map(|answer| answer.map(|info| text(&info))).collect();
    let info = info.map(|sections| sections.into_iter().flatten().collect::<Vec<_>>().join("\n"));
    // It has neither TIME nor PUBLISH as others have them.
    if info.as_ref().is_ok_and(|info| info.contains("redis_mode:sentinel")) {
        return Err(Failure::is_sentinel(address));
    }
    let (time, _, info) = (time?, published?, info?);
    let strange = || Failure::Broken(format!("{address} sent a malformed reply to INFO or TIME"));
    let facts = now_ms(&time).and_then(|now_ms| ServerFacts::parse(&info, now_ms));
    Ok((facts.ok_or_else(strange)?, lag))
}

/// Our wall clock.
pub(crate) fn wall_ms() -> u64 {
    crate::clock::millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Milliseconds from what TIME answered.
pub(crate) fn now_ms(time: &Value) -> Option<u64> {
    let [seconds, micros] = time.as_sequence()? else { return None };
    let (seconds, micros) =
        (text(seconds)?.parse::<u64>().ok()?, text(micros)?.parse::<u64>().ok()?);
    seconds.checked_mul(1_000)?.checked_add(micros / 1_000)
}

/// Both settings have to be there for a master without replicas to stop taking writes.
pub(crate) fn lag(reply: &Value) -> Option<Duration> {
    let settings: HashMap<_, _> =
        reply.as_map_iter()?.map(|(name, value)| (text(name), text(value))).collect();
    let number = |name: &str| -> Option<u64> {
        let value = settings.get(&Some(name.to_owned()))?.as_ref()?;
        value.parse().ok().filter(|number| *number > 0)
    };
    number("min-replicas-to-write")?;
    number("min-replicas-max-lag").map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_master_is_guarded_only_by_both_settings() {
        let settings = |replicas: &'static str, seconds: &'static str| {
            let pairs = [("min-replicas-to-write", replicas), ("min-replicas-max-lag", seconds)];
            (
                Value::Map(pairs.iter().map(|(name, value)| (bulk(name), bulk(value))).collect()),
                Value::Array(
                    pairs.iter().flat_map(|(name, value)| [bulk(name), bulk(value)]).collect(),
                ),
            )
        };
        for (replicas, seconds, wanted) in
            [("1", "10", Some(10)), ("0", "10", None), ("2", "0", None), ("x", "10", None)]
        {
            let (map, array) = settings(replicas, seconds);
            let wanted = wanted.map(Duration::from_secs);
            assert_eq!((lag(&map), lag(&array)), (wanted, wanted), "{replicas} {seconds}");
        }
        assert_eq!(lag(&Value::Nil), None);
    }

    #[test]
    fn time_is_in_two_parts() {
        assert_eq!(now_ms(&Value::Array(vec![bulk("12"), bulk("345678")])), Some(12_345));
        assert_eq!(now_ms(&Value::Array(vec![bulk("12")])), None);
    }
}
