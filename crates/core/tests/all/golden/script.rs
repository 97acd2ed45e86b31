//! The words of the golden scripts.
//!
//! | command | means |
//! |---|---|
//! | `at MS …` | the lease clock, from here on; any command may start with it |
//! | `wall US` | the wall clock, from here on; 0 to begin with, so that tokens count 1, 2, 3 |
//! | `acquire A [ASK] [client=c1] [lease=30000] [wait=3000] [not_after=now+10000]` | `wait=no` to not queue; `ASK` is `mutex`, `turns:N`, `stay:N`, `read`, `write`, `2/4`, `any`, `member:NAME` or `once` |
//! | `acquire A [least=MS]` | and nobody else for so long |
//! | `acquire A once [keep=86400000] [period=OFFSET] [attempts=N] [pause=MS]` | an attempt at work |
//! | `done A [token=N] [result=TEXT] [bury=MS]` · `fail A [token=N] [bury=MS]` · `undo` | the token is that of the last grant, unless it says otherwise |
//! | `acquire A [hint=N] [ticket=N] [yields=N]` | with a ballot, as one node of a quorum |
//! | `crowd N ASK [as acquire]` | N acquires, by owners `#1` to `#N` of clients `c1001` and on; only the last one is shown |
//! | `refresh c1 [wait=3000]` · `gone c1` | |
//! | `renew A [client=c1] [lease=30000] [grant=N agreed=N]` · `release A [bury=MS] [used=N]` | |
//! | `break [token=N] [now]` | |
//! | `resize N` · `add NAME` · `remove NAME` · `tick` | |
//! | `drain` | ticks until there is no more to hand over, and counts them |
//! | `show` · `forget` | look, and change nothing |
//! | `reboot` · `reload` | another boot; stored and read back |
//!
//! An owner is a capital letter, and unless it says otherwise `A` is of client `c1`, `B` of `c2`, ….

use taketurns_core::{
    AcquireRequest, Ask, AttemptEnd, Ballot, ClientId, Completion, Grant, Label, Lock, Note, Now,
    OnceTerms, Owner, Place, Reply, Request, Step, Token, Vote, Wake, WakeEvent, WriteBack,
};

use super::Outcome;
use super::words::{CROWD, Words, ask, client, member, name, owner};

const OPTIONS: [&str; 18] = [
    "client",
    "lease",
    "wait",
    "not_after",
    "bury",
    "token",
    "hint",
    "ticket",
    "yields",
    "grant",
    "agreed",
    "used",
    "least",
    "keep",
    "period",
    "attempts",
    "pause",
    "result",
];

/// Runs a script. Returns it with what comes of each command in place of what it said.
pub(super) fn run(script: &str) -> Result<String, String> {
    let mut world =
        World { lock: Lock::new(), now: Now { ms: 0, wall_us: 0 }, out: Outcome::default() };
    super::replay(script, |line| {
        world.command(Words::new(line, &OPTIONS)?)?;
        world.lock.audit().map_err(|corrupt| corrupt.to_string())?;
        Ok(world.out.take())
    })
}

struct World {
    lock: Lock,
    now: Now,
    out: Outcome,
}

impl World {
    fn command(&mut self, mut words: Words<'_>) -> Result<(), String> {
        if words.first() == Some("at") {
            self.now.ms = words.parse(1)?;
            words.list.drain(..2);
        }
        match words.first() {
            None => {}
            Some("wall") => self.now.wall_us = words.parse(1)?,
            Some("show") => self.show(),
            Some("forget") => match self.lock.forget_at_ms() {
                Some(at_ms) => self.say(format!("may be forgotten at {at_ms}")),
                None => self.say("is never forgotten"),
            },
            Some("reboot") => self.lock.reboot(),
            Some("quarantine") => self.lock.quarantine(words.parse(1)?),
            Some("reload") => self.reload()?,
            Some("crowd") => self.crowd(&words)?,
            Some("drain") => self.drain(),
            Some(_) => {
                let request = self.request(&words)?;
                let step = self.lock.apply(self.now, &request);
                self.say_step(&step);
            }
        }
        Ok(())
    }

    fn request(&self, words: &Words<'_>) -> Result<Request, String> {
        Ok(match words.first().unwrap_or_default() {
            "acquire" => Request::Acquire(self.acquire(words, owner(words.at(1)?)?)?),
            "refresh" => Request::Refresh {
                client: client(words.at(1)?)?,
                waiter_lease_ms: words.option("wait", 3_000)?,
            },
            "renew" => Request::Renew {
                owner: owner(words.at(1)?)?,
                client: words.client(owner(words.at(1)?)?)?,
                lease_ms: words.option("lease", 30_000)?,
                write_back: words.write_back()?,
            },
            "release" => Request::Release {
                owner: owner(words.at(1)?)?,
                bury_until_ms: words.option("bury", 0)?,
                last_used: words.maybe("used")?.map(Token::from_raw),
            },
            "break" => Request::Break {
                token: words.maybe("token")?.map(Token::from_raw),
                at_once: words.list.contains(&"now"),
            },
            "gone" => Request::ClientGone { client: client(words.at(1)?)? },
            "resize" => Request::Resize { permits: words.parse(1)? },
            "add" => Request::PoolAdd { member: member(words.at(1)?)? },
            "remove" => Request::PoolRemove { member: member(words.at(1)?)? },
            "done" => self.finish(words, AttemptEnd::Done(words.note()?))?,
            "fail" => self.finish(words, AttemptEnd::Failed)?,
            "undo" => Request::Undo,
            "tick" => Request::Tick,
            other => return Err(format!("`{other}` is no command")),
        })
    }

    fn acquire(&self, words: &Words<'_>, owner: Owner) -> Result<AcquireRequest, String> {
        let wait = match words.value("wait") {
            Some("no") => None,
            _ => Some(words.option("wait", 3_000)?),
        };
        let who = name(owner);
        Ok(AcquireRequest {
            owner,
            client: words.client(owner)?,
            ask: match words.list.get(2) {
                Some(&"once") => Ask::Once(OnceTerms {
                    keep_ms: words.option("keep", 86_400_000)?,
                    offset_ms: words.maybe("period")?,
                    attempts: words.option("attempts", 0)? as u32,
                    pause_ms: words.option("pause", 0)?,
                }),
                Some(word) => ask(word)?,
                None => Ask::Mutex,
            },
            at_least_ms: words.option("least", 0)?,
            lease_ms: words.option("lease", 30_000)?,
            waiter_lease_ms: wait,
            not_after_ms: words.option("not_after", self.now.ms + 10_000)?,
            ballot: words.ballot()?,
            label: Label::new(&who, "").map_err(|invalid| invalid.to_string())?,
        })
    }

    fn finish(&self, words: &Words<'_>, end: AttemptEnd) -> Result<Request, String> {
        let last = self.lock.last_token().map_or(0, Token::raw);
        let token = Token::from_raw(words.option("token", last)?);
        let bury_until_ms = words.option("bury", 0)?;
        Ok(Request::Finish { owner: owner(words.at(1)?)?, token, end, bury_until_ms })
    }

    fn crowd(&mut self, words: &Words<'_>) -> Result<(), String> {
        let mut last = None;
        for n in 1..=words.parse(1)? {
            let acquire = self.acquire(words, Owner::from_bits(CROWD + n))?;
            last = Some(self.lock.apply(self.now, &Request::Acquire(acquire)));
        }
        if let Some(step) = last {
            self.say_step(&step);
        }
        Ok(())
    }

    fn drain(&mut self) {
        let mut steps = 0;
        loop {
            let step = self.lock.apply(self.now, &Request::Tick);
            steps += 1;
            self.say_wakes(&step.wakes);
            if !step.more {
                return self.say(format!("drained in {steps}"));
            }
        }
    }

    fn reload(&mut self) -> Result<(), String> {
        let stored = postcard::to_allocvec(&self.lock.snapshot()).map_err(|e| e.to_string())?;
        let snapshot = postcard::from_bytes(&stored).map_err(|e| e.to_string())?;
        let restored = Lock::restore(snapshot).map_err(|corrupt| corrupt.to_string())?;
        if restored != self.lock {
            return Err("what was read back is another lock".into());
        }
        self.lock = restored;
        Ok(())
    }

    fn show(&mut self) {
        let view = self.lock.view(self.now, 10);
        let token = view.last_token.map_or("none".into(), |token| token.to_string());
        self.say(format!("{}, last token {token}", view.kind));
        if let Some(left) = view.quarantine_left {
            self.say(format!("quarantined for {} ms", left.as_millis()));
        }
        for holder in view.holders {
            let token = holder.token.map_or("none".into(), |token| token.to_string());
            let member = holder.member.map_or(String::new(), |member| format!(" has {member}"));
            self.say(
                format!(
                    "{} of c{} holds {} token={token}{member} held={} left={}{}",
                    holder.label,
                    holder.client.bits(),
                    holder.ask,
                    holder.held_for.as_millis(),
                    holder.left.as_millis(),
                    if holder.revoked { " revoked" } else { "" },
                ) + &holder.at_least_left.map_or(String::new(), |left| {
                    let resting = if holder.resting { " resting" } else { "" };
                    format!(" at_least={}{resting}", left.as_millis())
                }),
            );
        }
        if let Some(work) = view.work {
            let retry =
                work.retry_in.map_or(String::new(), |ms| format!(" retry={}", ms.as_millis()));
            let forgotten = work.forgotten_in.as_millis();
            self.say(format!("failed={}{retry} forgotten in {forgotten}", work.failed));
            if let Some(done) = work.done {
                self.say(completion(&done));
            }
        }
        for waiter in view.waiters.iter().take(3) {
            self.say(format!(
                "{} of c{} waits for {} since {} ms",
                waiter.label,
                waiter.client.bits(),
                waiter.ask,
                waiter.waited_for.as_millis()
            ));
        }
        if view.waiting > 3 {
            self.say(format!("{} wait in all", view.waiting));
        }
        for member in view.members {
            let state = match (member.held, member.leaving) {
                (true, true) => "held, leaving",
                (true, false) => "held",
                (false, true) => "leaving",
                (false, false) => "free",
            };
            self.say(format!("member {} {state}", member.name));
        }
    }

    fn say_step(&mut self, step: &Step) {
        self.say(reply(&step.reply));
        self.say_wakes(&step.wakes);
        if step.more {
            self.say("more");
        }
    }

    fn say_wakes(&mut self, wakes: &[Wake]) {
        for Wake { client, owner, event } in wakes {
            let event = match event {
                WakeEvent::Granted(held) => grant(held),
                WakeEvent::Revoked { token } => {
                    format!(
                        "revoked token={}",
                        token.map_or("none".into(), |token| token.to_string())
                    )
                }
                WakeEvent::Refused(refusal) => format!("refused: {refusal}"),
                WakeEvent::Inquired { number } => format!("inquired about grant {number}"),
                WakeEvent::Wanted { token } => format!("wanted token={token}"),
                WakeEvent::DoneBefore(done) => completion(done),
            };
            self.say(format!("wake {} of c{}: {event}", name(*owner), client.bits()));
        }
    }

    fn say(&mut self, line: impl AsRef<str>) {
        self.out.say(line);
    }
}

fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Granted(held) => grant(held),
        Reply::Queued(Place { number, front, recheck_ms, quarantined_until_ms }) => {
            let (recheck, quarantined) = (recheck(*recheck_ms), quarantined(*quarantined_until_ms));
            format!("queued place={number} front={front}{recheck}{quarantined}")
        }
        Reply::Refreshed { waiting, front, recheck_ms, quarantined_until_ms, granted } => {
            let granted: String = granted
                .iter()
                .map(|(owner, held)| format!(", {} is {}", name(*owner), grant(held)))
                .collect();
            let (recheck, quarantined) = (recheck(*recheck_ms), quarantined(*quarantined_until_ms));
            format!("refreshed waiting={waiting} front={front}{recheck}{quarantined}{granted}")
        }
        Reply::Renewed(held) => format!("renewed, {}", grant(held)),
        Reply::Broken(count) => format!("broken {count}"),
        Reply::Changed(true) => "changed".into(),
        Reply::Changed(false) => "not changed".into(),
        Reply::Refused(refusal) => format!("refused: {refusal}"),
        Reply::DoneBefore(done) => completion(done),
        Reply::Busy => "busy".into(),
        Reply::Kept => "kept".into(),
        Reply::Revoked => "revoked".into(),
        Reply::Released => "released".into(),
        Reply::Left => "left".into(),
        Reply::NotHeld => "not held".into(),
        Reply::Done => "done".into(),
        other => format!("{other:?}"),
    }
}

fn completion(done: &Completion) -> String {
    let Completion { by, token, at_ms, until_ms, failed, result, .. } = done;
    let failed = if *failed > 0 { format!(" failed={failed}") } else { String::new() };
    let result =
        if result.as_str().is_empty() { String::new() } else { format!(" result={result}") };
    format!("done by {by} token={token} at={at_ms} until={until_ms}{failed}{result}")
}

fn recheck(recheck_ms: Option<u64>) -> String {
    recheck_ms.map_or(String::new(), |recheck_ms| format!(" recheck={recheck_ms}"))
}

fn quarantined(until_ms: Option<u64>) -> String {
    until_ms.map_or(String::new(), |until_ms| format!(" quarantined={until_ms}"))
}

fn grant(grant: &Grant) -> String {
    let token = grant.token.map_or("none".into(), |token| token.to_string());
    let tokens = if grant.tokens > 1 { format!("…{}", last(grant)) } else { String::new() };
    let member = grant.member.as_ref().map_or(String::new(), |member| format!(" member={member}"));
    let inquired = |vote: Vote| if vote.inquired { ", inquired about" } else { "" };
    let vote =
        |vote: Vote| format!(" grant={} ticket={}{}", vote.number, vote.ticket, inquired(vote));
    let vote = grant.vote.map_or(String::new(), vote);
    let wanted = if grant.wanted { " wanted" } else { "" };
    format!("granted token={token}{tokens} until={}{member}{vote}{wanted}", grant.deadline_ms)
}

/// The last of the tokens that come with a grant.
fn last(grant: &Grant) -> u64 {
    grant.token.map_or(0, |token| token.raw() + u64::from(grant.tokens) - 1)
}

impl Words<'_> {
    fn ballot(&self) -> Result<Option<Ballot>, String> {
        let (hint, ticket) = (self.maybe("hint")?, self.maybe("ticket")?);
        let yields = self.maybe("yields")?;
        let any = hint.or(ticket).or(yields).is_some();
        Ok(any.then_some(Ballot { hint: hint.unwrap_or(0), ticket, yields }))
    }

    fn note(&self) -> Result<Note, String> {
        Note::new(self.value("result").unwrap_or_default()).map_err(|invalid| invalid.to_string())
    }

    fn write_back(&self) -> Result<Option<WriteBack>, String> {
        let (number, token) = (self.maybe("grant")?, self.option("agreed", 0)?);
        Ok(number.map(|number| WriteBack { number, token }))
    }

    /// The client that is named, or that of the owner's letter.
    fn client(&self, owner: Owner) -> Result<ClientId, String> {
        match self.value("client") {
            Some(word) => client(word),
            None => Ok(ClientId::from_bits(owner.expose() as u64)),
        }
    }
}
