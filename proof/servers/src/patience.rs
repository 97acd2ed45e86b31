//! Waiting for a condition: asked again and again, and given up only after a time that no healthy
//! machine needs, however busy. A test that fails here has found something.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::SetupError;

/// How long a condition may take to come true.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Asks until the answer is something, and returns it. `what` names the condition in the error.
///
/// ```
/// let mut looks = 0;
/// let third = taketurns_servers::eventually("the third look", || {
///     looks += 1;
///     (looks == 3).then_some(looks)
/// })?;
/// assert_eq!(third, 3);
/// # Ok::<(), taketurns_servers::SetupError>(())
/// ```
///
/// # Errors
///
/// [`SetupError::Patience`] after [`PATIENCE`].
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> Result<T, SetupError> {
    settled(what, || ask().ok_or(String::new()))
}

/// The same, with what was seen instead in the error.
pub(crate) fn settled<T>(
    what: &str,
    mut ask: impl FnMut() -> Result<T, String>,
) -> Result<T, SetupError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(seen) if Instant::now() >= deadline => {
                let last = if seen.is_empty() { seen } else { format!(", but {seen}") };
                return Err(SetupError::Patience { what: what.to_owned(), last });
            }
            Err(_) => sleep(PAUSE),
        }
    }
}
