//! Other locks as processes of their own: a command line that takes the same two loads.
//!
//! ```text
//!   CMD pairs --url URL --tasks N --seconds S               {"pairs": N, "seconds": S}
//!   CMD crowd --url URL --clients C --hold-ms H --seconds S turn CLIENT ASKED_US GOT_US RELEASED_US
//! ```

use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use taketurns_servers::others::Etcd;
use taketurns_servers::target_dir;

use crate::peers::{self, Peer};
use crate::setup::{BenchError, BenchSetup, said};
use crate::turns::LoggedTurn;
use crate::workloads::ContestantGroup;

/// The other locks, and the servers that some of them need.
#[derive(Default)]
pub(crate) struct Rivals {
    pub(crate) all: Vec<Rc<Rival>>,
    _etcd: Option<Etcd>,
}

/// Somebody else's lock, or ours in another language.
pub(crate) struct Rival {
    pub(crate) name: String,
    /// What it is written in, and how it waits.
    pub(crate) about: String,
    /// The program and its first arguments, or why there is none.
    command: Result<Vec<String>, BenchError>,
    store: RivalStore,
    is_ours: bool,
}

/// Where it keeps its locks.
enum RivalStore {
    /// In the Redis that all share.
    Redis,
    /// At this URL.
    Other(String),
}

impl Rivals {
    /// All there are, with their servers running.
    pub(crate) fn gather(setup: &BenchSetup) -> Self {
        let etcd = Etcd::start();
        let url_of = |store| match store {
            peers::PeerStore::Redis => Ok(RivalStore::Redis),
            peers::PeerStore::Etcd => {
                etcd.as_ref().map(|etcd| RivalStore::Other(etcd.url())).map_err(said)
            }
            peers::PeerStore::Postgres => setup.postgres_url("").map(RivalStore::Other),
        };
        let rival = |peer: Peer| {
            // Without its server it is no less of another store.
            let (store, command) = match url_of(peer.store) {
                Ok(store) => (store, peer.command),
                Err(why) => (RivalStore::Other(String::new()), Err(why)),
            };
            let about = format!("{:?}: {}", peer.language, peer.note);
            let (name, is_ours) = (peer.name.to_owned(), peer.is_ours);
            Rc::new(Rival { name, about, command, store, is_ours })
        };
        let all = peers::all(&target_dir()).into_iter().map(rival).collect();
        Self { all, _etcd: etcd.ok() }
    }
}

impl Rival {
    pub(crate) const fn party(&self) -> ContestantGroup {
        match self.store {
            _ if self.is_ours => ContestantGroup::Ours,
            RivalStore::Redis => ContestantGroup::Library,
            RivalStore::Other(_) => ContestantGroup::Other,
        }
    }

    /// Returns how many pairs of acquire and release a number of tasks did in a second.
    pub(crate) fn pairs(
        &self,
        redis: String,
        tasks: usize,
        time: Duration,
    ) -> Result<f64, BenchError> {
        let said = self.run("pairs", redis, &["--tasks", &tasks.to_string()], time)?;
        let told: serde_json::Value = serde_json::from_str(said.trim())
            .map_err(|error| format!("it said {:?}: {error}", said.trim()))?;
        let number = |name: &str| told.get(name).and_then(serde_json::Value::as_f64);
        match (number("pairs"), number("seconds")) {
            (Some(pairs), Some(seconds)) if pairs > 0.0 && seconds > 0.0 => Ok(pairs / seconds),
            _ => Err(format!("it said {:?}", said.trim())),
        }
    }

    /// Returns the turns that a number of clients had on one lock.
    pub(crate) fn crowd(
        &self,
        redis: String,
        clients: u32,
        hold: Duration,
        time: Duration,
    ) -> Result<Vec<LoggedTurn>, BenchError> {
        let (clients, hold_ms) = (clients.to_string(), hold.as_millis().to_string());
        let args = ["--clients", &clients, "--hold-ms", &hold_ms];
        self.run("crowd", redis, &args, time)?.lines().map(LoggedTurn::parse).collect()
    }

    fn run(
        &self,
        load: &str,
        redis: String,
        args: &[&str],
        time: Duration,
    ) -> Result<String, BenchError> {
        let words = self.command.as_ref().map_err(Clone::clone)?;
        let (program, first) = words.split_first().ok_or("it has no program")?;
        let url = match &self.store {
            RivalStore::Redis => redis,
            RivalStore::Other(url) => url.clone(),
        };
        let mut command = Command::new(program);
        command.args(first).args([load, "--url", &url]).args(args);
        command.args(["--seconds", &time.as_secs_f64().to_string()]);
        let output = command.output().map_err(|error| format!("{program}: {error}"))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            let last = words.trim().lines().last().unwrap_or_default();
            return Err(format!("it ended with {}: {last}", output.status));
        }
        String::from_utf8(output.stdout).map_err(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that does what this script says. Its arguments are `$1` and so on.
    fn peer(script: &str) -> Rival {
        let command = ["sh", "-c", script, "peer"].map(str::to_owned).to_vec();
        let [name, about] = ["a shell", "it does as it is told"].map(str::to_owned);
        let (command, store) = (Ok(command), RivalStore::Redis);
        Rival { name, about, command, store, is_ours: false }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_peer_is_told_the_load_and_its_figures_are_read() {
        let told = peer(
            r#"test "$*" = "pairs --url redis://x --tasks 64 --seconds 1" &&
            echo '{"pairs": 10, "seconds": 2}'"#,
        );
        assert_eq!(told.pairs("redis://x".to_owned(), 64, SECOND), Ok(5.0));
        let mut other = peer(r#"test "$3 $5 $7 $9" = "http://y 16 1 0.5" && echo turn 3 1 2 3"#);
        other.store = RivalStore::Other("http://y".to_owned());
        let (hold, time) = (Duration::from_millis(1), Duration::from_millis(500));
        let turns = other.crowd("redis://x".to_owned(), 16, hold, time);
        assert_eq!(
            turns,
            Ok(vec![LoggedTurn { client: 3, asked_us: 1, got_us: 2, released_us: 3 }])
        );
    }

    #[test]
    fn a_peer_that_fails_says_why() {
        let why = |peer: Rival| peer.pairs(String::new(), 1, SECOND).expect_err("it failed");
        let failed = why(peer("echo first >&2; echo no server >&2; exit 3"));
        assert!(failed.contains("exit status: 3") && failed.ends_with("no server"), "{failed}");
        assert!(why(peer("echo nothing")).contains("nothing"));
        assert!(why(peer(r#"echo '{"pairs": 0, "seconds": 1}'"#)).contains("pairs"));
        let missing = Rival { command: Err("it is not installed".to_owned()), ..peer("") };
        assert_eq!(why(missing), "it is not installed");
    }
}
