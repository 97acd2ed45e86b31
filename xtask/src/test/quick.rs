//! What `--quick` leaves out: every test that needs a server, a browser, a terminal or a package.

use super::suite::Suite;

/// Suites that are quick, each with the tests that are not.
const QUICK: [(&str, &[&str]); 0] = [];

/// The suites of these that are quick, without the rest of their tests.
pub(super) fn only(suites: Vec<Suite>) -> Vec<Suite> {
    let quick = |suite: Suite| {
        let (_, skip) = QUICK.into_iter().find(|(name, _)| *name == suite.name)?;
        Some(Suite { skip, ..suite })
    };
    suites.into_iter().filter_map(quick).collect()
}
