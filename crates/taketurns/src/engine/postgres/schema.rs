//! The tables: making them at the first use, and bringing older ones up to date.

use std::time::Duration;

use tokio_postgres::types::Type;

use super::failure::{at_commit, before_commit, is_missing_schema};
use super::session::PgSession;
use super::statements;
use crate::clock::millis;
use crate::engine::EngineError;

/// What each version adds to the one before. A released version never changes.
const VERSIONS: [&[&str]; 2] = [
    &[
        include_str!("schema/1-locks.sql"),
        include_str!("schema/1-fence.sql"),
        include_str!("schema/1-steps.sql"),
    ],
    &[include_str!("schema/2-once.sql")],
];

/// The version of the tables that this release uses.
pub(super) const VERSION: i32 = VERSIONS.len() as i32;

/// One client at a time makes or changes tables. The number stands for nothing else.
const MIGRATION_LOCK: i64 = 0x7461_6b65_7475_726e;

/// All that makes tables of this version those of this release. Version 0: the database has none.
pub(crate) fn sql(from: u32) -> String {
    let newer = VERSIONS.get(from as usize..).unwrap_or_default();
    newer.concat().join("\n")
}

/// What is wrong with the tables, if something is, of this version.
pub(super) fn refusal(version: i32) -> Option<EngineError> {
    (version > VERSION).then(|| {
        EngineError::Broken(format!(
            "the tables have version {version}, and this release knows version {VERSION}: use a newer release, the same \
             one everywhere"
        ))
    })
}

/// Makes the tables if they are missing and the user may, and has them say the longest lease of all clients.
pub(super) async fn prepare(session: &PgSession, max_lease: Duration) -> Result<(), EngineError> {
    let mut store = read_store(session).await?;
    if store.is_none_or(|(version, _)| version < VERSION) {
        migrate(session).await?;
        store = read_store(session).await?;
    }
    let Some((version, longest_ms)) = store else {
        let why = "the table taketurns.store is empty: it was changed by hand";
        return Err(EngineError::Broken(why.to_owned()));
    };
    if let Some(refusal) = refusal(version) {
        return Err(refusal);
    }
    let max_lease_ms = millis(max_lease) as i64;
    if longest_ms < max_lease_ms {
        raise_max_lease(session, max_lease_ms).await?;
    }
    Ok(())
}

/// Version and longest lease; `None` if there are no tables.
pub(super) async fn read_store(session: &PgSession) -> Result<Option<(i32, i64)>, EngineError> {
    match session.client.query_typed_opt(statements::STORE, &[]).await {
        Ok(Some(row)) => {
            let store = row.try_get(0).and_then(|version| Ok((version, row.try_get(1)?)));
            store.map(Some).map_err(|error| before_commit(&error))
        }
        Ok(None) => Ok(None),
        Err(error) if is_missing_schema(&error) => Ok(None),
        Err(error) => Err(before_commit(&error)),
    }
}

/// All or nothing: the tables and their version change in one transaction.
async fn migrate(session: &PgSession) -> Result<(), EngineError> {
    let begin = format!(
        "{}; SELECT pg_advisory_xact_lock({MIGRATION_LOCK})",
        statements::begin(Duration::from_secs(60), true)
    );
    let migrated = async {
        session.client.batch_execute(&begin).await.map_err(|error| before_commit(&error))?;
        // Another client may have done it while we waited. A query that fails would end the transaction.
        let exists = "SELECT to_regclass('taketurns.store') IS NOT NULL";
        let row = session.client.query_typed_one(exists, &[]).await;
        let exists: bool =
            row.and_then(|row| row.try_get(0)).map_err(|error| before_commit(&error))?;
        let version =
            if exists { read_store(session).await?.map(|(version, _)| version) } else { Some(0) };
        // A newer one, and an empty table, are judged by the caller.
        let done = usize::try_from(version.unwrap_or(VERSION)).unwrap_or(usize::MAX);
        for sql in VERSIONS.get(done..).unwrap_or_default().concat() {
            let made = session.client.batch_execute(sql).await;
            made.map_err(|error| may_not_create(&error, done))?;
        }
        session.client.batch_execute(statements::COMMIT).await.map_err(|error| at_commit(&error))
    };
    let migrated = migrated.await;
    if migrated.is_err() {
        let _ = session.client.batch_execute(statements::ROLLBACK).await;
    }
    migrated
}

fn may_not_create(error: &tokio_postgres::Error, version: usize) -> EngineError {
    let is_denied = error.code().is_some_and(|code| code.code() == "42501");
    match before_commit(error) {
        _ if is_denied && version == 0 => EngineError::Broken(
            "the schema taketurns is not there yet, and this user may not make it. As a user who may: \
             taketurns schema postgres | psql, and then GRANT the rights of docs/postgres.md"
                .to_owned(),
        ),
        _ if is_denied => EngineError::Broken(format!(
            "the tables have version {version}, this release needs version {VERSION}, and this user may not change them. \
             As their owner: taketurns schema postgres --from {version} | psql --single-transaction"
        )),
        error => error,
    }
}

/// Before any such lease is granted, and on disk: a crash must not forget it.
async fn raise_max_lease(session: &PgSession, max_lease_ms: i64) -> Result<(), EngineError> {
    let begin = statements::begin(Duration::from_secs(60), true);
    session.client.batch_execute(&begin).await.map_err(|error| before_commit(&error))?;
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 1] =
        [(&max_lease_ms, Type::INT8)];
    let raised = session.client.query_typed(statements::RAISE_MAX_LEASE, &params).await;
    let committed = session.client.batch_execute(statements::COMMIT).await;
    raised.map_err(|error| before_commit(&error))?;
    committed.map_err(|error| at_commit(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_a_newer_release_are_refused() {
        assert_eq!(refusal(VERSION), None);
        let newer = refusal(VERSION + 1).unwrap().to_string();
        assert!(newer.contains("newer release"), "{newer}");
    }
}
