//! The words of a program's requests, as `FENCELOCK.DO` takes them. They are written by hand here, since they are what
//! another implementation of the protocol would send.

/// An acquire that may arrive at any time. `waiter_lease` is in milliseconds, or `-` for no wait.
pub(crate) fn acquire(
    (owner, client): (&str, &str),
    ask: &str,
    lease_ms: u64,
    waiter_lease: &str,
    who: &str,
) -> String {
    let far = u64::MAX;
    format!("acquire {lease_ms:08}{owner}{client}{ask}\n{who}\n {waiter_lease} {far}")
}

/// A renewal.
pub(crate) fn renew(owner: &str, client: &str, lease_ms: u64) -> String {
    format!("renew {lease_ms:08}{owner}{client}")
}
