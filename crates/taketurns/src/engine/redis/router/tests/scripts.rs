//! Sessions that have to be repaired: scripts that are gone, a run that has changed.

use std::sync::atomic::Ordering;

use redis::Value;

use super::party::{Party, SHA, a_call, command};
use super::server::{ask, redis};
use crate::engine::EngineError;
use crate::engine::redis::backend::Backend;

const COUNT: [&str; 4] = ["EVALSHA", SHA, "1", "n"];

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_is_not_there_is_loaded_once_for_all() {
    let server = redis(&[]);
    let party = Party::open(&server.url()).await.unwrap();
    let (_, before) = party.call(&["GET", "n"]).await.unwrap();
    for session in party.a_hundred_at_once("n", COUNT).await {
        assert_eq!(session.connection().origin.epoch, before.connection().origin.epoch);
    }
    assert_eq!(party.host.loads.load(Ordering::SeqCst), 1);
    assert_eq!(ask(&server, &["GET", "n"]).text(), Some("100"));
}

#[tokio::test(flavor = "multi_thread")]
async fn in_one_write_too() {
    let server = redis(&[]);
    let party = Party::open(&server.url()).await.unwrap();
    let calls: Vec<_> = (0..10).map(|_| a_call("n", COUNT)).collect();
    let answers = party.router.call_all(&calls).await;
    let values: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().value).collect();
    assert_eq!(values, (1..=10).map(Value::Int).collect::<Vec<_>>());
    assert_eq!(party.host.loads.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_wants_to_be_verified_is_greeted_and_sent_again() {
    let server = redis(&[]);
    let party = Party::open(&server.url()).await.unwrap();
    // It is content the third time.
    let script = "if redis.call('INCR', KEYS[1]) < 3 then \
                  return redis.error_reply('TTVERIFY run') end return 'fine'";
    let words = ["EVAL", script, "1", "n"];
    let told = party.router.call(b"n", &|_: &Backend| command(&words)).await.unwrap();
    assert_eq!(crate::engine::redis::router::tests::party::text(&told.value), "fine");
    assert_eq!(party.host.verifications.load(Ordering::SeqCst), 3);
    let never = ["EVAL", "return redis.error_reply('TTVERIFY run')", "0"];
    let error = party.router.call(b"n", &|_: &Backend| command(&never)).await.err().unwrap();
    assert!(matches!(error, EngineError::Unreachable(_)), "{error:?}");
    assert_eq!(party.host.verifications.load(Ordering::SeqCst), 5);
}
