//! What an error of a server or of a connection means for us.
//!
//! ```text
//!   refused, -BUSY, …         Unreachable   was not carried out
//!   -LOADING                  Loading       the same: the server is there, and will serve
//!   -READONLY                 NotMaster     was not carried out; who is the master?
//!   connection lost, no reply Unknown       may have been carried out: never sent again here
//!   -NOPERM, -OOM, …          Broken        was not, and never will be
//!   -ERR unknown command      NoCommand     the same: the server is too old, or lacks a module
//!   -TTSTRANGER               Unsupported   the same
//!   -WRONGTYPE                WrongType     was not: it may be asked in another way
//!   -NOSCRIPT, TTVERIFY, -MOVED, -ASK       was not: do something, then send it again
//! ```
//!
//! Texts name the server and never repeat what was sent: a server that does not know a command
//! answers with its arguments, and those of `HELLO` and `AUTH` are passwords.

use redis::ServerError;

use super::multiplexer::NoReply;
use crate::engine::EngineError;
use crate::engine::redis::url::Address;

/// Longer than any sentence of a server; a script's error may carry a trace.
const DETAIL_CHARS_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Surely not carried out: the server can't be reached or can't answer now.
    Unreachable(String),
    /// Surely not carried out: the server is reading its data, and serves when it has.
    Loading(String),
    /// Surely not carried out: this server is no master any more.
    NotMaster(String),
    /// Surely not carried out: the keys are on their way to another node.
    TryAgain(String),
    /// Sent, but not answered.
    Unknown(String),
    /// Not carried out, and the same will be said again.
    Broken(String),
    /// Not carried out: the server does not know such a command.
    NoCommand(String),
    /// Not carried out: there is no way to do that here.
    Unsupported(String),
    /// Not carried out: what is at the key is of another type.
    WrongType(String),
    /// The server does not know the script.
    NoScript,
    /// A script found that what the session knows of the server is not so any more.
    Reverify,
    /// Another node has the slot.
    Moved { slot: u16, addr: String },
    /// Another node has this key already.
    Ask { slot: u16, addr: String },
}

impl Failure {
    /// Of an error reply.
    pub(crate) fn of_reply(server: &Address, error: &ServerError) -> Self {
        Self::of_code(server, error.code(), error.details().unwrap_or_default())
    }

    /// Of a connection that was lost while nothing but it itself was being set up.
    pub(crate) fn of_setup(server: &Address, lost: NoReply) -> Self {
        Self::Unreachable(match lost {
            NoReply::Late => format!("{server} accepts connections but does not answer"),
            NoReply::Ended | NoReply::Malformed | NoReply::Unsent => format!(
                "{server} ended the connection at its first command: is it Redis, and does the \
                 URL say what it wants for TLS (rediss, cert, key)?"
            ),
        })
    }

    /// Of one that was lost while something was asked.
    pub(crate) fn of_connection(server: &Address, lost: NoReply) -> Self {
        Self::Unknown(match lost {
            NoReply::Unsent => return Self::gone(server),
            NoReply::Late => format!("{server} did not answer in time"),
            NoReply::Ended => format!("the connection to {server} was lost before the answer came"),
            NoReply::Malformed => {
                format!("{server} answered with bytes that are not Redis's protocol")
            }
        })
    }

    /// Of one that is not there any more.
    pub(crate) fn gone(server: &Address) -> Self {
        Self::Unreachable(format!("the connection to {server} is lost"))
    }

    /// Of one that is reading its data.
    pub(crate) fn loading(server: &Address) -> Self {
        Self::Loading(format!("{server} is still loading its data"))
    }

    /// Chooses the failure to report when several servers were tried. A server that is loading will serve, so
    /// its answer says more than a refused connection.
    pub(crate) fn or_loading(self, other: Self) -> Self {
        if matches!(self, Self::Loading(_)) { self } else { other }
    }

    /// Of a Sentinel that was taken for a server.
    pub(crate) fn is_sentinel(server: &Address) -> Self {
        Self::Broken(format!(
            "{server} is a Sentinel: use redis+sentinel://, with the master's name"
        ))
    }

    /// Is it just this that the user may not? Else the same would be said of everything.
    pub(crate) fn is_right_missing(&self) -> bool {
        matches!(self, Self::Broken(why) if why.contains(NOT_ALLOWED))
    }

    /// The text, for people.
    pub(crate) fn said(self) -> String {
        EngineError::from(self).to_string()
    }

    /// Of the two parts of an error reply.
    fn of_code(server: &Address, code: &str, detail: &str) -> Self {
        let unreachable = |what: &str| Self::Unreachable(format!("{server} {what}"));
        let broken = |what: &str| Self::Broken(format!("{server} {what}"));
        match code {
            "NOSCRIPT" => Self::NoScript,
            code if code.starts_with("TTVERIFY") => Self::Reverify,
            "TTSTRANGER" => Self::Unsupported(
                "the holder is a foreign client, which can't be told to stop: take the lock away at once \
                 (break --now)"
                    .to_owned(),
            ),
            "TTWIRE" => broken(&format!("has it otherwise: {}", harmless("ERR", detail))),
            "MOVED" | "ASK" => redirect(code, detail)
                .unwrap_or_else(|| broken("sent a redirection that can't be read")),
            "LOADING" => Self::loading(server),
            "CLUSTERDOWN" => unreachable("says that the Cluster is down"),
            "BUSY" => unreachable("is busy with a script of somebody"),
            "NOREPLICAS" => {
                unreachable("takes no writes: too few replicas (min-replicas-to-write)")
            }
            "ERR" if detail.contains("max number of clients") => {
                unreachable("has no room for another connection (maxclients)")
            }
            "READONLY" => Self::NotMaster(format!("{server} is a replica, and takes no writes")),
            "MASTERDOWN" => {
                Self::NotMaster(format!("{server} is a replica that has lost its master"))
            }
            "TRYAGAIN" => Self::TryAgain(format!("{server} is moving this key to another node")),
            "NOAUTH" => broken(
                "wants a password: set TAKETURNS_REDIS_PASSWORD, or name a place for it in the URL \
                 (password_file=, password_env=; for Sentinels sentinel_password_file=, …)",
            ),
            "WRONGPASS" => broken("does not accept the user or the password"),
            "ERR" if detail.contains("without any password configured") => {
                broken("was given a password, and has none: leave it out of the URL")
            }
            "NOPERM" => Self::Broken(no_permission(server, detail)),
            "ERR" if detail.contains("ACL failure") || detail.starts_with(SCRIPT_USER) => {
                Self::Broken(no_permission(server, detail))
            }
            "OOM" => broken(
                "is out of memory (maxmemory) and takes no writes: raise maxmemory or free some",
            ),
            "MISCONF" => broken("takes no writes, since it can't save its data: see its log"),
            "WRONGTYPE" => Self::WrongType(format!(
                "{server} has something else than a lock at this key: choose another name or prefix"
            )),
            "CROSSSLOT" => broken("was asked for keys of different slots at once"),
            "DENIED" => broken("takes no connections from other machines (protected-mode)"),
            "ERR" if detail.contains("DB index") => {
                broken("has no database of that number: see the end of the URL")
            }
            "ERR" if detail.starts_with("unknown command") => {
                Self::NoCommand(format!("{server} answered: {}", harmless(code, detail)))
            }
            _ => Self::Broken(format!("{server} answered: {}", harmless(code, detail))),
        }
    }

    /// Returns whether the session's server is no longer the master, so that the client must look it up again.
    pub(crate) fn wants_master(&self) -> bool {
        matches!(self, Self::NotMaster(_) | Self::Unknown(_))
    }

    /// While a session was being opened: the request itself was not sent.
    pub(crate) fn before_sending(self) -> Self {
        match self {
            Self::Unknown(why) => Self::Unreachable(why),
            other => other,
        }
    }
}

impl From<Failure> for EngineError {
    fn from(failure: Failure) -> Self {
        let busy = |what: &str| Self::Unreachable(format!("the server {what}"));
        match failure {
            Failure::Unreachable(why) | Failure::NotMaster(why) | Failure::TryAgain(why) => {
                Self::Unreachable(why)
            }
            Failure::Loading(why) => Self::Loading(why),
            Failure::Unknown(why) => Self::Unknown(why),
            Failure::Unsupported(why) => Self::Unsupported(why),
            Failure::Broken(why) | Failure::NoCommand(why) | Failure::WrongType(why) => {
                Self::Broken(why)
            }
            // None of these was carried out; only that it goes on like this brings them here.
            Failure::NoScript => busy("forgets its scripts as fast as they are loaded"),
            Failure::Reverify => busy("changes its run as fast as it is looked at"),
            Failure::Moved { .. } | Failure::Ask { .. } => {
                busy("sends us from node to node: the Cluster is being rearranged")
            }
        }
    }
}

fn redirect(code: &str, detail: &str) -> Option<Failure> {
    let (slot, addr) = detail.split_once(' ')?;
    let (slot, addr) = (slot.parse().ok()?, addr.split(' ').next()?.to_owned());
    Some(match code {
        "MOVED" => Failure::Moved { slot, addr },
        _ => Failure::Ask { slot, addr },
    })
}

const NOT_ALLOWED: &str = "does not let this user";

/// What Redis 7.0 says of what a script may not do, without saying which command it was.
const SCRIPT_USER: &str = "The user executing the script can't ";

/// The server says which right: `… to run the 'publish' command`, `… the keys mentioned …`.
fn no_permission(server: &Address, detail: &str) -> String {
    let right = if let Some(what) = detail.strip_prefix(SCRIPT_USER)
        && what.starts_with("run")
    {
        "run all commands that our scripts use".to_owned()
    } else if let Some(command) = detail.trim_start_matches(SCRIPT_USER).split('\'').nth(1) {
        format!("run the command {:?}", short(command))
    } else if detail.contains("channel") {
        "use the channels of this client".to_owned()
    } else if detail.contains("key") {
        "use the keys of this prefix, or of this protocol".to_owned()
    } else {
        "do this".to_owned()
    };
    format!("{server} {NOT_ALLOWED} {right}: SECURITY.md has the ACL line that does")
}

fn harmless(code: &str, detail: &str) -> String {
    let detail = detail.split(", with args beginning with").next().unwrap_or_default();
    let text = if code == "ERR" { detail.to_owned() } else { format!("{code} {detail}") };
    short(text.lines().next().unwrap_or_default())
}

fn short(text: &str) -> String {
    text.chars().take(DETAIL_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::Failure::*;
    use super::*;

    fn of(line: &str) -> Failure {
        let server = Address { host: "h".to_owned(), port: 1 };
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap() {
            redis::Value::ServerError(error) => Failure::of_reply(&server, &error),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn each_reply_means_one_thing() {
        assert_eq!(of("NOSCRIPT No matching script."), NoScript);
        assert_eq!(of("TTVERIFY run"), Reverify);
        assert_eq!(
            of("MOVED 3999 10.0.0.1:6381"),
            Moved { slot: 3999, addr: "10.0.0.1:6381".into() }
        );
        assert_eq!(of("ASK 7 :6381"), Ask { slot: 7, addr: ":6381".into() });
        let loading = of("LOADING Redis is loading the dataset in memory");
        assert!(matches!(&loading, Loading(why) if why.starts_with("h:1 ")), "{loading:?}");
        for line in ["CLUSTERDOWN x", "BUSY Redis", "NOREPLICAS Not enough"] {
            assert!(matches!(of(line), Unreachable(why) if why.starts_with("h:1 ")), "{line}");
        }
        assert!(matches!(of("ERR max number of clients reached"), Unreachable(_)));
        assert!(matches!(of("READONLY You can't write"), NotMaster(_)));
        assert!(matches!(of("MASTERDOWN Link with"), NotMaster(_)));
        assert!(matches!(of("TRYAGAIN Multiple keys"), TryAgain(_)));
        let foreign = of("WRONGTYPE Operation against");
        assert!(matches!(foreign, WrongType(why) if why.contains("something else than a lock")));
        let broken = [
            ("NOAUTH Authentication required.", "password"),
            ("WRONGPASS invalid username-password pair", "password"),
            ("NOPERM this user has no permissions to run the 'publish' command", "\"publish\""),
            ("NOPERM this user has no permissions to access one of the keys", "keys"),
            ("NOPERM this user has no permissions to access the channel", "channels"),
            ("ERR ACL failure in script: ... run the 'hset' command", "\"hset\""),
            ("ERR The user executing the script can't run this command or", "our scripts use"),
            ("ERR The user executing the script can't access at least one of the keys", "keys of"),
            ("OOM command not allowed", "maxmemory"),
            ("MISCONF Redis is configured", "save"),
            ("ERR DB index is out of range", "database"),
            ("DENIED Redis is running in protected mode", "protected"),
            ("ERR user_script:1: oops", "user_script:1: oops"),
            ("MOVED nonsense", "redirection"),
        ];
        for (line, piece) in broken {
            match of(line) {
                Broken(why) => assert!(why.starts_with("h:1 ") && why.contains(piece), "{why}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn of_several_servers_one_that_loads_says_most() {
        let (gone, loading) = (Unreachable("gone".into()), Loading("loading".into()));
        assert_eq!(gone.clone().or_loading(loading.clone()), loading);
        assert_eq!(loading.clone().or_loading(gone.clone()), loading);
        assert_eq!(gone.clone().or_loading(Unreachable("late".into())), Unreachable("late".into()));
    }

    #[test]
    fn what_was_sent_is_not_repeated() {
        let failure = of("ERR unknown command 'HELLO', with args beginning with: 'AUTH' 'SECRET'");
        let NoCommand(why) = failure else { panic!("{failure:?}") };
        assert!(why.contains("HELLO") && !why.contains("SECRET"));
    }

    #[test]
    fn what_is_told_is_one_short_line_whatever_the_server_says() {
        let long =
            format!("NOPERM this user has no permissions to run the '{}'", "x".repeat(9_000));
        for line in ["ODD\nCODE and\nmore", "ERR two\nlines", &long] {
            let Broken(why) = of(line) else { panic!("{line}") };
            assert!(!why.contains('\n') && why.chars().count() < 400, "{why}");
        }
    }

    #[test]
    fn only_what_was_sent_is_unknown() {
        let why = || "x".to_owned();
        assert_eq!(EngineError::from(Unknown(why())), EngineError::Unknown(why()));
        assert_eq!(EngineError::from(Loading(why())), EngineError::Loading(why()));
        assert_eq!(EngineError::from(Broken(why())), EngineError::Broken(why()));
        assert_eq!(EngineError::from(WrongType(why())), EngineError::Broken(why()));
        assert_eq!(EngineError::from(NoCommand(why())), EngineError::Broken(why()));
        assert_eq!(Unknown(why()).before_sending(), Unreachable(why()));
        let moved = Moved { slot: 1, addr: why() };
        for failure in [Unreachable(why()), NotMaster(why()), NoScript, Reverify, moved] {
            assert!(matches!(EngineError::from(failure), EngineError::Unreachable(_)));
        }
    }
}
