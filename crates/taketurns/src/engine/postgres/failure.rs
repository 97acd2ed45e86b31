//! What an error of the server, or of the connection, means for the request.
//!
//! Until its COMMIT was sent, a step was certainly not carried out. From then on only a plain error of the server says
//! so: a connection that ends leaves it unknown.

use std::error::Error as _;

use tokio_postgres::Error as PgError;
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::engine::EngineError;

const NEWER_OR_CHANGED: &str = "the tables of the schema taketurns are not those of this release: were they changed by \
     hand, or only partly made? `taketurns schema postgres` shows how they should be";
const NO_RIGHTS: &str = "the user needs SELECT, INSERT, UPDATE and DELETE on the tables of the schema taketurns, and USAGE \
     on the schema: see docs/postgres.md";

/// An error before the COMMIT was sent: the request was not carried out.
pub(super) fn before_commit(error: &PgError) -> EngineError {
    match error.as_db_error() {
        Some(error) => of_server(error),
        None => EngineError::Unreachable(text_of(error)),
    }
}

/// An error in answer to a COMMIT, or instead of an answer.
pub(super) fn at_commit(error: &PgError) -> EngineError {
    match error.as_db_error() {
        Some(refusal) if refusal.parsed_severity() == Some(Severity::Error) => of_server(refusal),
        _ => EngineError::Unknown(text_of(error)),
    }
}

/// A standby may not have what was committed: the wait for it was cancelled.
pub(super) fn commit_in_doubt() -> EngineError {
    EngineError::Unknown(
        "the server gave up waiting for its synchronous standby; the step may be lost if that takes over".to_owned(),
    )
}

/// Does the error leave the connection usable, after a ROLLBACK?
///
/// One to a server that has become a standby is of no use.
pub(super) fn keeps_connection(error: &PgError) -> bool {
    error.as_db_error().is_some_and(|error| {
        error.parsed_severity() == Some(Severity::Error) && !is_of_standby(error)
    })
}

fn is_of_standby(error: &DbError) -> bool {
    *error.code() == SqlState::READ_ONLY_SQL_TRANSACTION
        || error.message().contains("during recovery")
        || error.message().contains("recovery is in progress")
}

/// Does a server without our tables say this?
pub(super) fn is_missing_schema(error: &PgError) -> bool {
    let code = error.as_db_error().map(DbError::code);
    code == Some(&SqlState::UNDEFINED_TABLE) || code == Some(&SqlState::INVALID_SCHEMA_NAME)
}

fn of_server(error: &DbError) -> EngineError {
    let code = error.code();
    let said = error.message();
    let (class, _) = code.code().split_at_checked(2).unwrap_or_default();
    if *code == SqlState::LOCK_NOT_AVAILABLE {
        return EngineError::Unreachable(
            "another session keeps the row of this lock blocked for longer than response_timeout"
                .to_owned(),
        );
    }
    if *code == SqlState::CANNOT_CONNECT_NOW {
        return EngineError::Loading(format!("the server does not take connections yet: {said}"));
    }
    if is_of_standby(error) {
        return EngineError::Unreachable(
            "the server is a read-only standby; name the primary, or all hosts: postgres://a,b/database".to_owned(),
        );
    }
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        return EngineError::Broken(format!("{said}: {NO_RIGHTS}"));
    }
    if *code == SqlState::DISK_FULL {
        return EngineError::Broken(format!("the server's disk is full: {said}"));
    }
    match class {
        // Connection, transaction rolled back, resources, intervention of an operator, system.
        "08" | "25" | "40" | "53" | "55" | "57" | "58" => EngineError::Unreachable(said.to_owned()),
        "28" | "3D" => EngineError::Broken(said.to_owned()),
        "42" | "3F" => EngineError::Broken(format!("{said}: {NEWER_OR_CHANGED}")),
        _ => EngineError::Broken(format!(
            "the server refused a step: {said} (SQLSTATE {})",
            code.code()
        )),
    }
}

/// The last cause says it best: "Connection refused", for instance.
fn text_of(error: &PgError) -> String {
    if error.is_closed() {
        return "the connection is closed".to_owned();
    }
    match error.source() {
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    }
}
