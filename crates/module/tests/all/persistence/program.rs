//! A program that waits without blocking, as the Rust client does: its places belong to no
//! connection.

use taketurns_core::wire::{decode, encode_request};
use taketurns_core::{AcquireRequest, Ask, ClientId, Label, Owner, Reply, Request, limits};
use taketurns_servers::Server;

use crate::persistence::support::Client;

/// Longer than any test.
pub(crate) const LEASE_MS: u64 = 600_000;

pub(crate) struct Program {
    client: Client,
    binding: String,
    id: ClientId,
}

/// Builds an acquire of a program.
pub(crate) fn asked(owner: u128, id: ClientId, ask: Ask, label: &str) -> AcquireRequest {
    AcquireRequest {
        owner: Owner::from_bits(owner),
        client: id,
        ask,
        at_least_ms: 0,
        lease_ms: LEASE_MS,
        waiter_lease_ms: Some(LEASE_MS),
        not_after_ms: u64::MAX,
        ballot: None,
        label: Label::new(label, "").expect("a label"),
    }
}

impl Program {
    /// Binds to this server incarnation, and knows all earlier ones.
    pub(crate) fn of(server: &Server, known: &str, number: u64) -> Self {
        Self::lasting(server, known, number, limits::LEASE_MS_MAX)
    }

    /// The same, with another longest lease.
    pub(crate) fn lasting(server: &Server, known: &str, number: u64, max_lease_ms: u64) -> Self {
        let mut client = Client::of(server);
        let (run, max) = (run_of(server), max_lease_ms.to_string());
        let words = ["FENCELOCK.BIND", &run, known, "", "", "0", &max, "tt:wake:"];
        let reply = client.0.command(&words).expect("a reply");
        let binding = reply.text().unwrap_or_else(|| panic!("no binding: {reply}")).to_owned();
        Self { client, binding, id: ClientId::of_program(number) }
    }

    pub(crate) fn id(&self) -> ClientId {
        self.id
    }

    /// Sends one request; returns the server's raw reply.
    pub(crate) fn ask(&mut self, key: &str, request: &Request) -> taketurns_servers::ServerReply {
        let (verb, args) = encode_request(request);
        let mut words: Vec<Vec<u8>> =
            ["FENCELOCK.DO", key, &self.binding, verb.name()].map(|word| word.into()).into();
        words.extend(args);
        self.client.0.command(&words).expect("a reply")
    }

    /// Sends one request, which must be carried out.
    #[track_caller]
    pub(crate) fn request(&mut self, key: &str, request: &Request) -> Reply {
        let reply = self.ask(key, request);
        let answered = reply.text().and_then(|text| decode(text, |_| None));
        answered.unwrap_or_else(|| panic!("{key}: {reply}")).reply
    }

    /// Takes a place in the queue.
    #[track_caller]
    pub(crate) fn wait(&mut self, key: &str, owner: u128, ask: Ask, label: &str) {
        let reply = self.request(key, &Request::Acquire(asked(owner, self.id, ask, label)));
        assert!(matches!(reply, Reply::Queued(_)), "{key}: {reply:?}");
    }

    /// Repeats its request: that is how a program learns the outcome.
    #[track_caller]
    pub(crate) fn token(&mut self, key: &str, owner: u128, ask: Ask) -> u64 {
        match self.request(key, &Request::Acquire(asked(owner, self.id, ask, ""))) {
            Reply::Granted(grant) => grant.token.expect("a token").raw(),
            reply => panic!("{key}: {reply:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn release(&mut self, key: &str, owner: u128) {
        let owner = Owner::from_bits(owner);
        let reply =
            self.request(key, &Request::Release { owner, bury_until_ms: 0, last_used: None });
        assert_eq!(reply, Reply::Released, "{key}");
    }
}

/// Returns the id of this server incarnation.
pub(crate) fn run_of(server: &Server) -> String {
    server.info("server").remove("run_id").expect("a run")
}
