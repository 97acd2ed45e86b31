//! Random bits for ids and jitter, and owners: secrets that no two acquires share.
//!
//! An owner is a keyed hash of a counter and the time, because a system call for each would take a fifth of an
//! uncontended acquire in memory. The key is random and belongs to this process alone: if two processes made the same
//! owner, both would be granted. So the key is in memory that a fork wipes ([`wiped`]), and a child that finds no key
//! asks the system for each owner. If a virtual machine is suspended and copied, each copy has the key, and only the
//! time tells their owners apart: see SECURITY.md.

#[cfg(target_os = "linux")]
mod wiped;

use taketurns_core::Owner;

/// Returns a fresh owner, at a local time.
pub(crate) fn owner(now_us: u64) -> Owner {
    Owner::from_bits(keyed(now_us).unwrap_or_else(bits128))
}

/// Returns `None` where there is no key: after a fork, on a simulated machine, or where a fork would copy it.
#[cfg(target_os = "linux")]
fn keyed(now_us: u64) -> Option<u128> {
    use std::hash::Hasher;
    use std::sync::atomic::{AtomicU64, Ordering};

    use siphasher::sip128::{Hasher128, SipHasher24};

    static COUNTER: AtomicU64 = AtomicU64::new(0);
    #[cfg(feature = "simulation")]
    if crate::simulation::current().is_some() {
        return None;
    }
    let [first, second] = KEY.as_ref()?.read()?;
    let mut hash = SipHasher24::new_with_keys(first, second);
    hash.write_u64(COUNTER.fetch_add(1, Ordering::Relaxed));
    hash.write_u64(now_us);
    Some(hash.finish128().as_u128())
}

#[cfg(target_os = "linux")]
static KEY: std::sync::LazyLock<Option<wiped::Key>> = std::sync::LazyLock::new(|| {
    // Also on a simulated machine: it is the whole process's, and the first life in it would have drawn more
    // numbers than the same life later.
    let mut bytes = [0; 16];
    fill_from_system(&mut bytes);
    wiped::Key::new(u128::from_ne_bytes(bytes))
});

/// Makes the key. Call it when a client starts: a process that is forked meanwhile could never make one.
pub(crate) fn prepare() {
    #[cfg(target_os = "linux")]
    std::sync::LazyLock::force(&KEY);
}

#[cfg(not(target_os = "linux"))]
fn keyed(_: u64) -> Option<u128> {
    None
}

fn bits128() -> u128 {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    u128::from_ne_bytes(bytes)
}

/// Returns 64 bits for ids that only have to be unlikely to collide.
pub(crate) fn bits64() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}

fn fill(bytes: &mut [u8]) {
    #[cfg(feature = "simulation")]
    if crate::simulation::current().is_some() {
        for chunk in bytes.chunks_mut(8) {
            let random = crate::simulation::ask(|machine| machine.random()).unwrap_or_default();
            chunk.copy_from_slice(&random.to_ne_bytes()[..chunk.len()]);
        }
        return;
    }
    fill_from_system(bytes);
}

fn fill_from_system(bytes: &mut [u8]) {
    // It fails only where the system has no source of randomness at all. A guessable owner would be
    // worse than no lock.
    getrandom::fill(bytes).expect("the operating system gives no random bits");
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_owners_are_the_same() {
        let owners: HashSet<Owner> = (0..1_000).map(|_| owner(7)).collect();
        assert_eq!(owners.len(), 1_000);
        #[cfg(target_os = "linux")]
        assert!(keyed(7).is_some(), "without a system call");
    }
}
