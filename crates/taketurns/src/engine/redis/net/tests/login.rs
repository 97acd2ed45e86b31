//! Users, passwords, databases, rights.

use super::party::{Party, assert_broken, refused};
use super::server::{Server, until};

const NO_HELLO: [&str; 3] = ["--rename-command", "HELLO", ""];

fn with_bob(arguments: &[&str]) -> Server {
    let server = Server::start("redis-server", arguments);
    server.ask::<()>(&["ACL", "SETUSER", "bob", "on", ">pass", "+@all", "~*", "&*"]);
    server
}

fn url(server: &Server, login: &str, rest: &str) -> String {
    format!("redis://{login}@127.0.0.1:{}{rest}", server.port)
}

#[tokio::test]
async fn a_wrong_password_is_said_and_not_repeated() {
    for arguments in [&[][..], &NO_HELLO[..]] {
        let server = with_bob(arguments);
        assert!(Party::open(&url(&server, "bob:pass", "")).await.is_ok());
        let error = refused(&url(&server, "bob:wrong-one", "")).await;
        assert_broken(&error, "does not accept the user or the password");
        assert!(!error.to_string().contains("wrong-one"));
    }
}

#[tokio::test]
async fn a_missing_password_is_said() {
    for arguments in
        [&["--requirepass", "x"][..], &["--requirepass", "x", "--rename-command", "HELLO", ""]]
    {
        let server = Server::launch("redis-server", arguments);
        until("it wants a password", || {
            server.try_ask::<()>(&["PING"]).is_err_and(|error| error.code() == Some("NOAUTH"))
        });
        assert_broken(&refused(&url(&server, "", "")).await, "wants a password");
        assert!(Party::open(&url(&server, ":x", "")).await.is_ok());
    }
}

#[tokio::test]
async fn a_password_in_a_file_may_change() {
    let server = with_bob(&[]);
    let file = server.directory.path().join("password");
    let url = url(&server, "bob", &format!("?password_file={}", file.display()));
    assert_broken(&refused(&url).await, "password file");
    std::fs::write(&file, "pass\n").unwrap();
    let mut party = Party::open(&url).await.unwrap();
    server.ask::<()>(&["ACL", "SETUSER", "bob", "resetpass", ">other"]);
    std::fs::write(&file, "other\n").unwrap();
    server.ask::<i64>(&["CLIENT", "KILL", "USER", "bob"]);
    party.recheck().await;
    party.call_until(&["GET", "a"]).await;
}

#[tokio::test]
async fn databases() {
    let server = Server::start("redis-server", &[]);
    let party = Party::open(&format!("{}/3", server.url())).await.unwrap();
    party.call(&["SET", "a", "1"]).await.unwrap();
    assert!(server.ask::<String>(&["INFO", "keyspace"]).contains("db3:"));
    assert_broken(&refused(&format!("{}/99", server.url())).await, "has no database 99");
}

#[tokio::test]
async fn a_missing_right_is_named() {
    let server = Server::start("redis-server", &[]);
    server.ask::<()>(&["ACL", "SETUSER", "eve", "on", ">p", "+@all", "-info", "~*", "&*"]);
    assert_broken(&refused(&url(&server, "eve:p", "")).await, "\"info\"");
    server.ask::<()>(&["ACL", "SETUSER", "eve", "+info", "resetchannels"]);
    assert_broken(&refused(&url(&server, "eve:p", "")).await, "channels");
    server.ask::<()>(&["ACL", "SETUSER", "eve", "&tt:*", "-client", "-config", "-hello"]);
    let party = Party::open(&url(&server, "eve:p", "")).await.unwrap();
    server.ask::<()>(&["ACL", "SETUSER", "eve", "-set"]);
    assert_broken(&party.call(&["SET", "a", "1"]).await.err().unwrap(), "\"set\"");
}

#[tokio::test]
async fn a_replica_is_refused_and_says_of_whom() {
    let master = Server::start("redis-server", &[]);
    let port = master.port.to_string();
    let replica = Server::start("redis-server", &["--replicaof", "127.0.0.1", &port]);
    assert_broken(&refused(&replica.url()).await, &format!("replica of 127.0.0.1:{port}"));
}
