//! Every limit in one place. Exceeding a limit is an error that names the limit, unless its doc
//! says otherwise.

/// Longest name of a lock or of a pool's member, in bytes.
pub const NAME_BYTES_MAX: usize = 512;
/// Longest label (`who` and `why` together), in bytes.
pub const LABEL_BYTES_MAX: usize = 256;
/// Shortest lease: the safety margin would take most of a shorter one.
pub const LEASE_MS_MIN: u64 = 10;
/// Longest lease that any store accepts. A store may set a lower limit.
pub const LEASE_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// The default lease that a client asks for.
pub const LEASE_MS_DEFAULT: u64 = 30_000;
/// The default waiter lease: how long a waiter keeps its place without a refresh.
pub const WAITER_LEASE_MS_DEFAULT: u64 = 3_000;
/// Longest waiter lease that a client asks for: a dead waiter can delay the waiters behind it for
/// that long.
pub const WAITER_LEASE_MS_MAX: u64 = 60_000;
/// Most waiters in one lock's queue.
pub const QUEUE_MAX: usize = 100_000;
/// Most holders of one lock at a time. One more has to wait.
pub const HOLDERS_MAX: usize = 1_024;
/// Most members of one pool.
pub const MEMBERS_MAX: usize = 1_024;
/// Most permits of one semaphore.
pub const PERMITS_MAX: u32 = 1_000_000;
/// Most waiters that one step skips or grants. The next step continues.
pub const STEP_MAX: u32 = 64;
/// How many places each enqueue checks for dead waiters, so that they can't pile up behind live
/// ones.
pub const SWEEP_PER_ENQUEUE: u32 = 2;
/// How long the last token of an unused lock is remembered.
pub const RETENTION_MS: u64 = 60 * 60 * 1000;
/// By how much a server's key may outlive the state that it keeps. Its expiry moves once in this time instead of in
/// every step.
pub const EXPIRY_SLACK_MS: u64 = 600_000;
/// Most cancelled owners that one lock remembers. Past the limit, the oldest tombstone is dropped.
pub const TOMBS_MAX: usize = 10_000;
/// Most turns that a client passes between its own tasks before it releases the lock.
pub const LOCAL_TURNS_MAX: u32 = 10_000;
/// How far ahead of the wall clock tokens are reserved for local turns. A lock that is forgotten
/// starts again at the clock, so this must be far less than [`RETENTION_MS`].
pub const TOKENS_AHEAD_US: u64 = 10_000;
/// Longest result of work that a once remembers, in bytes.
pub const NOTE_BYTES_MAX: usize = 256;
/// The shortest time that a once remembers what became of the work.
pub const REMEMBER_MS_MIN: u64 = 1_000;
/// The longest time that a once remembers what became of the work.
pub const REMEMBER_MS_MAX: u64 = 31 * 24 * 60 * 60 * 1000;
/// How long a once remembers what became of the work by default.
pub const REMEMBER_MS_DEFAULT: u64 = 24 * 60 * 60 * 1000;
/// Tokens stay below this, because JavaScript and Lua clients hold them in a double.
pub const TOKEN_MAX: u64 = (1 << 53) - 1;
/// The wall clock raises tokens only up to here (the year 2112): a broken clock must not use up the
/// remaining numbers.
pub const TOKEN_CLOCK_MAX: u64 = 1 << 52;
/// The largest ticket, and the largest token that a quorum agrees on. No clock reaches it, and more
/// numbers are left above it than anybody can use up.
pub const AGREED_MAX: u64 = TOKEN_CLOCK_MAX + TOKEN_CLOCK_MAX / 2;
/// No lock counts past this, whether tokens, places, freed members or eras: counting up to it from
/// [`AGREED_MAX`] would take too long. A stored lock with a larger number is damaged, and its
/// counter might pass [`TOKEN_MAX`].
pub const COUNTED_MAX: u64 = AGREED_MAX + (TOKEN_MAX - AGREED_MAX) / 2;
/// How far ahead of its own clock a quorum's node follows a client's estimate of the time.
pub const HINT_AHEAD_US: u64 = 60_000_000;

/// Returns whether a lock accepts this as a lease or a waiter lease.
pub fn is_lease(lease_ms: u64) -> bool {
    (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&lease_ms)
}

/// Returns how far in the future a quarantine can end. One that ends later was set before the clock
/// was set back. Far from exact, because a client may add a replication lag that another client
/// doesn't know of.
pub fn quarantine_ms_max(max_lease_ms: u64) -> u64 {
    max_lease_ms.saturating_mul(2).saturating_add(60_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_an_integer_that_a_double_holds_exactly() {
        assert_eq!(TOKEN_MAX, 9_007_199_254_740_991, "JavaScript's Number.MAX_SAFE_INTEGER");
    }

    #[test]
    fn a_clock_gone_mad_leaves_as_many_tokens_as_it_used_up() {
        assert_eq!(TOKEN_MAX - TOKEN_CLOCK_MAX, TOKEN_CLOCK_MAX - 1);
    }
}
