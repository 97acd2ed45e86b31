//! One connection for many who ask: what is written when, who hears what, and how it ends.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redis::{Cmd, PushKind, Value, cmd};
use taketurns_servers::{Flavor, PATIENCE};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::engine::redis::connection::PendingReply;
use crate::engine::redis::connection::dial::{ReadHalf, Socket, Stream, WriteHalf};
use crate::engine::redis::connection::multiplexer::{Multiplexer, NoReply, ReplyResult};
use crate::engine::redis::connection::reader_slot::ConnectionDriver;
use crate::engine::redis::connection::socket::MovableSocket;
use crate::engine::redis::router::tests::server::serve;

/// A socket that counts how often it is written to.
struct Counted(TcpStream, Arc<AtomicUsize>);

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl Socket for Counted {
    fn parted(self: Box<Self>) -> (ReadHalf, WriteHalf) {
        let (reader, writer) = tokio::io::split(*self);
        (Box::new(reader), Box::new(writer))
    }
}

/// Both ends of a connection: ours, its driver, what it hears; and the other one.
struct Pair {
    mux: Multiplexer,
    driver: Option<ConnectionDriver>,
    heard: Receiver<Vec<u8>>,
    peer: TcpStream,
}

impl Pair {
    async fn new(within: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (ours, peer) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (ours, (peer, _)) = (ours.expect("connected"), peer.expect("accepted"));
        let (hear, heard) = channel();
        let told = move |_: &[u8], message: &[u8]| drop(hear.send(message.to_vec()));
        let (mux, driver) = Multiplexer::new(movable(ours), within, Arc::new(told));
        Self { mux, driver: Some(driver), heard, peer }
    }

    /// With a driver that runs.
    async fn driven(within: Duration) -> Self {
        let mut pair = Self::new(within).await;
        pair.drive();
        pair
    }

    fn drive(&mut self) {
        tokio::spawn(self.driver.take().expect("it does not run yet").run());
    }

    async fn says(&mut self, bytes: &[u8]) {
        self.peer.write_all(bytes).await.expect("connected");
    }

    /// The other end reads this, and nothing else before it.
    async fn reads(&mut self, wanted: &[u8]) {
        let mut bytes = vec![0; wanted.len()];
        soon(self.peer.read_exact(&mut bytes)).await.expect("connected");
        assert!(bytes == wanted, "{:?}", String::from_utf8_lossy(&bytes));
    }
}

fn movable(stream: TcpStream) -> Stream {
    Box::new(MovableSocket::new(stream).expect("registered"))
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("in time")
}

fn echo(word: impl ToString) -> Cmd {
    cmd("ECHO").arg(word.to_string()).take()
}

fn packed(commands: &[Cmd]) -> Vec<u8> {
    let mut bytes = Vec::new();
    commands.iter().for_each(|command| command.write_packed_command(&mut bytes));
    bytes
}

fn is(number: i64) -> ReplyResult {
    Ok(Value::Int(number))
}

#[tokio::test]
async fn who_is_alone_has_written_when_it_has_asked() {
    let mut pair = Pair::new(PATIENCE).await;
    let answer = pair.mux.ask(&echo(1));
    // There is nobody else who could have: the driver does not run.
    pair.reads(&packed(&[echo(1)])).await;
    pair.drive();
    pair.says(b":1\r\n").await;
    assert_eq!(soon(answer).await, is(1));
}

#[tokio::test]
async fn a_crowd_is_written_at_once() {
    for flavor in Flavor::ALL {
        let server = serve(flavor, &[]);
        let stream = TcpStream::connect(server.addr()).await.expect("a server");
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = Box::new(Counted(stream, writes.clone()));
        let (mux, driver) = Multiplexer::new(counted, PATIENCE, Arc::new(|_, _| ()));
        tokio::spawn(driver.run());
        for round in 1..=3 {
            let answers: Vec<_> = (0..64).map(|number| mux.ask(&echo(number))).collect();
            for (number, answer) in answers.into_iter().enumerate() {
                let wanted = Value::BulkString(number.to_string().into_bytes());
                assert_eq!(soon(answer).await, Ok(wanted));
            }
            // One and one, two, four and so on: each as many as were under way.
            assert_eq!(writes.load(Ordering::Relaxed), round * 7);
        }
    }
}

#[tokio::test]
async fn several_commands_are_one_write_with_an_answer_each() {
    let mut pair = Pair::driven(PATIENCE).await;
    let commands = [echo(1), echo(2), echo(3)];
    let answers = pair.mux.ask_all(&commands);
    pair.reads(&packed(&commands)).await;
    pair.says(b":1\r\n-ERR no\r\n").await;
    let mut answers = answers.into_iter();
    let mut next = || answers.next().expect("three");
    assert_eq!(soon(next()).await, is(1));
    assert!(matches!(soon(next()).await, Ok(Value::ServerError(_))));
    pair.says(b":3\r\n").await;
    assert_eq!(soon(next()).await, is(3));
}

#[tokio::test]
async fn what_a_crowd_left_gets_out_with_the_next_answer() {
    let mut pair = Pair::driven(PATIENCE).await;
    let commands: Vec<_> = (0..5).map(echo).collect();
    let answers: Vec<_> = commands.iter().map(|command| pair.mux.ask(command)).collect();
    pair.reads(&packed(&commands[..4])).await;
    // One is left, and one is under way.
    pair.says(b":0\r\n:1\r\n:2\r\n").await;
    pair.reads(&packed(&commands[4..])).await;
    let late = pair.mux.ask(&echo("late"));
    // None is under way.
    pair.says(b":3\r\n:4\r\n").await;
    pair.reads(&packed(&[echo("late")])).await;
    drop((answers, late));
}

#[tokio::test]
async fn what_a_crowd_left_was_never_sent_if_no_answer_comes() {
    let pair = Pair::driven(Duration::from_millis(50)).await;
    let answers: Vec<_> = (0..7).map(|number| pair.mux.ask(&echo(number))).collect();
    let mut outcomes = Vec::new();
    for answer in answers {
        outcomes.push(soon(answer).await);
    }
    let (late, unsent) = (Err(NoReply::Late), Err(NoReply::Unsent));
    assert_eq!(outcomes[..4], [late.clone(), late.clone(), late.clone(), late]);
    assert_eq!(outcomes[4..], [unsent.clone(), unsent.clone(), unsent]);
}

#[tokio::test]
async fn what_the_socket_does_not_take_gets_out_when_it_does() {
    let mut pair = Pair::driven(PATIENCE).await;
    // More than the kernel keeps for both ends.
    let big = "x".repeat(1 << 20);
    let commands: Vec<_> = (0..20).map(|number| echo(format!("{number}{big}"))).collect();
    let answers = pair.mux.ask_all(&commands);
    pair.reads(&packed(&commands)).await;
    for number in 0..20 {
        pair.says(format!(":{number}\r\n").as_bytes()).await;
    }
    for (number, answer) in (0..).zip(answers) {
        assert_eq!(soon(answer).await, is(number));
    }
}

#[tokio::test]
async fn what_was_never_sent_is_told_apart() {
    let pair = Pair::driven(Duration::from_millis(300)).await;
    let first = pair.mux.ask(&echo("x".repeat(32 << 20)));
    let second = pair.mux.ask(&echo(2));
    assert_eq!(soon(first).await, Err(NoReply::Late));
    assert_eq!(soon(second).await, Err(NoReply::Unsent));
    assert_eq!(soon(pair.mux.ask(&echo(3))).await, Err(NoReply::Unsent));
}

#[tokio::test]
async fn nobody_hears_an_answer_that_is_not_wanted_any_more() {
    let mut pair = Pair::driven(PATIENCE).await;
    let [first, second, third] = [1, 2, 3].map(|number| pair.mux.ask(&echo(number)));
    drop(second);
    pair.says(b":1\r\n:2\r\n:3\r\n").await;
    assert_eq!((soon(first).await, soon(third).await), (is(1), is(3)));
}

#[tokio::test]
async fn who_is_not_answered_in_time_ends_it_for_all() {
    let mut within = Duration::from_millis(300);
    let mut pair = Pair::driven(within).await;
    let answered = async {
        let mut number = 0;
        while number < 3 {
            // The timer runs out while no request waits, and must be set again.
            tokio::time::sleep(within * 3 / 2).await;
            let answer = pair.mux.ask(&echo(number));
            pair.says(format!(":{number}\r\n").as_bytes()).await;
            match answer.await {
                // A busy machine may need more time.
                Err(NoReply::Late) => {
                    (within, number) = (within * 2, 0);
                    pair = Pair::driven(within).await;
                }
                answered => {
                    assert_eq!(answered, is(number));
                    number += 1;
                }
            }
        }
    };
    soon(answered).await;
    // Once more, and now nothing comes at all that would wake the driver.
    tokio::time::sleep(within * 3 / 2).await;
    let [first, second] = [1, 2].map(|number| pair.mux.ask(&echo(number)));
    assert_eq!((soon(first).await, soon(second).await), (Err(NoReply::Late), Err(NoReply::Late)));
    let mut rest = Vec::new();
    soon(pair.peer.read_to_end(&mut rest)).await.expect("the end");
}

#[tokio::test]
async fn what_came_before_the_end_counts_and_the_rest_is_lost() {
    let ends: [(&[u8], NoReply); 3] = [
        (b":1\r\n", NoReply::Ended),
        (b":1\r\n$5\r\nab", NoReply::Ended),
        (b":1\r\nHTTP/1.1 400 Bad Request\r\n", NoReply::Malformed),
    ];
    for (bytes, wanted) in ends {
        let mut pair = Pair::driven(PATIENCE).await;
        let [first, second] = [1, 2].map(|number| pair.mux.ask(&echo(number)));
        pair.reads(&packed(&[echo(1), echo(2)])).await;
        pair.says(bytes).await;
        drop(pair.peer);
        assert_eq!((soon(first).await, soon(second).await), (is(1), Err(wanted)));
        assert_eq!(soon(pair.mux.ask(&echo(3))).await, Err(NoReply::Unsent));
    }
}

#[tokio::test]
async fn who_answers_without_a_question_is_not_believed() {
    let mut pair = Pair::driven(PATIENCE).await;
    let first = pair.mux.ask(&echo(1));
    pair.says(b":1\r\n:2\r\n").await;
    assert_eq!(soon(first).await, is(1));
    let mut rest = Vec::new();
    soon(pair.peer.read_to_end(&mut rest)).await.expect("the end");
    assert_eq!(soon(pair.mux.ask(&echo(3))).await, Err(NoReply::Unsent));
}

#[tokio::test]
async fn subscriptions_are_confirmed_by_pushes_among_answers_and_messages() {
    let mut pair = Pair::driven(PATIENCE).await;
    let before = pair.mux.ask(&echo(1));
    let command = cmd("SUBSCRIBE").arg(&["a", "b"]).take();
    let subscribed = pair.mux.ask_confirmed(&command, PushKind::Subscribe, 2);
    let after = pair.mux.ask(&echo(2));
    pair.says(b">3\r\n$9\r\nsubscribe\r\n$1\r\nz\r\n:1\r\n:1\r\n").await;
    assert_eq!(soon(before).await, is(1));
    pair.says(
        b">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n\
          >3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n\
          >3\r\n$11\r\nunsubscribe\r\n$1\r\nz\r\n:1\r\n\
          >2\r\n$10\r\ninvalidate\r\n_\r\n\
          >3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n:2\r\n",
    )
    .await;
    let subscribed = soon(subscribed).await;
    let Ok(Value::Push { kind: PushKind::Subscribe, data }) = subscribed else {
        panic!("{subscribed:?}");
    };
    assert_eq!(data, [Value::BulkString(b"b".to_vec()), Value::Int(2)]);
    assert_eq!(soon(after).await, is(2));
    assert_eq!(pair.heard.try_recv(), Ok(b"hi".to_vec()));
    let refused = pair.mux.ask_confirmed(&command, PushKind::Subscribe, 2);
    pair.says(b"-NOPERM no\r\n").await;
    assert!(matches!(soon(refused).await, Ok(Value::ServerError(_))));
}

#[tokio::test]
async fn an_answer_is_told_before_a_message_that_came_behind_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (ours, peer) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (ours, (mut peer, _)) = (ours.expect("connected"), peer.expect("accepted"));
    let asked: Arc<Mutex<Option<PendingReply>>> = Arc::default();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let answer = asked.clone();
    let heard = move |_: &[u8], _: &[u8]| {
        let mut answer = answer.lock().expect("no panic").take().expect("it was asked");
        let polled = Pin::new(&mut answer).poll(&mut Context::from_waker(Waker::noop()));
        let _ = tell.send(polled);
    };
    let (mux, driver) = Multiplexer::new(movable(ours), PATIENCE, Arc::new(heard));
    *asked.lock().expect("no panic") = Some(mux.ask(&echo(1)));
    // Both are there when the driver reads for the first time.
    peer.write_all(b":1\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n")
        .await
        .expect("connected");
    tokio::spawn(driver.run());
    assert_eq!(soon(told.recv()).await, Some(Poll::Ready(is(1))));
}

#[tokio::test]
async fn nobody_waits_for_a_driver_that_is_gone() {
    let mut pair = Pair::new(PATIENCE).await;
    let answer = pair.mux.ask(&echo(1));
    drop(pair.driver.take());
    assert_eq!(soon(answer).await, Err(NoReply::Ended));
    let answers: Vec<PendingReply> = pair.mux.ask_all(&[echo(2), echo(3)]);
    for answer in answers {
        assert_eq!(soon(answer).await, Err(NoReply::Unsent));
    }
}

#[tokio::test]
async fn ended_from_outside_it_ends_for_all_who_wait() {
    let pair = Pair::driven(PATIENCE).await;
    let answer = pair.mux.ask(&echo(1));
    pair.mux.end();
    assert_eq!(soon(answer).await, Err(NoReply::Ended));
}
