//! The conformance suite on PostgreSQL, directly and behind a proxy that shares its connections.

use crate::support::postgres_fixture::PostgresStore;

mod direct {
    use super::*;
    taketurns_conformance::tests!(PostgresStore::new());
}

mod synchronous {
    use super::*;
    taketurns_conformance::engine_tests!(PostgresStore::with(
        "synchronous_commit=on&connections=1"
    ));
}

mod pgbouncer {
    use super::*;
    taketurns_conformance::tests!(PostgresStore::behind_proxy());
}
