//! State that is lost under the module.

use taketurns::ErrorKind;
use taketurns_servers::{Flavor, on_both};

use crate::engine::patience::{block_on, soon};
use crate::engine::{connect, with_module};

on_both! {
    fn a_flush_is_noticed_by_who_was_connected(flavor: Flavor) {
        let server = with_module(flavor).start().expect("a server");
        block_on(async {
            let (holder, other) = (connect(&server.url()).await, connect(&server.url()).await);
            let guard = soon("an acquire", holder.mutex("l").acquire()).await.expect("a guard");
            assert!(server.cli(&["FLUSHALL"]).is_ok());
            let error = soon("a try", other.mutex("l").try_acquire()).await.expect_err("forgotten");
            assert_eq!(error.kind(), ErrorKind::Quarantined, "{error}");
            let shown = other.inspect("l").await.expect("a view").expect("a quarantine");
            assert!(shown.quarantine_left.is_some());
            drop(guard);
        });
    }

    fn a_flush_of_keys_and_scripts_is_noticed_by_a_newcomer(flavor: Flavor) {
        let server = with_module(flavor).start().expect("a server");
        block_on(async {
            let holder = connect(&server.url()).await;
            let guard = soon("an acquire", holder.mutex("l").acquire()).await.expect("a guard");
            assert!(server.cli(&["SCRIPT", "FLUSH"]).is_ok());
            assert!(server.cli(&["FLUSHALL"]).is_ok());
            let other = connect(&server.url()).await;
            let error = soon("a try", other.mutex("l").try_acquire()).await.expect_err("forgotten");
            assert_eq!(error.kind(), ErrorKind::Quarantined, "{error}");
            drop(guard);
        });
    }

    fn a_restart_is_a_quarantine(flavor: Flavor) {
        let server = with_module(flavor).appendonly(true).start().expect("a server");
        block_on(async {
            let locks = connect(&server.url()).await;
            let guard = soon("an acquire", locks.mutex("l").acquire()).await.expect("a guard");
            let token = guard.token();
            server.kill();
            server.restart().expect("it comes back");
            let again = connect(&server.url()).await;
            let error = soon("a try", again.mutex("m").try_acquire()).await.expect_err("a new run");
            assert_eq!(error.kind(), ErrorKind::Quarantined, "{error}");
            let shown = again.inspect("l").await.expect("a view").expect("a lock");
            assert_eq!((shown.holders.len(), shown.last_token), (1, Some(token)));
            soon("a release", guard.release()).await.expect("it is known still");
        });
    }
}
