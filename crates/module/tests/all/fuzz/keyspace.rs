//! The server's own commands, on the same keys and on the server itself.

use taketurns_core::limits;
use taketurns_core::wire::Head;

use crate::fuzz::desk::{Command, Desk};
use crate::fuzz::model::Effect;

impl Desk {
    /// Returns a command on a key, whatever the key holds.
    pub(crate) fn theirs(&mut self) -> Command {
        let (key, other) = (self.key(), self.key());
        let upsets = Effect::Upsets(vec![key.clone()]);
        let both = Effect::Upsets(vec![key.clone(), other.clone()]);
        match self.rng.below(if self.model.is_wild { 31 } else { 24 }) {
            0..5 => Command::new(&[b"DEL", &key, &other], both),
            5 => Command::new(&[b"UNLINK", &key], upsets),
            6 => Command::new(&[b"SET", &key, b"text"], upsets),
            7 | 8 => self.hash(key),
            9 => Command::new(&[b"RENAME", &key, &other], both),
            10 => Command::new(&[b"COPY", &key, &other, b"REPLACE"], both),
            11..14 => Command::plain(&[b"DUMP", &key]),
            14 | 15 => self.restore(key),
            16 => Command::plain(&[b"OBJECT", b"ENCODING", &key]),
            17 => Command::plain(&[b"TYPE", &key]),
            18 => Command::plain(&[b"MEMORY", b"USAGE", &key]),
            19 => Command::plain(&[b"INFO", b"fencelock"]),
            20 => Command::plain(&[b"DEBUG", b"DIGEST-VALUE", &key]),
            21 if self.rng.percent(20) => {
                let how = self.rng.pick(&["SYNC", "ASYNC"]).as_bytes();
                Command::new(&[b"FLUSHDB", how], Effect::UpsetsAll)
            }
            21 | 22 => Command::plain(&[b"PTTL", &key]),
            23 => Command::plain(&[b"SET", b"marker", b"mark"]),
            24 | 25 => {
                let ms = self.number(1, 300);
                Command::plain(&[b"PEXPIRE", &key, &ms])
            }
            26 => Command::plain(&[b"PERSIST", &key]),
            27 => Command::plain(&[b"MOVE", &key, b"1"]),
            28 => Command::plain(&[b"SWAPDB", b"0", b"1"]),
            _ => {
                let db = self.rng.pick(&["0", "0", "1"]).as_bytes();
                Command::plain(&[b"SELECT", db])
            }
        }
    }

    /// Returns a lock as the scripts write it, or nearly.
    fn hash(&mut self, key: Vec<u8>) -> Command {
        let now_ms = self.rng.any() % 4_000_000_000_000;
        let owner = format!("{:032x}", self.rng.any());
        let head = self.head(now_ms);
        let fields = [
            ("q", self.rng.pick(&["0 1 1 1 -", "1 4 4 5 -", "", "99999999999999999999"]).into()),
            ("d", self.rng.pick(&["0 0", "3 4", "0 18446744073709551615", "9 3", "3"]).into()),
            ("t3", owner.clone()),
            ("m1", self.rng.pick(&["f1", "h", "l", "f", "", "f99999999999999999999"]).into()),
            ("m\u{1}", "f2".to_owned()),
        ];
        let mut words = vec![b"HSET".to_vec(), key.clone(), b"b".to_vec(), b"9".to_vec()];
        for (name, value) in fields {
            if self.rng.percent(50) {
                words.extend([name.as_bytes().to_vec(), value.into_bytes()]);
            }
        }
        // A lock without its head is invalid.
        if self.rng.percent(95) {
            words.extend([Head::FIELD.into(), head]);
        }
        words.extend([format!("b{owner}").into_bytes(), b"9000".to_vec()]);
        Command { words, effect: Effect::Upsets(vec![key]) }
    }

    /// Returns the head that every step writes, or nearly.
    fn head(&mut self, now_ms: u64) -> Vec<u8> {
        let last_ms = self.rng.pick(&["0", "5000", "9999999999999"]).parse().expect("a number");
        let head = Head {
            seen_ms: now_ms,
            last_token: if self.rng.percent(80) { 77 } else { limits::TOKEN_MAX },
            quarantine_until_ms: if self.rng.percent(80) { 0 } else { 99_999_999_999_999 },
            holders: u64::from(last_ms > 0),
            last_ms,
            waiting: u64::from(self.rng.percent(20)),
            run: self.rng.pick(&["run1", "", &self.run.clone()]).to_owned(),
            ..Head::default()
        };
        let mut bytes = head.to_bytes();
        let kinds = [
            "m0000000", "r0000000", "p0000000", "s0000003", "s0000000", "s9999999", "x0000000", "",
        ];
        bytes.splice(134..142, self.rng.pick(&kinds).bytes());
        if self.rng.percent(10) {
            let at = self.rng.below(bytes.len());
            bytes.truncate(at);
        }
        bytes
    }

    fn restore(&mut self, key: Vec<u8>) -> Command {
        let Some(at) = self.dumps.len().checked_sub(1).map(|last| self.rng.below(last + 1)) else {
            return Command::plain(&[b"TYPE", &key]);
        };
        let mut payload = self.dumps[at].clone();
        if self.rng.percent(20) && !payload.is_empty() {
            let at = self.rng.below(payload.len());
            payload[at] ^= 1 << self.rng.below(8);
        }
        let upsets = Effect::Upsets(vec![key.clone()]);
        Command::new(&[b"RESTORE", &key, b"0", &payload, b"REPLACE"], upsets)
    }

    /// Returns a command that affects the whole server.
    pub(crate) fn server_wide(&mut self) -> Command {
        let of = |words: &[&str]| {
            Command::plain(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
        };
        let set = |name: &str, value: &str| of(&["CONFIG", "SET", name, value]);
        match self.rng.below(if self.model.is_wild { 18 } else { 12 }) {
            // A reload drops expired keys without telling the replica, so only where keys do not
            // expire.
            0 | 1 if !self.model.is_wild => of(&["DEBUG", "RELOAD"]),
            0..3 => of(&["BGSAVE"]),
            3 => of(&["BGREWRITEAOF"]),
            4 => of(&["CLIENT", "PAUSE", "40", "WRITE"]),
            5 => set("appendonly", self.rng.pick(&["yes", "no"])),
            6 => set("hz", self.rng.pick(&["1", "10", "500"])),
            7 => set("slowlog-log-slower-than", self.rng.pick(&["0", "10000", "-1"])),
            8 => set("lazyfree-lazy-user-del", self.rng.pick(&["yes", "no"])),
            9 => set("lazyfree-lazy-server-del", self.rng.pick(&["yes", "no"])),
            10 => set("aof-use-rdb-preamble", self.rng.pick(&["yes", "no"])),
            11 => of(&["SCRIPT", "FLUSH", "SYNC"]),
            12..15 => set("maxmemory", self.rng.pick(&["0", "0", "1", "3mb"])),
            15 => {
                let policies = ["noeviction", "allkeys-lru", "volatile-ttl", "allkeys-random"];
                set("maxmemory-policy", self.rng.pick(&policies))
            }
            16 => set("timeout", self.rng.pick(&["0", "1", "1000"])),
            _ => set("lazyfree-lazy-eviction", self.rng.pick(&["yes", "no"])),
        }
    }
}

/// The default values of the settings that the fuzzer changes.
pub(crate) const SETTINGS: [(&str, &str); 11] = [
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("timeout", "0"),
    ("appendonly", "no"),
    ("hz", "10"),
    ("slowlog-log-slower-than", "10000"),
    ("lazyfree-lazy-user-del", "no"),
    ("lazyfree-lazy-server-del", "no"),
    ("lazyfree-lazy-eviction", "no"),
    ("aof-use-rdb-preamble", "yes"),
    ("latency-tracking", "no"),
];
