//! What `--quick` leaves out: every test that needs a server, a browser, a terminal or a package.
//!
//! In a quick run no server is found (`TAKETURNS_NO_SERVERS`), so that a test which needs one and is not
//! named here fails on every machine alike.

use super::suite::Suite;

/// Suites that are quick, each with the parts of names by which its other tests are known.
const QUICK: [(&str, &[&str]); 11] = [
    (
        "taketurns",
        &[
            "engine::redis::differential::",
            "engine::redis::node::tests::",
            "engine::redis::router::tests::",
            "multiplexer::a_crowd_is_written_at_once",
        ],
    ),
    (
        "taketurns/all",
        &[
            "conformance_foreign::",
            "conformance_redis",
            "conformance_redlock::",
            "doctor::quorum::",
            "doctor::server::",
            "doctor::sets::",
            "election::an_observer_outlasts_a_store_that_is_gone_for_a_while",
            "fenced::",
            "metrics::spans::a_connection_that_is_made_anew_is_a_span",
            "postgres",
            "quorum::",
            "redis::",
            "redlock::",
            "servers::",
            "::quorum",
            "::redis",
            "::valkey",
        ],
    ),
    ("taketurns-bench", &[]),
    ("taketurns-cli", &[]),
    (
        "taketurns-cli/all",
        &[
            // Pages are typed with Redis, PostgreSQL, Python and Node at hand.
            "docs::pages::",
            "docs::recipes::",
            "docs::yaml::",
            "::redis",
            "::valkey",
            "cli::loading::",
            "cli::quarantine::",
            "cli::quorum::",
            // A browser, schemathesis and tmux.
            "serve::page::",
            "serve::described::",
            "cli::top::",
            "elect::when_the_leader_is_killed_the_other_takes_over_on_a_server",
            "serve::api::a_store_that_does_not_answer_is_told_of",
            "serve::api::those_who_watch_cost_the_store_nothing",
            "terminal::the_waiting_line_says_that_a_restarted_store_grants_nothing",
            "watch::a_store_that_goes_away_is_looked_for_again",
        ],
    ),
    ("taketurns-core", &[]),
    ("taketurns-core/all", &[]),
    ("taketurns-history", &[]),
    ("taketurns-history/all", &[]),
    ("taketurns-sim/seeds", &[]),
    ("xtask", &[]),
];

/// The suites of these that are quick, without the rest of their tests.
pub(super) fn only(suites: Vec<Suite>) -> Vec<Suite> {
    let quick = |suite: Suite| {
        let (_, skip) = QUICK.into_iter().find(|(name, _)| *name == suite.name)?;
        Some(Suite { skip: Some(skip), ..suite })
    };
    suites.into_iter().filter_map(quick).collect()
}
