//! Every limit in one place. A limit that is met is an error that names it, unless its line says
//! otherwise.

/// Longest name of a lock or of a pool's member, in bytes.
pub const NAME_BYTES_MAX: usize = 512;
/// Longest label (`who` and `why` together), in bytes.
pub const LABEL_BYTES_MAX: usize = 256;
/// Shortest lease: below this the safety margin eats most of it.
pub const LEASE_MS_MIN: u64 = 10;
/// Longest lease that any store takes. A store may set a lower one.
pub const LEASE_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// The lease that a client asks for when nothing else is said.
pub const LEASE_MS_DEFAULT: u64 = 30_000;
/// How long a waiter keeps its place without a refresh when nothing else is said.
pub const WAITER_LEASE_MS_DEFAULT: u64 = 3_000;
/// Longest waiter lease that a client keeps: the dead may hold up the living for as long.
pub const WAITER_LEASE_MS_MAX: u64 = 60_000;
/// Most waiters in one lock's queue.
pub const QUEUE_MAX: usize = 100_000;
/// Most holders of one lock at a time; a further one waits.
pub const HOLDERS_MAX: usize = 1_024;
/// Most members of one pool.
pub const MEMBERS_MAX: usize = 1_024;
/// Most permits of one semaphore.
pub const PERMITS_MAX: u32 = 1_000_000;
/// Most waiters that one step skips or grants. What is left is done by the next step.
pub const STEP_MAX: u32 = 64;
/// Places that an enqueue looks at on its way, so that the dead can't pile up behind the living.
pub const SWEEP_PER_ENQUEUE: u32 = 2;
/// How long an unused lock's last token is remembered.
pub const RETENTION_MS: u64 = 60 * 60 * 1000;
/// Most cancelled owners that one lock remembers; past it the one that matters least is dropped.
pub const TOMBS_MAX: usize = 10_000;
/// Most turns that a client hands on by itself before the lock goes back.
pub const LOCAL_TURNS_MAX: u32 = 10_000;
/// How far ahead of the wall clock tokens are reserved for local turns. A lock that is forgotten begins anew
/// at the clock: so no token may be further ahead of it than a lock is remembered for, by far.
pub const TOKENS_AHEAD_US: u64 = 10_000;
/// Tokens stay below this, since JavaScript and Lua clients hold them in a double.
pub const TOKEN_MAX: u64 = (1 << 53) - 1;
/// The wall clock floors tokens only up to here (the year 2112): a clock gone mad must not use up
/// the numbers that are left.
pub const TOKEN_CLOCK_MAX: u64 = 1 << 52;
/// No ticket, and no token that a quorum agrees on, is past this: no clock leads there, and it leaves as many
/// numbers as anybody can use up.
pub const AGREED_MAX: u64 = TOKEN_CLOCK_MAX + TOKEN_CLOCK_MAX / 2;
/// No lock counts past this, whether tokens, places, members that become free or eras: from
/// [`AGREED_MAX`] on that would take longer than anything lasts. One that is stored and has is damaged, and
/// might go on past [`TOKEN_MAX`].
pub const COUNTED_MAX: u64 = AGREED_MAX + (TOKEN_MAX - AGREED_MAX) / 2;
/// How far ahead of its own clock a node of a quorum follows a client's estimate of the time.
pub const HINT_AHEAD_US: u64 = 60_000_000;

/// Is this a lease, or a waiter lease, that a lock takes?
pub fn is_lease(lease_ms: u64) -> bool {
    (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&lease_ms)
}

/// No quarantine is meant to end later than this from now: one that does was meant for a clock that
/// was set back since. Far from exact, since one client may add a lag of which another knows nothing.
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
