//! Wake-ups that somebody makes up, or repeats: they grant nothing, and nobody even asks.

use std::time::Duration;

use taketurns_core::wire::StoredWaiter;
use taketurns_servers::{Connection, Flavor, Server, on_both};

use super::{block_on, connect_for, seen, soon};

/// So long that no refresh falls into the test, and every command has another cause.
const CALM: Duration = Duration::from_secs(60);

/// A message, as somebody hears it who listens to another's channel.
fn overheard(spy: &mut Connection) -> Vec<u8> {
    let push = spy.read().expect("a message");
    push.array().expect("a push")[2].bytes().expect("its text").to_owned()
}

/// What the wake-up of the one who waits will name it by, as somebody finds out who may read the
/// lock itself.
fn id_of_waiter(server: &Server) -> String {
    let lock = server.cli(&["HGETALL", "tt:l"]);
    let fields = lock.array().expect("a hash").chunks_exact(2);
    let owner = fields.filter_map(|pair| {
        let place = pair[0].text()?.strip_prefix('w')?;
        place.parse::<u64>().ok()?;
        Some(StoredWaiter::parse(pair[1].text()?)?.owner)
    });
    let owners: Vec<&str> = owner.collect();
    let [owner] = owners[..] else { panic!("one waits, not {}", owners.len()) };
    let script = "return string.sub(redis.sha1hex(ARGV[1]), 1, 16)";
    server.cli(&["EVAL", script, "0", owner]).text().expect("a hash").to_owned()
}

fn channels(server: &Server) -> Vec<String> {
    let reply = server.cli(&["PUBSUB", "CHANNELS", "*wake:*"]);
    let all = reply.array().expect("a list").iter();
    all.map(|channel| channel.text().expect("text").to_owned()).collect()
}

/// What can be made of a message without the owner's secret, for the owner that it names or for
/// another.
fn forgeries(genuine: &[u8], other: Option<&str>) -> Vec<Vec<u8>> {
    let text = String::from_utf8(genuine.to_vec()).expect("plain text");
    let words: Vec<&str> = text.split(' ').collect();
    let [seal, id, run, letter, token, deadline] = words[..6] else { panic!("{text}") };
    assert_eq!((seal.len(), id.len(), run.len(), letter), (40, 16, 16, "G"));
    let id = other.unwrap_or(id);
    let far = u64::MAX / 4;
    let mut all: Vec<Vec<u8>> = [
        String::new(),
        " ".to_owned(),
        "G".to_owned(),
        "garbage".repeat(1_000),
        format!("{seal} {id} {run} V"),
        format!("{seal} {id} {run} G {token} {far} "),
        format!("{seal} {id} {run} G {far} {deadline} "),
        format!("{} {id} {run} G {token} {deadline} ", "0".repeat(40)),
        format!("{seal} {} {run} G {token} {deadline} ", "f".repeat(16)),
        format!("{seal} {id} {run} G {token} {deadline} x"),
        format!("{seal} {id} {run} X kind r"),
    ]
    .map(String::into_bytes)
    .into();
    all.push(vec![0xff; 300]);
    all.push(b"\0\r\n\0".to_vec());
    all.extend((1..genuine.len()).map(|length| genuine[..length].to_vec()));
    all
}

on_both! {
    fn nothing_that_others_publish_grants_anything(flavor: Flavor) {
        block_on(async {
            let server = Server::start(flavor).expect("a server");
            let one = connect_for(CALM, &server.url()).await;
            let own = channels(&server);
            let two = connect_for(CALM, &server.url()).await;
            let all = channels(&server);
            let channel = all.iter().find(|channel| !own.contains(channel)).expect("a second one");
            let mut spy = server.connect().expect("a connection");
            spy.command(&["SUBSCRIBE", channel]).expect("a confirmation");
            let mut forger = server.connect().expect("a connection");

            let mut publish = |message: &[u8], spy: &mut Connection| {
                let words = [b"PUBLISH", channel.as_bytes(), message];
                let heard = forger.command(&words).expect("a reply");
                assert_eq!(heard.int(), Some(2), "the spy, and the one it is meant for");
                assert_eq!(overheard(spy), message);
            };

            let mut earlier: Option<Vec<u8>> = None;
            for _ in 0..3 {
                let first = soon("it is free", one.mutex("l").acquire()).await.expect("granted");
                let waits = tokio::spawn({
                    let acquire = two.mutex("l").acquire();
                    async move { acquire.await.expect("a turn") }
                });
                seen("it waits", &one, "l", |view| view.waiting == 1).await;
                let id = id_of_waiter(&server);
                server.reset_stats();
                if let Some(genuine) = &earlier {
                    let for_it = forgeries(genuine, Some(&id));
                    for message in forgeries(genuine, None).iter().chain(&for_it).chain([genuine]) {
                        publish(message, &mut spy);
                    }
                }
                // Its answer comes on the same connection, after all of them.
                let view = two.inspect("l").await.expect("an answer").expect("held");
                assert_eq!((view.waiting, view.holders.len()), (1, 1));
                assert_eq!(view.holders[0].token, Some(first.token()));
                assert!(!waits.is_finished(), "something that was made up was believed");
                let calls = server.command_stats()["evalsha"].calls;
                assert_eq!(calls, 1, "nobody asks because of what was made up");

                let first_token = first.token();
                soon("a release", first.release()).await.expect("held");
                let genuine = overheard(&mut spy);
                let next = soon("the genuine one wakes", waits).await.expect("no panic");
                assert!(first_token < next.token());
                assert!(genuine.windows(16).any(|word| word == id.as_bytes()), "it names it so");
                // Now everybody knows its name. A forger sends its own wake-up again, and messages made from it,
                // among them a break notice:
                for message in forgeries(&genuine, None).iter().chain([&genuine]) {
                    publish(message, &mut spy);
                }
                let view = two.inspect("l").await.expect("an answer").expect("held");
                assert_eq!((view.holders.len(), view.holders[0].token), (1, Some(next.token())));
                assert!(next.is_held(), "something that was made up was believed");
                soon("a release", next.release()).await.expect("held");
                publish(&genuine, &mut spy);
                let view = two.inspect("l").await.expect("an answer").expect("remembered");
                assert_eq!((view.holders.len(), view.waiting), (0, 0));
                earlier = Some(genuine);
            }
        });
    }
}
