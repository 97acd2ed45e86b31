//! The rights that a user of the server needs: those that SECURITY.md names are enough (the
//! conformance suite runs with them), and each of them is needed, which is what is shown here.

use taketurns::engine::{
    self, AcquireRequest, Engine, EngineError, Owner, Pattern, Reply, Request, Wakes,
};
use taketurns::{Ask, ClientId, Label, Member, Name};
use taketurns_servers::{Flavor, Server, on_both};

use crate::support::redis_acl;

const CLIENT: ClientId = ClientId::from_bits(7);

/// What clients send themselves; all else is in scripts.
const SENT: [&str; 9] =
    ["info", "time", "subscribe", "publish", "get", "eval", "evalsha", "script|load", "scan"];

/// All that a client ever asks of a server for the first time: so nothing is known from before.
async fn everything(url: &str) -> Result<(), EngineError> {
    let (wakes, _) = Wakes::channel();
    let engine = match engine::open(url, CLIENT, wakes).await {
        Ok(engine) => engine,
        Err(taketurns::Error::Store(error)) => return Err(error),
        Err(other) => panic!("{other}"),
    };
    let done = use_locks(&*engine).await;
    engine.close().await;
    done
}

async fn use_locks(engine: &dyn Engine) -> Result<(), EngineError> {
    let [mutex, pool, empty] = ["mutex", "pool", "empty"].map(|name| Name::new(name).expect("one"));
    let member = Member::new("m").expect("a name");
    let not_after_ms = engine.ping().await?.now_ms + 60_000;
    let acquire = |owner: u128, ask: Ask| {
        Request::Acquire(AcquireRequest {
            owner: Owner::from_bits(owner),
            client: CLIENT,
            ask,
            at_least_ms: 0,
            lease_ms: 30_000,
            waiter_lease_ms: Some(30_000),
            not_after_ms,
            ballot: None,
            label: Label::new("rights", "").expect("a label"),
        })
    };
    let release = |owner: u128| {
        let owner = Owner::from_bits(owner);
        Request::Release { owner, bury_until_ms: 0, last_used: None }
    };
    // A turn, a hand-over, and another turn.
    engine.call(&mutex, acquire(1, Ask::Mutex)).await?;
    engine.call(&mutex, acquire(2, Ask::Mutex)).await?;
    engine.call(&mutex, release(1)).await?;
    engine.call(&mutex, release(2)).await?;
    // A pool stays until its members are gone, also where there was a mutex before.
    engine.call(&pool, acquire(4, Ask::Mutex)).await?;
    engine.call(&pool, release(4)).await?;
    engine.call(&pool, Request::PoolAdd { member: member.clone() }).await?;
    // Nothing stays of a wait for what was never there.
    let waiting = engine.call(&empty, acquire(3, Ask::Member(member))).await?;
    assert!(matches!(waiting.reply, Reply::Queued(_)), "{:?}", waiting.reply);
    engine.call(&empty, release(3)).await?;
    engine.view(&mutex, 1).await?;
    let listed = engine.list(&Pattern::new("*"), None, 10, 1).await?;
    assert_eq!(listed.len(), 2, "{listed:?}");
    Ok(())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

/// Everything, by a user with these rights, under a prefix that nobody used yet.
fn by_user_with(server: &Server, commands: &[&str], prefix: &str) -> Result<(), EngineError> {
    let user = prefix.trim_end_matches(':');
    redis_acl::set_user(server, user, prefix, commands);
    let url = format!("{}?prefix={prefix}", redis_acl::url(server, user));
    block_on(everything(&url))
}

#[track_caller]
fn is_missed(outcome: Result<(), EngineError>, what: &str) {
    match outcome {
        Err(EngineError::Broken(why)) => {
            assert!(why.contains("does not let this user"), "{what}: {why}");
            assert!(why.contains(what), "{what}: {why}");
        }
        other => panic!("without {what}: {other:?}"),
    }
}

on_both! {
    fn the_rights_are_enough_and_each_is_needed(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        by_user_with(&server, &redis_acl::COMMANDS, "all:").expect("they are enough");
        for (number, missing) in redis_acl::COMMANDS.into_iter().enumerate() {
            let mut commands = redis_acl::COMMANDS.to_vec();
            commands.remove(number);
            let outcome = by_user_with(&server, &commands, &format!("without{number}:"));
            // Inside a script Redis 7.0 does not say which.
            let said = match SENT.contains(&missing) || flavor == Flavor::Valkey {
                true => format!("run the command {missing:?}"),
                false => "run all commands that our scripts use".to_owned(),
            };
            is_missed(outcome, &said);
        }
    }

    fn keys_and_channels_of_another_prefix_are_out_of_reach(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        redis_acl::set_user(&server, "tt", "tt:", &redis_acl::COMMANDS);
        let url = redis_acl::url(&server, "tt");
        block_on(everything(&url)).expect("it is the default prefix");
        is_missed(block_on(everything(&format!("{url}?prefix=other:"))), "channels");
        assert!(server.cli(&["ACL", "SETUSER", "tt", "&other:wake:*"]).is_ok());
        is_missed(block_on(everything(&format!("{url}?prefix=other:"))), "keys");
        assert_eq!(server.cli(&["KEYS", "other:*"]).array().map(<[_]>::len), Some(0));
    }
}
