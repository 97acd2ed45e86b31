//! A reader that moves between our thread and the runtimes of callers: where it reads, and that no answer is lost
//! whatever becomes of a runtime.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use redis::{Cmd, Value, cmd};
use taketurns_servers::PATIENCE;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::engine::redis::connection::PendingReply;
use crate::engine::redis::connection::multiplexer::{Multiplexer, NoReply, ReplyResult};
use crate::engine::redis::connection::socket::MovableSocket;
use crate::runtime::NOT_WAITING;

/// No timer takes the reader back.
const NEVER: Duration = PATIENCE;
/// Long enough to be seen with the reader, on a machine that is not too busy.
const SOON: Duration = Duration::from_millis(500);
const MESSAGE: &[u8] = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n";

/// A connection with a keeper on a thread of its own, and the other end.
struct ServerConnection {
    mux: Multiplexer,
    keeper: ThreadId,
    /// The runtime on that thread.
    keepers: Handle,
    /// On which thread each message was heard.
    heard: Receiver<ThreadId>,
    peer: std::net::TcpStream,
    /// The keeper ends with it.
    _stop: oneshot::Sender<()>,
}

impl ServerConnection {
    fn new(caller_tick: Duration) -> Self {
        Self::on(caller_tick, |keep| {
            thread::spawn(|| {
                let keeper = Builder::new_current_thread().enable_all().build();
                keeper.expect("a runtime").block_on(keep);
            });
        })
    }

    /// Another one of the same client: with the same keeper.
    fn beside(&self) -> Self {
        Self::on(NEVER, |keep| drop(self.keepers.spawn(keep)))
    }

    fn on(
        caller_tick: Duration,
        run: impl FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>),
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (hear, heard) = channel();
        let (made, making) = channel();
        let (stop, stopped) = oneshot::channel::<()>();
        run(Box::pin(async move {
            let stream = TcpStream::connect(address).await.expect("connected");
            let socket = MovableSocket::new(stream).expect("registered");
            let heard = move |_: &[u8], _: &[u8]| {
                let _ = hear.send(thread::current().id());
            };
            let (mux, driver) =
                Multiplexer::with_tick(Box::new(socket), PATIENCE, caller_tick, Arc::new(heard));
            let made_by = (mux, thread::current().id(), Handle::current());
            made.send(made_by).expect("the test waits");
            let driver = tokio::spawn(driver.run());
            let _ = stopped.await;
            driver.abort();
        }));
        let (peer, _) = listener.accept().expect("accepted");
        peer.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        peer.set_nodelay(true).expect("no delay");
        let (mux, keeper, keepers) = making.recv_timeout(PATIENCE).expect("it hangs");
        Self { mux, keeper, keepers, heard, peer, _stop: stop }
    }

    fn says(&mut self, bytes: &[u8]) {
        self.peer.write_all(bytes).expect("connected");
    }

    /// The other end reads a command.
    fn reads(&mut self, command: &Cmd) {
        let wanted = command.get_packed_command();
        let mut bytes = vec![0; wanted.len()];
        self.peer.read_exact(&mut bytes).expect("the command");
        assert!(bytes == wanted, "{:?}", String::from_utf8_lossy(&bytes));
    }

    /// A task of the runtime asks, and waits. The answer is awaited elsewhere.
    fn sent_on(&mut self, runtime: &Handle, command: Cmd) -> PendingReply {
        let (mux, (tell, told)) = (self.mux.clone(), channel());
        runtime.spawn(async move {
            let mut answer = mux.ask(&command);
            poll_fn(|context| {
                assert!(Pin::new(&mut answer).poll(context).is_pending(), "nobody has answered");
                Poll::Ready(())
            })
            .await;
            tell.send(answer)
        });
        told.recv_timeout(PATIENCE).expect("it hangs")
    }

    fn asked_on(&mut self, runtime: &Handle, number: i64) -> PendingReply {
        let answer = self.sent_on(runtime, echo(number));
        self.reads(&echo(number));
        answer
    }

    /// The runtime has the reader. It can't take it while the keeper reads, as it does when it begins.
    fn is_read_on(&mut self, runtime: &Runtime, worker: ThreadId) {
        let start = Instant::now();
        while self.thread_of_a_message() != worker {
            assert!(start.elapsed() < PATIENCE, "it hangs");
            self.exchange_on(runtime, 0);
        }
    }

    /// A task of the runtime asks and is answered.
    fn exchange_on(&mut self, runtime: &Runtime, number: i64) {
        let answer = self.asked_on(runtime.handle(), number);
        self.says(format!(":{number}\r\n").as_bytes());
        assert_eq!(awaited(answer), Ok(Value::Int(number)));
    }

    /// A thread without a runtime asks and is answered.
    fn exchange(&mut self, number: i64) {
        let answer = self.mux.ask(&echo(number));
        self.reads(&echo(number));
        self.says(format!(":{number}\r\n").as_bytes());
        assert_eq!(awaited(answer), Ok(Value::Int(number)));
    }

    /// On which thread the next message is read.
    fn thread_of_a_message(&mut self) -> ThreadId {
        self.says(MESSAGE);
        self.heard.recv_timeout(PATIENCE).expect("it hangs")
    }

    /// Messages come one after the other until the keeper reads them.
    fn is_read_by_the_keeper(&mut self, pause: Duration) {
        let start = Instant::now();
        while self.thread_of_a_message() != self.keeper {
            assert!(start.elapsed() < PATIENCE, "it hangs");
            thread::sleep(pause);
        }
    }
}

/// Waits on a thread that has no runtime.
fn awaited(answer: PendingReply) -> ReplyResult {
    let (tell, told) = channel();
    thread::spawn(move || {
        let mut runtime = Builder::new_current_thread();
        let _ = tell.send(runtime.build().expect("a runtime").block_on(answer));
    });
    told.recv_timeout(PATIENCE).expect("it hangs")
}

fn echo(number: i64) -> Cmd {
    cmd("ECHO").arg(number).take()
}

/// A runtime with one thread, and that thread.
fn runtime() -> (Runtime, ThreadId) {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
    let worker = runtime.block_on(runtime.spawn(async { thread::current().id() }));
    (runtime, worker.expect("no panic"))
}

/// Its one thread does nothing else until what this returns is dropped.
fn blocked(runtime: &Runtime) -> Sender<()> {
    let (unblock, blocked) = channel();
    let (is_blocked, blocks) = channel();
    runtime.spawn(async move {
        is_blocked.send(()).expect("the test waits");
        let _ = blocked.recv();
    });
    blocks.recv_timeout(PATIENCE).expect("it hangs");
    unblock
}

/// Waits until no task is left on the runtime.
fn is_without_tasks(runtime: &Runtime) {
    let start = Instant::now();
    while runtime.metrics().num_alive_tasks() > 0 {
        assert!(start.elapsed() < PATIENCE, "a task is left behind");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_answer_and_a_message_change_no_thread() {
    let mut connection = ServerConnection::new(NEVER);
    let (runtime, worker) = runtime();
    connection.is_read_on(&runtime, worker);
    for number in 0..3 {
        let mux = connection.mux.clone();
        let task = runtime.spawn(async move {
            let answered = mux.ask(&echo(number)).await;
            (answered, thread::current().id())
        });
        connection.reads(&echo(number));
        // One write, so one task reads both.
        connection.says(&[format!(":{number}\r\n").as_bytes(), MESSAGE].concat());
        assert_eq!(connection.heard.recv_timeout(PATIENCE), Ok(worker));
        assert_eq!(runtime.block_on(task).expect("no panic"), (Ok(Value::Int(number)), worker));
    }
}

/// As every release is.
#[test]
fn a_request_sent_before_its_task_waits_does_not_move_the_reader() {
    let mut connection = ServerConnection::new(NEVER);
    let (runtime, worker) = runtime();
    connection.is_read_on(&runtime, worker);
    for number in 0..20 {
        let (mux, (tell, told)) = (connection.mux.clone(), channel());
        let task = runtime.spawn(async move {
            let mut answer = mux.ask(&echo(number));
            let is_sent =
                Pin::new(&mut answer).poll(&mut Context::from_waker(NOT_WAITING)).is_pending();
            tell.send(is_sent).expect("the test waits");
            answer.await
        });
        assert_eq!(told.recv_timeout(PATIENCE), Ok(true), "nobody has answered");
        connection.reads(&echo(number));
        assert_eq!(connection.thread_of_a_message(), worker);
        connection.says(format!(":{number}\r\n").as_bytes());
        assert_eq!(runtime.block_on(task).expect("no panic"), Ok(Value::Int(number)));
    }
}

#[test]
fn a_runtime_that_ends_gives_the_reader_back() {
    let mut connection = ServerConnection::new(NEVER);
    for number in 0..20 {
        let (runtime, worker) = runtime();
        connection.is_read_on(&runtime, worker);
        // It ends with a question that is not answered yet.
        let answer = connection.asked_on(runtime.handle(), 100 + number);
        if number % 2 == 0 {
            drop(runtime)
        } else {
            runtime.shutdown_background()
        }
        connection.says(format!(":{}\r\n", 100 + number).as_bytes());
        assert_eq!(awaited(answer), Ok(Value::Int(100 + number)));
        connection.exchange(200 + number);
    }
    assert_eq!(connection.thread_of_a_message(), connection.keeper);
}

#[test]
fn a_runtime_that_blocks_loses_the_reader() {
    let mut connection = ServerConnection::new(SOON);
    let (runtime, worker) = runtime();
    connection.is_read_on(&runtime, worker);
    let answer = connection.asked_on(runtime.handle(), 2);
    let unblock = blocked(&runtime);
    connection.says(b":2\r\n");
    assert_eq!(awaited(answer), Ok(Value::Int(2)));
    connection.exchange(3);
    assert_eq!(connection.thread_of_a_message(), connection.keeper);
    drop(unblock);
    connection.exchange_on(&runtime, 4);
}

#[test]
fn an_idle_connection_is_read_by_the_keeper() {
    let mut connection = ServerConnection::new(SOON);
    let (runtime, worker) = runtime();
    connection.is_read_on(&runtime, worker);
    connection.is_read_by_the_keeper(2 * SOON);
    connection.exchange_on(&runtime, 2);
}

#[test]
fn a_crowd_is_read_by_the_keeper() {
    let mut connection = ServerConnection::new(SOON);
    let (runtime, worker) = runtime();
    connection.is_read_on(&runtime, worker);
    let (mux, (tell, told)) = (connection.mux.clone(), channel());
    let crowd = runtime.spawn(async move {
        let answers: Vec<PendingReply> = (1..=9).map(|number| mux.ask(&echo(number))).collect();
        let _ = tell.send(());
        for answer in answers {
            let _ = answer.await;
        }
    });
    told.recv_timeout(PATIENCE).expect("it hangs");
    // Without a pause: nobody could take the runtime for idle.
    connection.is_read_by_the_keeper(Duration::ZERO);
    connection.says(b":1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n:9\r\n");
    runtime.block_on(crowd).expect("no panic");
}

#[test]
fn threads_without_the_runtime_get_the_reader_back_to_the_keeper() {
    let mut connection = ServerConnection::new(SOON);
    let (runtime, worker) = runtime();
    connection.is_read_on(&runtime, worker);
    let start = Instant::now();
    // The runtime reads all the time, but not for itself.
    while connection.thread_of_a_message() != connection.keeper {
        assert!(start.elapsed() < PATIENCE, "it hangs");
        connection.exchange(1);
    }
}

/// As the connections to the nodes of a quorum.
#[test]
fn connections_of_one_client_share_a_task_of_the_callers_runtime() {
    let mut first = ServerConnection::new(NEVER);
    let mut second = first.beside();
    let (runtime, worker) = runtime();
    first.is_read_on(&runtime, worker);
    second.is_read_on(&runtime, worker);
    assert_eq!(runtime.metrics().num_alive_tasks(), 1);
    for number in 0..3 {
        first.exchange_on(&runtime, number);
        second.exchange_on(&runtime, number);
    }
    // One that ends leaves the other where it is.
    first.peer.shutdown(Shutdown::Both).expect("connected");
    second.exchange_on(&runtime, 3);
    assert_eq!(second.thread_of_a_message(), worker);
    runtime.shutdown_background();
    second.exchange(4);
}

/// Renewals and refreshes come from there, and nobody waits for them.
#[test]
fn what_the_keeper_asks_leaves_the_reader_with_the_caller() {
    let mut connection = ServerConnection::new(NEVER);
    let (runtime, worker) = runtime();
    connection.is_read_on(&runtime, worker);
    let keepers = connection.keepers.clone();
    let answer = connection.asked_on(&keepers, 1);
    assert_eq!(connection.thread_of_a_message(), worker);
    connection.says(b":1\r\n");
    assert_eq!(awaited(answer), Ok(Value::Int(1)));
}

/// Not even one that has nothing else to do could read for a thread that blocks it.
#[test]
fn a_task_that_blocks_is_read_for_by_the_keeper() {
    let mut connection = ServerConnection::new(NEVER);
    let (runtime, _) = runtime();
    let mux = connection.mux.clone();
    // More than tokio lets a task do without a pause.
    let numbers = 0..300;
    let task = runtime.spawn(async move {
        for number in numbers {
            let answered = crate::blocking::block_on(mux.ask(&echo(number)));
            assert_eq!(answered, Ok(Value::Int(number)));
        }
    });
    for number in 0..300 {
        connection.reads(&echo(number));
        assert_eq!(connection.thread_of_a_message(), connection.keeper);
        connection.says(format!(":{number}\r\n").as_bytes());
    }
    runtime.block_on(task).expect("no panic");
}

#[test]
fn a_task_that_awaits_and_blocks_by_turns_is_never_stuck() {
    let mut connection = ServerConnection::new(NEVER);
    let (runtime, _) = runtime();
    let mux = connection.mux.clone();
    let task = runtime.spawn(async move {
        for number in 0..300 {
            let asked = mux.ask(&echo(number));
            let answered =
                if number % 2 == 0 { asked.await } else { crate::blocking::block_on(asked) };
            assert_eq!(answered, Ok(Value::Int(number)));
        }
    });
    for number in 0..300 {
        connection.reads(&echo(number));
        connection.says(format!(":{number}\r\n").as_bytes());
    }
    runtime.block_on(task).expect("no panic");
}

#[test]
fn a_runtime_that_can_not_read_is_not_asked_to() {
    let mut connection = ServerConnection::new(NEVER);
    let current = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mux = connection.mux.clone();
    let task = current.spawn(async move { mux.ask(&echo(1)).await });
    // Polled once, and not again before it is answered.
    current.block_on(tokio::task::yield_now());
    connection.reads(&echo(1));
    connection.says(b":1\r\n");
    assert_eq!(current.block_on(task).expect("no panic"), Ok(Value::Int(1)));
    assert_eq!(connection.thread_of_a_message(), connection.keeper);
    let mut without_io = Builder::new_multi_thread();
    let without_io = without_io.worker_threads(1).enable_time().build().expect("a runtime");
    for number in 2..4 {
        connection.exchange_on(&without_io, number);
        assert_eq!(connection.thread_of_a_message(), connection.keeper);
    }
}

#[test]
fn what_is_left_to_write_moves_with_the_reader() {
    let mut connection = ServerConnection::new(NEVER);
    let (runtime, worker) = runtime();
    connection.is_read_on(&runtime, worker);
    // More than the kernel keeps for both ends.
    let big = cmd("ECHO").arg("x".repeat(20 << 20)).take();
    let answer = connection.sent_on(runtime.handle(), big.clone());
    drop(runtime);
    connection.reads(&big);
    connection.says(b":2\r\n");
    assert_eq!(awaited(answer), Ok(Value::Int(2)));
}

#[test]
fn a_connection_ends_wherever_it_is_read() {
    let (runtime, worker) = runtime();
    // From our side.
    let mut connection = ServerConnection::new(NEVER);
    connection.is_read_on(&runtime, worker);
    let answer = connection.asked_on(runtime.handle(), 2);
    connection.mux.end();
    assert_eq!(awaited(answer), Err(NoReply::Ended));
    connection.peer.read_to_end(&mut Vec::new()).expect("the end");
    is_without_tasks(&runtime);
    // From the other.
    let mut connection = ServerConnection::new(NEVER);
    connection.is_read_on(&runtime, worker);
    let answer = connection.asked_on(runtime.handle(), 3);
    drop(connection.peer);
    assert_eq!(awaited(answer), Err(NoReply::Ended));
    is_without_tasks(&runtime);
    // From ours, while the runtime is blocked.
    let mut connection = ServerConnection::new(NEVER);
    connection.is_read_on(&runtime, worker);
    let unblock = blocked(&runtime);
    drop(connection._stop);
    connection.peer.read_to_end(&mut Vec::new()).expect("the end");
    drop(unblock);
    is_without_tasks(&runtime);
}
