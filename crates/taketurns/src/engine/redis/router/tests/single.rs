//! One server: answers, messages, and that nothing is left behind.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, Once};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use redis::Value;
use taketurns_servers::{Flavor, PATIENCE, Server, ServerReply};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::party::{CHANNEL, Party, a_call, assert_broken, command, refused};
use super::server::{NO_HELLO, ask, connections, gone, redis, serve, until};
use crate::engine::EngineError;
use crate::engine::redis::router::RoutedReply;

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_answered_and_says_by_which_session() {
    for flavor in Flavor::ALL {
        let server = serve(flavor, &[]);
        let party = Party::open(&server.url()).await.unwrap();
        let (value, session) = party.call(&["SET", "a", "1"]).await.unwrap();
        assert_eq!(value, Value::Okay);
        assert_eq!(session.backend.run(), session.peer.facts.run);
        assert_eq!((session.connection().origin.source, party.router.source(b"a")), (0, 0));
        let run = &session.peer.facts.run;
        assert_eq!(party.router.origin_of_run(&run[..8]), Some(session.connection().origin));
        assert_eq!(party.router.origin_of_run("none"), None);
        assert_eq!(party.router.masters().await.unwrap().len(), 1);
        assert_eq!(*party.host.keys.lock().unwrap(), [b"tt:\x01run".to_vec()]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_arrive_over_one_connection_or_two() {
    for flavor in Flavor::ALL {
        for (args, expected) in [(&[][..], 1), (&NO_HELLO, 2)] {
            let server = serve(flavor, args);
            let mut party = Party::open(&server.url()).await.unwrap();
            assert_eq!(connections(&server), expected);
            ask(&server, &["PUBLISH", "tt:other", "not for us"]);
            assert_eq!(ask(&server, &["PUBLISH", CHANNEL, "wake\0up"]), ServerReply::Int(1));
            assert_eq!(party.heard().await, b"wake\0up");
            assert_eq!(party.call(&["GET", "a"]).await.unwrap().0, Value::Nil);
            assert!(party.is_quiet());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_one_write_each_command_has_its_own_answer() {
    let server = redis(&[]);
    let party = Party::open(&server.url()).await.unwrap();
    let words = |n| if n % 10 == 3 { ["HGET", "a", "f"] } else { ["APPEND", "a", "x"] };
    let calls: Vec<_> = (0..50).map(|n| a_call("a", words(n))).collect();
    let answers = party.router.call_all(&calls).await;
    assert_eq!(answers.len(), 50);
    let mut length = 0;
    for (n, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(RoutedReply { value, .. }) => {
                length += 1;
                assert_eq!(value, Value::Int(length), "{n}");
            }
            Err(error) => {
                assert_eq!(n % 10, if length == 0 { 0 } else { 3 });
                assert_broken(&error, "something else than a lock");
            }
        }
    }
    assert_eq!(length, 45);
    assert!(party.router.call_all(&[]).await.is_empty());
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_leaves_no_connection_and_no_task() {
    for args in [&[][..], &NO_HELLO] {
        let server = redis(args);
        let before = tasks();
        let party = Party::open(&server.url()).await.unwrap();
        assert!(connections(&server) > 0);
        let (_, session) = party.call(&["GET", "a"]).await.unwrap();
        party.router.close().await;
        until("all tasks have ended", || tasks() == before);
        until("the server has no connection", || connections(&server) == 0);
        assert!(!session.connection().is_alive());
        assert_broken(&party.call(&["GET", "a"]).await.err().unwrap(), "closed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_leaves_no_connection_and_no_task() {
    let server = redis(&[]);
    let before = tasks();
    drop(Party::open(&server.url()).await.unwrap());
    until("all tasks have ended", || tasks() == before);
    until("the server has no connection", || connections(&server) == 0);
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor that has never heard of tokio.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park_timeout(PATIENCE),
        }
    }
}

#[test]
fn calls_need_no_runtime_of_the_callers() {
    let server = redis(&[]);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let party = runtime.block_on(Party::open(&server.url())).unwrap();
    assert_eq!(block_on(party.call(&["SET", "a", "1"])).unwrap().0, Value::Okay);
    ask(&server, &["CLIENT", "KILL", "TYPE", "pubsub"]);
    // The killing may be noticed only by this call, or by its predecessor.
    until("it is connected again", || block_on(party.call(&["GET", "a"])).is_ok());
    let masters = block_on(party.router.masters()).unwrap();
    assert_eq!(block_on(masters[0].connection().send(&command(&["DBSIZE"]))), Ok(Value::Int(2)));
    block_on(party.router.close());
}

#[tokio::test]
async fn what_is_not_there_is_unreachable() {
    let error = refused(&gone().url()).await;
    assert!(
        matches!(&error, EngineError::Unreachable(why) if why.contains("127.0.0.1")),
        "{error}"
    );
}

#[tokio::test]
async fn strict_turns_warnings_into_errors() {
    let server = redis(&["--maxmemory-policy", "allkeys-lru"]);
    assert!(Party::open(&server.url()).await.is_ok());
    let error = refused(&format!("{}?strict=true", server.url())).await;
    assert_broken(&error, "noeviction");
    ask(&server, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert!(Party::open(&format!("{}?strict=true", server.url())).await.is_ok());
}

/// Counts the warnings that name a server, by its address.
///
/// One subscriber serves the whole process. A subscriber of a single thread can miss a warning: while
/// there is only one, tracing asks the first thread that reaches the warning whether to keep it, and
/// a thread of another test says no for all.
struct Warnings;

static WARNINGS: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

impl Warnings {
    fn count() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing::subscriber::set_global_default(Self).expect("the only subscriber")
        });
    }

    fn about(server: &Server) -> usize {
        WARNINGS.lock().unwrap().get(&server.addr().to_string()).copied().unwrap_or(0)
    }
}

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "server" {
            *WARNINGS.lock().unwrap().entry(format!("{value:?}")).or_default() += 1;
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn event(&self, event: &Event<'_>) {
        event.record(&mut Warnings);
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_warning_is_logged_once_and_not_at_every_reconnect() {
    Warnings::count();
    let server = redis(&["--maxmemory-policy", "allkeys-lru"]);
    let mut party = Party::open(&server.url()).await.unwrap();
    assert_eq!(Warnings::about(&server), 1);
    ask(&server, &["CLIENT", "KILL", "TYPE", "pubsub"]);
    party.recheck().await;
    party.call(&["GET", "a"]).await.unwrap();
    party.recheck().await;
    assert_eq!(Warnings::about(&server), 1);
}

#[tokio::test]
async fn a_server_of_another_kind_is_refused() {
    let server = Server::builder(Flavor::Redis).cluster().start().expect("a node");
    assert_broken(&refused(&server.url()).await, "redis+cluster://");
    let server = redis(&[]);
    let url = format!("redis+cluster://{}", server.addr());
    assert_broken(&refused(&url).await, "use redis://");
}
