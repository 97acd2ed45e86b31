//! Random bits from the operating system, for ids and jitter.

/// 128 bits for an owner: a secret.
pub(crate) fn bits128() -> u128 {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    u128::from_ne_bytes(bytes)
}

/// 64 bits for whatever must only be unlikely to meet.
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
    // It fails only where the system has no source of randomness at all. A guessable owner would be
    // worse than no lock.
    getrandom::fill(bytes).expect("the operating system gives no random bits");
}
