//! What is refused, and what is promised.

use taketurns::{Connect, ErrorKind};

use super::nodes::{Nodes, connect};
use crate::support::patience::{block_on, soon};

#[test]
fn nodes_with_different_protocols_are_no_store() {
    block_on(async {
        let url = "quorum:redis://a?protocol=plain,redis://b,redis://c?protocol=plain";
        let error = soon("connecting", Connect::new(url).open()).await.expect_err("no store");
        assert_eq!(error.kind(), ErrorKind::InvalidUrl);
        assert!(error.to_string().contains("all nodes have to speak the same"), "{error}");
    });
}

#[test]
fn without_unfenced_ok_on_every_node_nothing_is_acquired() {
    block_on(async {
        let nodes = Nodes::start(3);
        let url = nodes.url().replacen("&unfenced=ok", "", 1);
        let locks = connect(&url).await;
        let error = soon("an acquire", locks.mutex("l").acquire()).await.expect_err("no token");
        assert_eq!(error.kind(), ErrorKind::Unfenced, "{error}");
        nodes.nothing_is_left("l");
    });
}

#[test]
fn it_promises_neither_order_nor_tokens_and_has_mutexes_alone() {
    block_on(async {
        let nodes = Nodes::start(3);
        let locks = nodes.connect().await;
        let promised = locks.guarantees();
        assert!(!promised.fair && !promised.fenced && !promised.event_driven, "{promised:?}");
        let other_kinds = [
            soon("a write", locks.rwlock("l").write()).await.map(drop),
            soon("a permit", locks.semaphore("s", 2).acquire()).await.map(drop),
            soon("a member", locks.pool("p").any()).await.map(drop),
        ];
        for refused in other_kinds {
            let error = refused.expect_err("no such thing");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
        let acquire = locks.mutex("l").acquire().why("for the tests");
        let guard = soon("an acquire", acquire).await.expect("free");
        let view = locks.inspect("l").await.expect("a majority").expect("it is there");
        assert_eq!(view.holders.len(), 1, "{view:?}");
        assert_eq!(view.holders[0].label.why(), "for the tests");
        let listed = soon("a listing", locks.list("*")).await.expect("a majority");
        assert_eq!(listed.len(), 1, "{listed:?}");
        guard.release().await.expect("held");
    });
}

#[test]
fn clients_of_the_quorum_proper_and_of_redlock_exclude_each_other() {
    block_on(async {
        let nodes = Nodes::start(3);
        let redlock = nodes.connect().await;
        let native =
            connect(&nodes.url().replace("protocol=plain&unfenced=ok", "module=off")).await;
        let guard = soon("ours", redlock.mutex("l").acquire()).await.expect("free");
        assert!(soon("theirs", native.mutex("l").try_acquire()).await.expect("no").is_none());
        guard.release().await.expect("held");
        let guard = soon("theirs", native.mutex("l").acquire()).await.expect("free");
        assert!(soon("ours", redlock.mutex("l").try_acquire()).await.expect("no").is_none());
        guard.release().await.expect("held");
    });
}
