//! Async code in a test, and an end to what hangs.

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
