//! Acquires that must fail, and why they do.

use std::time::Duration;

use taketurns::{Error, ErrorKind};

use super::patience::soon;

/// Acquires what nobody can have, and returns why not. On a busy machine the time given may be over before
/// the store has answered: then it asks again with twice the time.
pub(crate) async fn in_vain<A, G>(acquire: impl Fn(Duration) -> A) -> Error
where
    A: IntoFuture<Output = Result<G, Error>>,
{
    in_vain_until(|error| error.kind() != ErrorKind::Unreachable, acquire).await
}

/// The same, if a store that is out of reach is an answer too.
pub(crate) async fn in_vain_until<A, G>(
    is_answer: impl Fn(&Error) -> bool,
    acquire: impl Fn(Duration) -> A,
) -> Error
where
    A: IntoFuture<Output = Result<G, Error>>,
{
    let mut within = Duration::from_millis(500);
    let asks = async {
        loop {
            let Err(error) = acquire(within).await else { panic!("nobody can have it") };
            if is_answer(&error) {
                return error;
            }
            within *= 2;
        }
    };
    soon("there is time enough for an answer", asks).await
}
