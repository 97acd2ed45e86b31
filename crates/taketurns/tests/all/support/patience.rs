//! Async code in a test, and an end to what hangs.

use std::time::Duration;

use taketurns::{Error, ErrorKind};
use taketurns_servers::PATIENCE;

/// Runs it on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

/// It comes to an end, whatever it is.
pub(crate) async fn soon<T>(what: &str, future: impl IntoFuture<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future.into_future()).await {
        Ok(output) => output,
        Err(_) => panic!("this hangs: {what}"),
    }
}

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
