//! The module's commands, valid and nearly valid.

use taketurns_core::{
    AcquireRequest, Ask, Ballot, Label, Member, Owner, Request, Token, WriteBack, wire,
};

use crate::fuzz::desk::{Command, Desk, MEMBERS, read};
use crate::fuzz::model::{Effect, WantedHold};

const NAMES: [&str; 12] = [
    "ACQUIRE", "RELEASE", "RENEW", "CHECK", "SHOW", "LIST", "BREAK", "POOL", "HELP", "BIND", "DO",
    "APPLY",
];

impl Desk {
    /// Returns one of the module's commands for that connection.
    pub(crate) fn ours(&mut self, connection: i64) -> Command {
        let command = self.well_formed(connection);
        match self.rng.below(100) {
            0..8 => self.mutate(command),
            8..10 => self.garbage(),
            _ => command,
        }
    }

    fn well_formed(&mut self, connection: i64) -> Command {
        let key = self.key();
        match self.rng.below(100) {
            0..32 => self.acquire(key, connection),
            32..50 => self.release(key),
            50..56 => self.renew(key),
            56..60 => self.check(&key),
            60..63 => self.show(&key),
            63..65 => self.list(),
            65..67 => self.break_(key),
            67..71 => self.pool(&key),
            71..72 => Command::plain(&[b"FENCELOCK.HELP"]),
            72..73 => self.bind(),
            73..75 => self.forged(&key),
            _ => self.carry_out(key),
        }
    }

    fn garbage(&mut self) -> Command {
        let name = format!("FENCELOCK.{}", self.rng.pick(&NAMES));
        let mut words = vec![name.into_bytes()];
        words.extend((0..self.rng.below(9)).map(|_| self.rng.bytes(30)));
        // An empty word is a valid key.
        Command { words, effect: Effect::Upsets(vec![Vec::new()]) }
    }

    fn acquire(&mut self, key: Vec<u8>, connection: i64) -> Command {
        let bound = self.rng.percent(25);
        let (lease, unit_ms) = match self.rng.below(10) {
            // So long that only the end of the connection ends it.
            0..4 if bound => (self.number(3_600, 7_200), 1_000),
            0..4 => (self.number(1, 9), 1_000),
            _ => (self.number(10, 3_000), 1),
        };
        let lease_ms = read(&lease).saturating_mul(unit_ms).min(86_400_000);
        let mut words = vec![b"FENCELOCK.ACQUIRE".to_vec(), key.clone(), lease];
        let (ask, of_ask) = self.ask(&key);
        let mut options = vec![of_ask];
        if unit_ms == 1 {
            options.push(vec![b"MS".to_vec()]);
        }
        if self.rng.percent(40) {
            let wait = ["0", "0.001", "0.05", "0.3", "1", "2.5", "-1", "1.2345"];
            options.push(vec![b"wait".to_vec(), self.rng.pick(&wait).into()]);
        }
        if self.rng.percent(15) {
            let label = ["web-3", "", "\u{1f512}", "a\nb", &"x".repeat(257)];
            options.push(vec![b"Label".to_vec(), self.rng.pick(&label).into()]);
        }
        if bound {
            options.push(vec![b"BOUND".to_vec()]);
        }
        while !options.is_empty() {
            words.extend(options.swap_remove(self.rng.below(options.len())));
        }
        let bound_to = bound.then_some(connection);
        let wanted =
            WantedHold { key, ask, lease_ms, owner: None, may_have_asked: false, bound_to };
        Command { words, effect: Effect::Acquire(wanted) }
    }

    /// Returns what to ask of a key. Each key is mostly used as one kind of lock.
    fn ask(&mut self, key: &[u8]) -> (Ask, Vec<Vec<u8>>) {
        let kind = if self.rng.percent(5) { self.rng.below(6) } else { key.len() % 6 };
        let words = |words: &[&str]| words.iter().map(|word| (*word).into()).collect();
        match kind {
            1 if self.rng.percent(70) => (Ask::Read, words(&["SHARED"])),
            1 => (Ask::Write, words(&["exclusive"])),
            2 => {
                let take = 1 + self.rng.below(3) as u32;
                let ask = Ask::Permits { take, of: 3 };
                (ask, words(&["PERMITS", &take.to_string(), "3"]))
            }
            3 if self.rng.percent(60) => (Ask::Any, words(&["ANY"])),
            3 => {
                let name = self.rng.pick(&MEMBERS);
                (Ask::Member(member(name)), words(&["MEMBER", name]))
            }
            _ => (Ask::Mutex, Vec::new()),
        }
    }

    fn release(&mut self, key: Vec<u8>) -> Command {
        let owner = self.owner(&key);
        let secret = secret(owner);
        let words: [&[u8]; 3] = [b"FENCELOCK.RELEASE", &key.clone(), &secret];
        Command::new(&words, Effect::Release { key, owner })
    }

    fn renew(&mut self, key: Vec<u8>) -> Command {
        let owner = self.owner(&key);
        let lease = self.number(10, 3_000);
        let lease_ms = read(&lease);
        let words: [&[u8]; 5] = [b"FENCELOCK.RENEW", &key.clone(), &secret(owner), &lease, b"ms"];
        // An invalid lease is refused, no matter who holds the lock.
        let effect = match lease_ms {
            10..=86_400_000 => Effect::Renew { key, owner, lease_ms },
            _ => Effect::Nothing,
        };
        Command::new(&words, effect)
    }

    fn check(&mut self, key: &[u8]) -> Command {
        let token = self.token(key);
        let token = self.number(token, token);
        Command::plain(&[b"FENCELOCK.CHECK", key, &token])
    }

    fn show(&mut self, key: &[u8]) -> Command {
        let count = self.number(1, 10);
        if self.rng.percent(50) {
            return Command::plain(&[b"FENCELOCK.SHOW", key]);
        }
        Command::plain(&[b"FENCELOCK.SHOW", key, b"COUNT", &count])
    }

    fn list(&mut self) -> Command {
        let (cursor, count) = (self.number(0, 0), self.number(1, 50));
        let pattern = self.rng.pick(&["*", "lk:*", "[", "\\"]).as_bytes();
        Command::plain(&[b"FENCELOCK.LIST", &cursor, b"MATCH", pattern, b"COUNT", &count])
    }

    fn break_(&mut self, key: Vec<u8>) -> Command {
        let token = self.token(&key).to_string();
        let mut words: Vec<&[u8]> = vec![b"FENCELOCK.BREAK", &key];
        if self.rng.percent(50) {
            words.extend([b"TOKEN", token.as_bytes()]);
        }
        if self.rng.percent(50) {
            words.push(b"now");
        }
        Command::new(&words, Effect::Upsets(vec![key.clone()]))
    }

    fn pool(&mut self, key: &[u8]) -> Command {
        let verb = self.rng.pick(&["ADD", "ADD", "rem"]).as_bytes();
        let names = [self.rng.pick(&MEMBERS).as_bytes(), self.rng.pick(&MEMBERS).as_bytes()];
        Command::plain(&[b"FENCELOCK.POOL", verb, key, names[0], names[1]])
    }

    /// Binds a program with known arguments, or wrong ones: each new binding would stay.
    fn bind(&mut self) -> Command {
        let words = match self.rng.below(3) {
            0 => binding(&self.run, self.rng.below(BINDINGS)),
            1 => binding("another run", 0),
            _ => {
                let mut words = binding(&self.run, 0);
                words[5] = self.rng.pick(&["-1", "x", "", "18446744073709551616"]).into();
                words
            }
        };
        Command { words, effect: Effect::Nothing }
    }

    fn forged(&mut self, key: &[u8]) -> Command {
        let mut entry = vec![self.rng.below(4) as u8];
        entry.extend(self.rng.bytes(60));
        Command::plain(&[b"FENCELOCK.APPLY", key, &entry])
    }

    /// Returns a program's request.
    fn carry_out(&mut self, key: Vec<u8>) -> Command {
        let (client, owner) = (self.client(), self.owner(&key));
        let lease_ms = 10 + self.rng.any() % 3_000;
        let waiter_lease_ms = 10 + self.rng.any() % 500;
        let (request, effect) = match self.rng.below(100) {
            0..35 => self.program_acquires(&key, lease_ms, waiter_lease_ms),
            35..50 => (Request::Refresh { client, waiter_lease_ms }, Effect::Nothing),
            50..55 => (
                Request::Renew { owner, client, lease_ms, write_back: None },
                self.adopts(&key, owner, lease_ms),
            ),
            // The grant's number may have changed: an owner that gets this error may still hold the
            // lock.
            55..58 => {
                let (number, token) = (self.token(&key), self.token(&key));
                let token = token.saturating_add(self.rng.any() % 2_000);
                let write_back = Some(WriteBack { number, token });
                (Request::Renew { owner, client, lease_ms, write_back }, Effect::Nothing)
            }
            58..80 => {
                let bury_until_ms = if self.rng.percent(20) { u64::MAX } else { 0 };
                (
                    Request::Release { owner, bury_until_ms, last_used: None },
                    Effect::Release { key: key.clone(), owner },
                )
            }
            80..82 => {
                let token = self.rng.percent(50).then(|| Token::from_raw(self.token(&key)));
                let at_once = self.rng.percent(50);
                (Request::Break { token, at_once }, Effect::Upsets(vec![key.clone()]))
            }
            82..84 => (Request::ClientGone { client }, Effect::Nothing),
            84..86 => {
                let permits = [0, 1, 3, u32::MAX][self.rng.below(4)];
                (Request::Resize { permits }, Effect::Upsets(vec![key.clone()]))
            }
            86..89 => {
                (Request::PoolAdd { member: member(self.rng.pick(&MEMBERS)) }, Effect::Nothing)
            }
            89..91 => {
                (Request::PoolRemove { member: member(self.rng.pick(&MEMBERS)) }, Effect::Nothing)
            }
            91..94 => (Request::Tick, Effect::Nothing),
            _ => {
                let (binding, most) = (self.binding(), self.number(0, 9));
                return Command::plain(&[b"FENCELOCK.DO", &key, &binding, b"view", &most]);
            }
        };
        let (verb, args) = wire::encode_request(&request);
        let mut words = vec![b"FENCELOCK.DO".to_vec(), key, self.binding(), verb.name().into()];
        words.extend(args);
        Command { words, effect }
    }

    /// A program that renews a connection's hold takes it over.
    fn adopts(&self, key: &[u8], owner: Owner, lease_ms: u64) -> Effect {
        let key = key.to_vec();
        let mut holders = self.model.holders(&key).iter();
        if holders.any(|holder| holder.owner == owner && holder.bound_to.is_some()) {
            return Effect::Upsets(vec![key]);
        }
        Effect::Renew { key, owner, lease_ms }
    }

    fn program_acquires(
        &mut self,
        key: &[u8],
        lease_ms: u64,
        waiter_lease_ms: u64,
    ) -> (Request, Effect) {
        let ((mut owner, may_have_asked), (ask, _)) = (self.asker(), self.ask(key));
        let ballot = self.rng.percent(40).then(|| self.ballot(key));
        let gives_way = ballot.is_some_and(|ballot| ballot.yields.is_some());
        if gives_way {
            owner = self.owner(key);
        }
        let acquire = AcquireRequest {
            owner,
            client: self.client(),
            ask: ask.clone(),
            at_least_ms: 0,
            lease_ms,
            waiter_lease_ms: self.rng.percent(60).then_some(waiter_lease_ms),
            not_after_ms: if self.rng.percent(5) { 0 } else { u64::MAX },
            ballot,
            label: Label::new("program", "fuzz").unwrap_or_default(),
        };
        let (key, owner) = (key.to_vec(), Some(owner));
        if gives_way {
            return (Request::Acquire(acquire), Effect::Upsets(vec![key]));
        }
        let wanted = WantedHold { key, ask, lease_ms, owner, may_have_asked, bound_to: None };
        (Request::Acquire(acquire), Effect::Acquire(wanted))
    }

    /// Returns a ballot near those given out, or far from them.
    fn ballot(&mut self, key: &[u8]) -> Ballot {
        let token = self.token(key);
        let near = token.saturating_add(self.rng.any() % 2_000);
        let hint = [0, near, u64::MAX][self.rng.below(3)];
        let ticket = match self.rng.below(8) {
            0..4 => None,
            4 => Some(near),
            5 => Some(token.saturating_sub(1)),
            6 => Some(self.rng.any() % 5),
            _ => Some(u64::MAX - self.rng.any() % 3),
        };
        let yields = self.rng.percent(40).then_some(token);
        Ballot { hint, ticket, yields }
    }
}

/// The number of bindings.
pub(crate) const BINDINGS: usize = 4;

/// Returns the arguments of a binding to that incarnation.
pub(crate) fn binding(run: &str, which: usize) -> Vec<Vec<u8>> {
    let channel = format!("wake{which}:");
    let marker = if which == 3 { "marker" } else { "" };
    let max_lease = ["60000", "100", "3000", "0"][which];
    let words = ["FENCELOCK.BIND", run, "", "mark", marker, "0", max_lease, &channel];
    words.iter().map(|word| (*word).into()).collect()
}

fn member(name: &str) -> Member {
    Member::new(name).expect("a name")
}

/// Returns the secret of a client's grant. A program's owner is not a secret, and is refused.
fn secret(owner: Owner) -> Vec<u8> {
    owner.expose().to_string().into()
}
