//! Servers and users without the module.

use taketurns::{Error, ErrorKind};
use taketurns_servers::{Flavor, Server, on_both};

use crate::engine::patience::{block_on, soon};
use crate::engine::{connect, type_of, with_module, without_module};

async fn refused(url: &str) -> Error {
    soon("connecting", taketurns::connect(url)).await.expect_err("nobody can use it")
}

/// All rights but those to the module.
const USER: &str = "bob on >secret ~* &* +@all -fencelock.bind -fencelock.do";

/// Starts a server with the module, and a user who may not use it.
fn with_bob(flavor: Flavor) -> Server {
    let server = with_module(flavor).start().expect("a server");
    let words: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(USER.split(' ')).collect();
    assert!(server.cli(&words).is_ok());
    server
}

fn url(server: &Server) -> String {
    format!("redis://bob:secret@127.0.0.1:{}", server.port())
}

on_both! {
    fn a_server_without_the_module_is_refused_where_it_is_required(flavor: Flavor) {
        let server = without_module(flavor);
        let error = block_on(refused(&format!("{}?module=required", server.url())));
        assert_eq!(error.kind(), ErrorKind::Store, "{error}");
        assert!(error.to_string().contains("does not have the module"), "{error}");
    }

    fn who_may_not_use_the_module_uses_scripts(flavor: Flavor) {
        let server = with_bob(flavor);
        block_on(async {
            let locks = connect(&url(&server)).await;
            let guard = soon("an acquire", locks.mutex("l").acquire()).await.expect("a guard");
            assert_eq!(type_of(&server, "l"), "hash");
            soon("a release", guard.release()).await.expect("it was held");
            let required = format!("{}?module=required", url(&server));
            let error = refused(&required).await;
            assert!(error.to_string().contains("FENCELOCK.BIND"), "{error}");
            // The user can't reach the module's locks, and is told why.
            let able = connect(&server.url()).await;
            let _held = soon("an acquire", able.mutex("m").acquire()).await.expect("a guard");
            let error = soon("a try", locks.mutex("m").try_acquire()).await.expect_err("held");
            assert!(error.to_string().contains("FENCELOCK.BIND"), "{error}");
        });
    }

    fn who_is_given_the_right_later_uses_it_from_then_on(flavor: Flavor) {
        let server = with_bob(flavor);
        block_on(async {
            let locks = connect(&url(&server)).await;
            let able = connect(&server.url()).await;
            let held = soon("an acquire", able.mutex("m").acquire()).await.expect("a guard");
            assert!(server.cli(&["ACL", "SETUSER", "bob", "+@all"]).is_ok());
            soon("a release", held.release()).await.expect("it was held");
            let guard = soon("an acquire", locks.mutex("m").acquire()).await.expect("a guard");
            assert_eq!(type_of(&server, "m"), "fencelock");
            soon("a release", guard.release()).await.expect("it was held");
        });
    }
}
