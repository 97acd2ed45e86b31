//! What a wire has no form for, and what was mixed up.

use taketurns::ErrorKind;
use taketurns_servers::{Flavor, on_both};

use super::*;

on_both! {
    fn without_a_token_nothing_is_acquired_unless_that_is_known(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let url = format!("{}?protocol=plain", server.url());
            let locks = soon("connecting", taketurns::connect(&url)).await.expect("a server");
            let error = soon("an acquire", locks.mutex("l").acquire()).await.expect_err("unfenced");
            assert_eq!(error.kind(), ErrorKind::Unfenced);
            assert!(error.to_string().contains("unfenced=ok"), "{error}");
            let guarantees = locks.guarantees();
            assert!(!guarantees.fenced && !guarantees.fair && !guarantees.event_driven);
        });
    }

    fn a_key_of_another_type_is_named_and_left_alone(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = speaks(&server, "plain").await;
            server.cli(&["RPUSH", "l", "x"]);
            let error = soon("a try", locks.mutex("l").try_acquire()).await.expect_err("a list");
            assert_eq!(error.kind(), ErrorKind::Store);
            assert!(error.to_string().contains("protocol=plain"), "{error}");
            assert_eq!(server.cli(&["LLEN", "l"]).int(), Some(1));
        });
    }

    fn other_kinds_are_refused(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        block_on(async {
            let locks = speaks(&server, "plain").await;
            let error = soon("an acquire", locks.semaphore("s", 3).acquire()).await.expect_err("no");
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("protocol=plain knows no semaphore"), "{error}");
            let error = soon("an add", locks.pool("p").add("m")).await.expect_err("no");
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        });
    }
}
