//! The rights that each wire's page names are enough, and no lock outside of its names can be touched.

use taketurns::ErrorKind;
use taketurns_servers::{Flavor, on_both};

use super::*;

/// The words of the page's `ACL SETUSER`.
pub(crate) fn rights(page: &str) -> Vec<String> {
    let line = page.split("```").find(|block| block.contains("ACL SETUSER")).expect("a line");
    line.split_whitespace().skip(1).map(|word| word.replace(">PASSWORD", ">secret")).collect()
}

fn are_enough(flavor: Flavor, protocol: &str, page: &str) {
    let server = Server::start(flavor).expect("a server");
    let words = rights(page);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert!(server.cli(&words).is_ok(), "{words:?}");
    let user = format!("redis://taketurns:secret@127.0.0.1:{}", server.port());
    let url = format!("{user}?protocol={protocol}&unfenced=ok");
    block_on(async {
        let connect = || Connect::new(&url).open();
        let (one, other) = (connect().await.expect("a server"), connect().await.expect("a server"));
        let pool = protocol == "zmutex";
        let acquire = |locks: &Locks, name: &str| match pool {
            true => locks.pool(name).any().lease(Duration::from_secs(6)),
            false => locks.mutex(name).acquire().lease(Duration::from_secs(6)),
        };
        if pool {
            one.pool("orders/1").add("m").await.expect("the right");
        }
        let guard = soon("an acquire", acquire(&one, "orders/1")).await.expect("the right");
        let waiting = tokio::spawn(acquire(&other, "orders/1").into_future());
        waits(&server, "orders/1", 1);
        until_renewed(&one, "orders/1").await;
        guard.release().await.expect("the right");
        let guard = soon("a hand-over", waiting).await.expect("no panic").expect("the right");
        assert!(one.inspect("orders/1").await.expect("the right").is_some());
        assert_eq!(one.list("*").await.expect("the right").len(), 1);
        assert_eq!(one.break_lock("orders/1").at_once().await.expect("the right"), 1);
        soon("it is told", guard.lost()).await;
        if pool {
            assert!(one.pool("orders/1").remove("m").await.expect("the right"));
        }
        let error = soon("an acquire", acquire(&one, "payments")).await.expect_err("no right");
        assert_eq!(error.kind(), ErrorKind::Store, "{error}");
        assert!(error.to_string().contains("does not let this user use the keys"), "{error}");
    });
}

on_both! {
    fn of_plain(flavor: Flavor) {
        are_enough(flavor, "plain", include_str!("../../../../../../docs/protocols/plain.md"));
    }

    fn of_python_redis_lock(flavor: Flavor) {
        let page = include_str!("../../../../../../docs/protocols/python-redis-lock.md");
        are_enough(flavor, "python-redis-lock", page);
    }

    fn of_fairqueue(flavor: Flavor) {
        are_enough(flavor, "fairqueue", include_str!("../../../../../../docs/protocols/fairqueue.md"));
    }

    fn of_zmutex(flavor: Flavor) {
        are_enough(flavor, "zmutex", include_str!("../../../../../../docs/protocols/zmutex.md"));
    }

    fn of_redturn(flavor: Flavor) {
        are_enough(flavor, "redturn", include_str!("../../../../../../docs/protocols/redturn.md"));
    }
}
