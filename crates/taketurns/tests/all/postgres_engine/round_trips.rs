//! How often a client waits for the server. A proxy between them keeps the server's answers until the client has asked all
//! that it asks without them: if it waited for one of them, the test would hang.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use taketurns::Name;
use taketurns::engine::{Owner, Reply, Request};
use taketurns_servers::eventually;

use super::costs::{CountedClient, STEPS_PER_SWEEP, settle};
use super::database;
use crate::support::patience::soon;

/// BEGIN and SELECT; then UPDATE and COMMIT.
const STEP: [usize; 2] = [2, 2];

/// Passes on what a client asks, and as many of the answers as the test allows.
struct AnswerProxy {
    port: u16,
    counts: Arc<AnswerCounts>,
}

#[derive(Default)]
struct AnswerCounts {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Questions since the answers are held back. A question is a message that the server answers with "ready".
    asked: usize,
    /// How many answers may pass; `None`: all.
    allowed: Option<usize>,
}

impl AnswerProxy {
    /// One that passes on everything, in front of the server at this port.
    fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let proxy =
            Self { port: listener.local_addr().expect("bound").port(), counts: Arc::default() };
        let counts = proxy.counts.clone();
        // It ends with this process.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).expect("a server");
                client.set_nodelay(true).expect("a socket");
                server.set_nodelay(true).expect("a socket");
                let (to_client, to_server) = (client.try_clone(), server.try_clone());
                let asks = counts.clone();
                let mut to_server = to_server.expect("a socket");
                thread::spawn(move || asks.pass_on(client, &mut to_server, Side::Client));
                let answers = counts.clone();
                let mut to_client = to_client.expect("a socket");
                thread::spawn(move || answers.pass_on(server, &mut to_client, Side::Server));
            }
        });
        proxy
    }

    /// From now on no answer passes.
    fn hold(&self) {
        self.counts.change(|state| *state = State { asked: 0, allowed: Some(0) });
    }

    /// The client asks this request in these round trips: this many questions in each, all before the first answer.
    async fn round_trips<T: Send + 'static>(
        &self,
        questions: &[usize],
        request: impl Future<Output = T> + Send + 'static,
    ) -> T {
        self.hold();
        let answer = tokio::spawn(request);
        let mut asked = 0;
        for questions in questions {
            asked += questions;
            let all = || (self.counts.asked() == asked).then_some(());
            eventually("all is asked that waits for no answer", all).expect("in one round trip");
            self.counts.change(|state| *state.allowed.get_or_insert_default() += questions);
        }
        let answer = soon("the answer", answer).await.expect("a task");
        assert_eq!(self.counts.asked(), asked, "nothing more is asked");
        self.counts.change(|state| state.allowed = None);
        answer
    }
}

/// Who speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

impl AnswerCounts {
    fn asked(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).asked
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Passes on message after message until a side ends.
    fn pass_on(&self, mut from: TcpStream, to: &mut TcpStream, side: Side) {
        // A client's first message has no kind.
        let mut kind_bytes = usize::from(side == Side::Server);
        while let Some(message) = read_message(&mut from, kind_bytes) {
            let kind = message[0];
            match side {
                // A simple query, and the end of an extended one.
                Side::Client if kind_bytes == 1 && matches!(kind, b'Q' | b'S') => {
                    self.change(|state| state.asked += 1);
                }
                Side::Client => {}
                Side::Server => self.wait_to_pass(kind == b'Z'),
            }
            kind_bytes = 1;
            if to.write_all(&message).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    }

    /// Waits until an answer may pass, and takes it off at its last message.
    fn wait_to_pass(&self, is_last: bool) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = self.changed.wait_while(state, |state| state.allowed == Some(0));
        let mut state = waiting.unwrap_or_else(PoisonError::into_inner);
        if let Some(allowed) = state.allowed.as_mut().filter(|_| is_last) {
            *allowed -= 1;
        }
    }
}

/// A message of PostgreSQL's protocol: its kind, its length, and the rest.
fn read_message(from: &mut TcpStream, kind_bytes: usize) -> Option<Vec<u8>> {
    let mut message = vec![0; kind_bytes + 4];
    from.read_exact(&mut message).ok()?;
    let length = u32::from_be_bytes(message[kind_bytes..].try_into().expect("four bytes"));
    message.resize(kind_bytes + usize::try_from(length).expect("it fits"), 0);
    from.read_exact(&mut message[kind_bytes + 4..]).ok()?;
    Some(message)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_takes_two_round_trips_and_a_hand_over_three() {
    let database = database();
    database.stop_clock().expect("a clock");
    let proxy = AnswerProxy::to(database.server().port());
    let url = format!("postgres://postgres@127.0.0.1:{}/{}", proxy.port, database.name());
    let holder = Arc::new(CountedClient::at(&url, 1).await);
    let waiter = CountedClient::open(&database, 2).await;
    let ask = |lock: &'static str, request: Request| {
        let holder = holder.clone();
        async move { holder.ask(lock, request).await }
    };
    // The first step makes the row, and forgets what is idle after its answer.
    assert!(matches!(ask("l", holder.request(1).await).await, Reply::Granted(_)));
    assert_eq!(holder.release("l", 1).await, Reply::Released);
    settle(&database, 1);

    let acquire = holder.request(2).await;
    let reply = proxy.round_trips(&STEP, ask("l", acquire)).await;
    assert!(matches!(reply, Reply::Granted(_)));
    let release = |owner| {
        let owner = Owner::from_bits(owner);
        Request::Release { owner, bury_until_ms: 0, last_used: None }
    };
    assert_eq!(proxy.round_trips(&STEP, ask("l", release(2))).await, Reply::Released);

    assert!(matches!(ask("l", holder.request(3).await).await, Reply::Granted(_)));
    assert!(matches!(waiter.acquire("l", 4).await, Reply::Queued(_)));
    settle(&database, 2);
    let (step, notify) = (STEP, 3);
    let hand_over = [step[0], step[1], notify];
    assert_eq!(proxy.round_trips(&hand_over, ask("l", release(3))).await, Reply::Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_renewals_take_two_round_trips_for_256() {
    let database = database();
    database.stop_clock().expect("a clock");
    let proxy = AnswerProxy::to(database.server().port());
    let url = format!("postgres://postgres@127.0.0.1:{}/{}", proxy.port, database.name());
    let holder = Arc::new(CountedClient::at(&url, 1).await);
    let mut calls = Vec::new();
    for number in 0..257 {
        let lock = format!("many/{number}");
        let reply = holder.ask(&lock, holder.request(number).await).await;
        assert!(matches!(reply, Reply::Granted(_)));
        let (owner, client) = (Owner::from_bits(number), holder.id);
        let renew = Request::Renew { owner, client, lease_ms: 60_000, write_back: None };
        calls.push((Name::new(&lock).expect("a name"), renew));
    }
    settle(&database, 257_u32.div_ceil(STEPS_PER_SWEEP));
    let renewed = {
        let holder = holder.clone();
        async move { holder.engine.call_all(calls).await }
    };
    // Of this client's one connection, so the second batch comes after the first.
    let answers = proxy.round_trips(&[STEP, STEP].concat(), renewed).await;
    assert_eq!(answers.len(), 257);
    for answer in answers {
        assert!(matches!(answer.expect("an answer").reply, Reply::Renewed(_)));
    }
}
