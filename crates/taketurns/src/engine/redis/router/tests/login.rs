//! Users, passwords, databases, rights.

use taketurns_servers::{Flavor, Server};

use super::party::{Party, assert_broken, refused};
use super::server::{NO_HELLO, ask, redis};

fn with_bob(args: &[&str]) -> Server {
    let server = redis(args);
    ask(&server, &["ACL", "SETUSER", "bob", "on", ">pass", "+@all", "~*", "&*"]);
    server
}

fn url(server: &Server, login: &str, rest: &str) -> String {
    format!("redis://{login}@{}{rest}", server.addr())
}

#[tokio::test]
async fn a_wrong_password_is_said_and_not_repeated() {
    for args in [&[][..], &NO_HELLO] {
        let server = with_bob(args);
        assert!(Party::open(&url(&server, "bob:pass", "")).await.is_ok());
        let error = refused(&url(&server, "bob:wrong-one", "")).await;
        assert_broken(&error, "does not accept the user or the password");
        assert!(!error.to_string().contains("wrong-one"));
    }
}

#[tokio::test]
async fn a_missing_password_is_said() {
    for args in [&[][..], &NO_HELLO] {
        let server = Server::builder(Flavor::Redis).requirepass("x").args(args.iter().copied());
        let server = server.start().expect("a server");
        assert_broken(&refused(&url(&server, "", "")).await, "wants a password");
        assert!(Party::open(&url(&server, ":x", "")).await.is_ok());
    }
}

#[tokio::test]
async fn a_password_in_a_file_may_change() {
    let server = with_bob(&[]);
    let file = server.dir().join("password");
    let url = url(&server, "bob", &format!("?password_file={}", file.display()));
    assert_broken(&refused(&url).await, "password file");
    std::fs::write(&file, "pass\n").unwrap();
    let mut party = Party::open(&url).await.unwrap();
    ask(&server, &["ACL", "SETUSER", "bob", "resetpass", ">other"]);
    std::fs::write(&file, "other\n").unwrap();
    ask(&server, &["CLIENT", "KILL", "USER", "bob"]);
    party.recheck().await;
    party.call_until(&["GET", "a"]).await;
}

#[tokio::test]
async fn databases() {
    let server = redis(&[]);
    let party = Party::open(&format!("{}/3", server.url())).await.unwrap();
    party.call(&["SET", "a", "1"]).await.unwrap();
    assert!(server.info("keyspace").contains_key("db3"));
    assert_broken(&refused(&format!("{}/99", server.url())).await, "has no database 99");
}

#[tokio::test]
async fn a_missing_right_is_named() {
    let server = redis(&[]);
    ask(&server, &["ACL", "SETUSER", "eve", "on", ">p", "+@all", "-info", "~*", "&*"]);
    assert_broken(&refused(&url(&server, "eve:p", "")).await, "\"info\"");
    ask(&server, &["ACL", "SETUSER", "eve", "+info", "resetchannels"]);
    assert_broken(&refused(&url(&server, "eve:p", "")).await, "channels");
    ask(&server, &["ACL", "SETUSER", "eve", "&tt:*", "-client", "-config", "-hello"]);
    let party = Party::open(&url(&server, "eve:p", "")).await.unwrap();
    ask(&server, &["ACL", "SETUSER", "eve", "-set"]);
    assert_broken(&party.call(&["SET", "a", "1"]).await.err().unwrap(), "\"set\"");
}

#[tokio::test]
async fn a_replica_is_refused_and_says_of_whom() {
    let master = redis(&[]);
    let replica = Server::builder(Flavor::Redis).replica_of(master.port()).start();
    let replica = replica.expect("a replica");
    assert_broken(&refused(&replica.url()).await, &format!("replica of {}", master.addr()));
}
