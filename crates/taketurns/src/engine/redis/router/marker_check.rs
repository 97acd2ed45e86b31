//! A command to a node of a Cluster, and right behind it, in the same write, a look at the marker of
//! the node: whatever was lost before the command was carried out is seen, at no further round trip.

use redis::{Value, cmd};

use crate::engine::redis::connection::WriteCommand;
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::handshake::ServerSession;

/// Is the marker to be looked at?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkerCheck {
    No,
    Behind,
}

/// What was seen of the marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkerFinding {
    /// It is the one that the session knows, or is on its way to another node and can't be read, or
    /// nobody had to look.
    Same,
    /// Its slot is another node's, and the marker with it: our map is old.
    Elsewhere,
    Changed,
}

pub(crate) async fn send(
    session: &ServerSession,
    command: &dyn WriteCommand,
    asking: bool,
    look: MarkerCheck,
) -> Result<(Value, MarkerFinding), Failure> {
    let marker = session.backend.to_confirm.as_ref().filter(|_| look == MarkerCheck::Behind);
    if !asking && marker.is_none() {
        return Ok((session.connection().send(command).await?, MarkerFinding::Same));
    }
    let (first, mut get) = (cmd("ASKING"), cmd("GET"));
    get.arg(session.marker_key.as_slice());
    let mut words: Vec<&dyn WriteCommand> = Vec::with_capacity(3);
    if asking {
        words.push(&first);
    }
    words.push(command);
    if marker.is_some() {
        words.push(&get);
    }
    let mut answers = session.connection().send_all(&words).await;
    let nothing =
        || Err(Failure::Unknown(format!("{} did not answer", session.connection().address)));
    let looked = marker.map(|marker| (marker, answers.pop().unwrap_or_else(nothing)));
    // If it was not carried out, it does not matter what was seen.
    let value = answers.pop().unwrap_or_else(nothing)?;
    Ok((value, looked.map_or(Ok(MarkerFinding::Same), |(marker, found)| compare(marker, found))?))
}

fn compare(marker: &str, found: Result<Value, Failure>) -> Result<MarkerFinding, Failure> {
    match found {
        Ok(Value::BulkString(found)) if found == marker.as_bytes() => Ok(MarkerFinding::Same),
        Ok(_) => Ok(MarkerFinding::Changed),
        Err(Failure::Ask { .. } | Failure::TryAgain(_)) => Ok(MarkerFinding::Same),
        Err(Failure::Moved { .. }) => Ok(MarkerFinding::Elsewhere),
        // The command itself was carried out.
        Err(failure) => {
            Err(Failure::Unknown(crate::engine::EngineError::from(failure).to_string()))
        }
    }
}
