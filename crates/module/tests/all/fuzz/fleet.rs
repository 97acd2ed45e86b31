//! Connections that send commands, wait, and disconnect.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use taketurns_core::{Owner, Reply as Said, wire};
use taketurns_servers::{Connection, Server, ServerReply, eventually};

use crate::fuzz::desk::{Command, Desk};
use crate::fuzz::model::{Effect, GrantReport, HoldChange, Stamp, WantedHold};
use crate::fuzz::shape;

/// How many connections there are. The first never blocks.
const CONNECTIONS: usize = 9;
/// How many of the last commands a failure prints.
const REMEMBERED: usize = 40;

const CALL: &[u8] = b"return redis.pcall(unpack(ARGV))";

/// A command that was sent, or the commands of a transaction.
struct SentCommand {
    parts: Vec<(Command, Stamp)>,
    is_exec: bool,
}

struct Link {
    connection: Connection,
    id: i64,
    unanswered: VecDeque<SentCommand>,
    /// Its last try, without waiting.
    tried: Option<Command>,
}

impl Link {
    fn open(server: &Server) -> io::Result<Self> {
        let mut connection = server.connect()?;
        let id = connection.command(&["CLIENT", "ID"])?.int().unwrap_or_default();
        Ok(Self { connection, id, unanswered: VecDeque::new(), tried: None })
    }
}

pub(crate) struct Fleet<'a> {
    server: &'a Server,
    replica: Connection,
    links: Vec<Link>,
    pub(crate) desk: Desk,
    pub(crate) sent: u64,
    pub(crate) codes: BTreeMap<String, u64>,
    /// The last commands and replies.
    last: VecDeque<String>,
}

impl<'a> Fleet<'a> {
    pub(crate) fn new(server: &'a Server, replica: &Server, desk: Desk) -> Self {
        let open = |_| Link::open(server).expect("the server answers");
        let links = (0..CONNECTIONS).map(open).collect();
        let replica = replica.connect().expect("the replica answers");
        let (codes, last) = (BTreeMap::new(), VecDeque::new());
        Self { server, replica, links, desk, sent: 0, codes, last }
    }

    /// Makes one random step of one connection.
    ///
    /// # Errors
    /// Says what is wrong, and what was done before.
    pub(crate) fn step(&mut self) -> Result<(), String> {
        self.collect()?;
        let at = self.desk.rng.below(CONNECTIONS);
        if !self.links[at].unanswered.is_empty() {
            return self.disturb(at);
        }
        let id = self.links[at].id;
        match self.desk.rng.below(1_000) {
            0..15 => self.hang_up(at),
            15..25 => {
                let version = self.desk.rng.pick(&["2", "3", "x"]).as_bytes();
                self.say(at, Command::plain(&[b"HELLO", version]))
            }
            25..60 => self.transaction(at),
            60..100 => {
                let command = self.desk.ours(id);
                self.say(at, in_script(command))
            }
            100..220 => {
                let command = self.desk.theirs();
                self.say(at, command)
            }
            220..223 => {
                let command = self.desk.server_wide();
                if command.words.last().is_some_and(|word| word == b"RELOAD") {
                    self.no_child()?;
                }
                self.say(at, command)
            }
            223..233 => self.ask_replica(),
            // A client that repeats a request polls.
            drawn => {
                let again = self.links[at].tried.clone().filter(|_| drawn < 400);
                let command = again.unwrap_or_else(|| self.desk.ours(id));
                // One connection must stay free to serve the waiters.
                if at == 0 && command.may_block() { Ok(()) } else { self.say(at, command) }
            }
        }
    }

    /// Waits for a child process that saves: its older file would replace the one that is reloaded.
    fn no_child(&self) -> Result<(), String> {
        let saved = eventually("nothing is being saved", || {
            let info = self.server.info("persistence");
            (info.get("rdb_bgsave_in_progress")? == "0").then_some(())
        });
        saved.map_err(|error| self.wrong(&error.to_string()))
    }

    /// Disturbs a connection that waits.
    fn disturb(&mut self, at: usize) -> Result<(), String> {
        let id = self.links[at].id.to_string();
        match self.desk.rng.below(40) {
            0 => self.hang_up(at),
            1 => {
                // Redis 7.0 crashes when a client is unblocked whose write is put off by CLIENT PAUSE,
                // with or without a module.
                self.say(0, Command::plain(&[b"CLIENT", b"UNPAUSE"]))?;
                let how = self.desk.rng.pick(&["TIMEOUT", "ERROR"]).as_bytes();
                self.say(0, Command::plain(&[b"CLIENT", b"UNBLOCK", id.as_bytes(), how]))
            }
            2 if at > 0 => {
                self.desk.model.closed(self.links[at].id);
                self.say(0, Command::plain(&[b"CLIENT", b"KILL", b"ID", id.as_bytes()]))?;
                self.hang_up(at)
            }
            3 => {
                // Behind the command that waits.
                let key = self.desk.key();
                self.send(at, vec![Command::plain(&[b"FENCELOCK.SHOW", &key])], false)
            }
            _ => Ok(()),
        }
    }

    /// Closes a connection in the middle of its work, and opens another.
    fn hang_up(&mut self, at: usize) -> Result<(), String> {
        self.desk.model.closed(self.links[at].id);
        self.note(format!("{} hangs up", self.links[at].id));
        self.links[at] = Link::open(self.server).map_err(|error| self.wrong(&error.to_string()))?;
        Ok(())
    }

    fn transaction(&mut self, at: usize) -> Result<(), String> {
        self.say(at, Command::plain(&[b"MULTI"]))?;
        let id = self.links[at].id;
        let mut parts = Vec::new();
        for _ in 0..self.desk.rng.below(5) {
            let command =
                if self.desk.rng.percent(80) { self.desk.ours(id) } else { self.desk.theirs() };
            let queued = self.command(at, &command.words)?;
            if queued.text() == Some("QUEUED") {
                parts.push(command);
            }
        }
        match self.desk.rng.below(10) {
            0 => self.say(at, Command::plain(&[b"DISCARD"])),
            1 => self.hang_up(at),
            _ => {
                self.send(at, parts, true)?;
                self.receive(at)
            }
        }
    }

    /// Sends a write to the replica, which must refuse it.
    fn ask_replica(&mut self) -> Result<(), String> {
        let command = self.desk.ours(0);
        let reply = self.replica.command(&command.words);
        let reply = reply.map_err(|error| self.wrong(&format!("the replica: {error}")))?;
        self.count(&command.words, &reply)?;
        let name = command.words[0].to_ascii_uppercase();
        let looks: [&[u8]; 4] =
            [b"FENCELOCK.SHOW", b"FENCELOCK.LIST", b"FENCELOCK.HELP", b"FENCELOCK.BIND"];
        if looks.contains(&&name[..]) || reply.error().is_some() {
            return Ok(());
        }
        Err(self.wrong(&format!("the replica did {:?}", escaped(&command.words))))
    }

    /// Sends a command, and waits for its reply unless that may take long.
    fn say(&mut self, at: usize, command: Command) -> Result<(), String> {
        let may_block = command.may_block();
        if let (Effect::Acquire(WantedHold { owner: None, .. }), false) =
            (&command.effect, may_block)
        {
            self.links[at].tried = Some(command.clone());
        }
        self.send(at, vec![command], false)?;
        if may_block { Ok(()) } else { self.receive(at) }
    }

    fn send(&mut self, at: usize, parts: Vec<Command>, is_exec: bool) -> Result<(), String> {
        let model = &mut self.desk.model;
        let parts: Vec<(Command, Stamp)> = parts
            .into_iter()
            .map(|part| {
                let stamp = model.sent(&part.effect);
                (part, stamp)
            })
            .collect();
        let exec = [b"EXEC".to_vec()];
        let words = if is_exec { &exec[..] } else { &parts[0].0.words };
        self.note(format!("{} > {}", self.links[at].id, escaped(words)));
        self.sent += 1;
        // If the server has closed the connection, the next read reports it.
        let _ = self.links[at].connection.send(words);
        self.links[at].unanswered.push_back(SentCommand { parts, is_exec });
        Ok(())
    }

    /// Waits for all replies to one connection.
    fn receive(&mut self, at: usize) -> Result<(), String> {
        while !self.links[at].unanswered.is_empty() {
            self.read(at)?;
        }
        Ok(())
    }

    /// Reads the replies that have arrived for waiting connections.
    fn collect(&mut self) -> Result<(), String> {
        for at in 0..CONNECTIONS {
            while !self.links[at].unanswered.is_empty()
                && self.links[at].connection.is_ready().unwrap_or(true)
            {
                self.read(at)?;
            }
        }
        Ok(())
    }

    /// Waits for all replies to all connections.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        (0..CONNECTIONS).try_for_each(|at| self.receive(at))
    }

    /// Returns the tokens of holds that end with a connection.
    pub(crate) fn bound_tokens(&self) -> Vec<i64> {
        self.desk.model.bound().map(|token| token as i64).collect()
    }

    fn command(&mut self, at: usize, words: &[Vec<u8>]) -> Result<ServerReply, String> {
        self.note(format!("{} > {}", self.links[at].id, escaped(words)));
        self.sent += 1;
        match self.links[at].connection.command(words) {
            Ok(reply) => Ok(reply),
            Err(error) => self.lost(at, &error).map(|()| ServerReply::Nil),
        }
    }

    fn read(&mut self, at: usize) -> Result<(), String> {
        match self.links[at].connection.read() {
            Ok(reply) => self.answered(at, &reply),
            Err(error) => self.lost(at, &error),
        }
    }

    /// Handles a closed connection. The server may close one, but must accept the next.
    fn lost(&mut self, at: usize, error: &io::Error) -> Result<(), String> {
        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
            return Err(self.wrong(&format!("no reply to {}", self.links[at].id)));
        }
        self.hang_up(at)
    }

    fn answered(&mut self, at: usize, reply: &ServerReply) -> Result<(), String> {
        self.note(format!("{} < {reply}", self.links[at].id));
        let Some(SentCommand { parts, is_exec }) = self.links[at].unanswered.pop_front() else {
            return Err(self.wrong("a reply to nothing"));
        };
        if !is_exec {
            return self.part(&parts[0], reply, true);
        }
        self.count(&[b"EXEC".to_vec()], reply)?;
        let replies = reply.array().unwrap_or_default();
        if !replies.is_empty() && replies.len() != parts.len() {
            return Err(self.wrong("a reply for each command"));
        }
        parts.iter().zip(replies).try_for_each(|(part, reply)| self.part(part, reply, false))
    }

    fn part(
        &mut self,
        part: &(Command, Stamp),
        reply: &ServerReply,
        alone: bool,
    ) -> Result<(), String> {
        let (command, stamp) = part;
        let words = inner(&command.words);
        self.count(words, reply)?;
        if words[0] == b"DUMP"
            && let Some(payload) = reply.bytes()
        {
            self.desk.dumps.push(payload.to_vec());
            if self.desk.dumps.len() > 20 {
                self.desk.dumps.remove(0);
            }
        }
        let says = says(&command.effect, reply);
        let answered = self.desk.model.answered(&command.effect, stamp, says, alone);
        answered.map_err(|why| self.wrong(&format!("{}: {why}", escaped(words))))
    }

    /// Counts a reply, and checks its form.
    fn count(&mut self, words: &[Vec<u8>], reply: &ServerReply) -> Result<(), String> {
        if !shape::fits(words, reply) {
            return Err(self.wrong(&format!("{} answers {reply}", escaped(words))));
        }
        if shape::is_ours(words) {
            *self.codes.entry(shape::code(reply).to_owned()).or_insert(0) += 1;
        }
        Ok(())
    }

    fn note(&mut self, line: String) {
        self.last.push_back(line);
        if self.last.len() > REMEMBERED {
            self.last.pop_front();
        }
    }

    fn wrong(&self, what: &str) -> String {
        let last: Vec<&str> = self.last.iter().map(String::as_str).collect();
        format!("{what}\nthe last commands:\n{}", last.join("\n"))
    }
}

fn in_script(mut command: Command) -> Command {
    let eval = [b"EVAL".to_vec(), CALL.to_vec(), b"0".to_vec()];
    command.words.splice(0..0, eval);
    command
}

/// Returns the command that a script runs, or the command itself.
fn inner(words: &[Vec<u8>]) -> &[Vec<u8>] {
    if words[0] == b"EVAL" { &words[3..] } else { words }
}

/// Returns the beginning of each word, readable.
fn escaped(words: &[Vec<u8>]) -> String {
    const SHOWN: usize = 80;
    let shown = |word: &Vec<u8>| {
        let more = if word.len() > SHOWN { "..." } else { "" };
        format!("\"{}{more}\"", word[..word.len().min(SHOWN)].escape_ascii())
    };
    words.iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// Returns what a reply says about the holder.
fn says(effect: &Effect, reply: &ServerReply) -> HoldChange {
    if let (Effect::Acquire(wanted), Some([secret, token, member @ ..])) = (effect, reply.array()) {
        let number = |reply: &ServerReply| reply.int().unwrap_or_default() as u64;
        return HoldChange::Granted(GrantReport {
            owner: Owner::from_bits(number(secret).into()),
            token: number(token),
            member: member.first().and_then(ServerReply::text).map(str::to_owned),
            lease_ms: wanted.lease_ms,
        });
    }
    // A holder whose lock was broken still holds it, and may be granted it again.
    if ["nil", "NOTHELD"].contains(&shape::code(reply)) {
        return HoldChange::NotHeld;
    }
    if reply.is_ok() {
        return HoldChange::Done;
    }
    let answered = reply.text().and_then(|text| wire::decode(text, |_| None));
    match (effect, answered.map(|answered| (answered.now_ms, answered.reply))) {
        (Effect::Acquire(wanted), Some((Some(now_ms), Said::Granted(grant)))) => {
            HoldChange::Granted(GrantReport {
                owner: wanted.owner.unwrap_or(Owner::from_bits(0)),
                token: grant.token.map_or(0, |token| token.raw()),
                member: grant.member.map(|member| member.to_string()),
                lease_ms: grant.deadline_ms.saturating_sub(now_ms),
            })
        }
        (_, Some((_, Said::Renewed(_) | Said::Released | Said::Left))) => HoldChange::Done,
        (_, Some((_, Said::NotHeld))) => HoldChange::NotHeld,
        _ => HoldChange::Else,
    }
}
