//! Which planted bug is switched on: the one that `PLANTED` names, if any.

use std::sync::OnceLock;

/// Is it this one?
pub fn on(name: &str) -> bool {
    static PLANTED: OnceLock<Option<String>> = OnceLock::new();
    PLANTED.get_or_init(|| std::env::var("PLANTED").ok()).as_deref() == Some(name)
}
