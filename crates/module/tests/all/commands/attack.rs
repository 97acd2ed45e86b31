//! A user who may run every command of the module on keys that others hold, and no other command
//! that writes keys: it can't release, end, shorten or take another client's hold.

use std::fs;

use taketurns_servers::{Flavor, Server, ServerReply, eventually, on_both};

use crate::commands::client::{Client, Grant, builder, is_error};
use crate::commands::errors::bind;
use crate::words;

const USER: &str = "u on >x ~lk:* &* -@all +fencelock.acquire +fencelock.release +fencelock.renew \
                    +fencelock.check +fencelock.show +fencelock.list +fencelock.break \
                    +fencelock.pool +fencelock.help +fencelock.bind +fencelock.do \
                    +fencelock.apply";

/// The owner of a program that holds `lk:do`, and of one to which another client handed
/// `lk:handed`.
const OWNER: &str = "5ec2e75ec2e75ec2e75ec2e75ec2e75e";
const PROGRAM: &str = "0000000000000007";

/// How many steps the log has when the test reads it.
const ENTRIES: usize = 16;

/// Locks that others hold: of every kind, by a connection, by a program.
struct HeldLocks {
    server: Server,
    holder: Client,
    grants: Vec<(&'static str, Grant)>,
    binding: String,
}

impl HeldLocks {
    fn new(flavor: Flavor) -> Self {
        let server =
            builder(flavor, &[]).appendonly(true).acl_user(USER).start().expect("a server");
        let mut holder = Client::of(&server);
        holder.lock("POOL ADD lk:pool m");
        let grants = [
            ("lk:mutex", "LABEL victim"),
            ("lk:read", "SHARED"),
            ("lk:write", "EXCLUSIVE"),
            ("lk:permits", "PERMITS 2 2"),
            ("lk:pool", "ANY"),
            ("lk:bound", "BOUND"),
            ("other", ""),
        ];
        let take = |(key, words)| (key, holder.take(format!("{key} 3600 {words}").trim_end()));
        let grants = grants.into_iter().map(take).collect();
        let run = server.info("server").get("run_id").expect("a run").clone();
        let binding = bind(&mut holder, &run).text().expect("a binding").to_owned();
        let mut held = Self { server, holder, grants, binding };
        let acquire = |owner, waiter_lease| {
            words::acquire((owner, PROGRAM), "m", 3_600_000, waiter_lease, "a")
        };
        let first = "0".repeat(32);
        held.program("lk:do", &acquire(OWNER, "-"), " G ");
        held.program("lk:handed", &acquire(&first, "-"), " G ");
        let waits = acquire(OWNER, "3600000");
        held.program("lk:handed", &waits, " Q ");
        held.program("lk:handed", &format!("release {first} 0"), " R");
        held
    }

    #[track_caller]
    fn program(&mut self, key: &str, words: &str, expected: &str) {
        let reply = self.holder.lock(&format!("DO {key} {} {words}", self.binding));
        assert!(reply.text().is_some_and(|text| text.contains(expected)), "{key} {words}: {reply}");
    }

    fn attacker(&self) -> Client {
        Client::user(&self.server, "u", "x")
    }

    /// Asserts that every lock is held as before, and for as long.
    #[track_caller]
    fn is_as_it_was(&mut self, after: &str) {
        for (key, grant) in &self.grants {
            let mut all = self.holder.holders(key).into_iter();
            let own =
                all.find(|holder| holder.field("token") == Some(&ServerReply::Int(grant.token)));
            let own = own.unwrap_or_else(|| panic!("{key} was taken away by {after}"));
            let left_ms = own.field("left_ms").and_then(ServerReply::int).expect("a number");
            assert!(left_ms > 1_800_000, "{key} was shortened by {after}");
            let renewed = self.holder.lock(&format!("RENEW {key} {} 3600", grant.secret));
            assert!(renewed.is_ok(), "{key} after {after}: {renewed}");
        }
        assert!(self.holder.of_holder("lk:do", "left_ms") > 1_800_000, "lk:do after {after}");
        assert_eq!(self.holder.holders("lk:handed").len(), 1, "lk:handed after {after}");
        self.program("lk:do", &words::renew(OWNER, PROGRAM, 3_600_000), " N ");
    }

    fn keys(&self) -> Vec<&'static str> {
        let named = self.grants.iter().map(|(key, _)| *key);
        named.chain(["lk:do", "lk:handed"]).collect()
    }
}

/// Returns guesses from a secret's neighbours, from public values, and by overflow.
fn guesses(grant: &Grant) -> Vec<String> {
    let (secret, token) = (i128::from(grant.secret), i128::from(grant.token));
    let mut guesses: Vec<i128> = (0..53).map(|bit| secret ^ (1 << bit)).collect();
    guesses.extend([-secret, secret - 1, secret + 1, token, token - 1, token + 1, 0, 1, -1]);
    guesses.extend([(1 << 53) - 1, 1 << 53, (1 << 63) - 1, 1 << 63, 1 << 64, (1 << 64) + 1]);
    guesses.extend([32, 53, 63, 64, 65].map(|bit| secret + (1 << bit)));
    let mut guesses: Vec<String> = guesses.iter().map(i128::to_string).collect();
    guesses.extend([
        format!("{secret}.0"),
        format!("+{secret}"),
        format!("{secret}x"),
        format!("{secret:x}h"),
    ]);
    guesses
}

/// Returns the entries of the server's log, as bytes.
fn logged(server: &Server) -> Vec<Vec<u8>> {
    let folder = server.dir().join("appendonlydir");
    let mut log = Vec::new();
    for file in fs::read_dir(folder).expect("a log") {
        log.extend(fs::read(file.expect("a file").path()).expect("it can be read"));
    }
    let mark = b"FENCELOCK.APPLY\r\n";
    let starts = (0..log.len()).filter(|&at| log[at..].starts_with(mark));
    let entry = |at: usize| {
        let mut words = log[at + mark.len()..].splitn(4, |&byte| byte == b'\n');
        let (_, _, length) = (words.next()?, words.next()?, words.next()?);
        let length: usize =
            str::from_utf8(length).ok()?.trim_end().strip_prefix('$')?.parse().ok()?;
        words.next()?.get(..length).map(<[u8]>::to_vec)
    };
    starts.filter_map(entry).collect()
}

on_both! {
    fn no_guess_at_a_secret_does_anything(flavor: Flavor) {
        let mut held = HeldLocks::new(flavor);
        let mut attacker = held.attacker();
        for (key, grant) in held.grants.clone() {
            for guess in guesses(&grant) {
                for line in [format!("RELEASE {key} {guess}"), format!("RENEW {key} {guess} 1")] {
                    let reply = attacker.lock(&line);
                    assert!(reply == ServerReply::Nil || reply.error().is_some(), "{line}: {reply}");
                }
            }
            held.is_as_it_was(key);
        }
        // A secret of another lock, and one of its own.
        let own = attacker.take("lk:own 600");
        for (key, _) in held.grants.clone() {
            let reply = attacker.lock(&format!("RELEASE {key} {}", own.secret));
            assert!(reply == ServerReply::Nil || reply.error().is_some(), "{key}: {reply}");
        }
        held.is_as_it_was("its own secret");
    }

    fn no_command_takes_away_what_another_holds(flavor: Flavor) {
        let mut held = HeldLocks::new(flavor);
        let mut attacker = held.attacker();
        for key in held.keys() {
            let token = held.holder.of_holder(key, "token");
            for line in [
                format!("ACQUIRE {key} 600"),
                format!("ACQUIRE {key} 600 LABEL victim"),
                format!("ACQUIRE {key} 600 BOUND LABEL victim"),
                format!("ACQUIRE {key} 600 EXCLUSIVE"),
                format!("ACQUIRE {key} 600 PERMITS 2 2"),
                format!("ACQUIRE {key} 600 PERMITS 1 1000000"),
                format!("ACQUIRE {key} 600 ANY"),
                format!("ACQUIRE {key} 600 MEMBER m"),
                format!("ACQUIRE {key} 600 WAIT 0.01"),
                format!("ACQUIRE {key} 600 EXCLUSIVE WAIT 0.01"),
                format!("BREAK {key}"),
                format!("BREAK {key} NOW"),
                format!("BREAK {key} TOKEN {token}"),
                format!("BREAK {key} TOKEN {token} NOW"),
            ] {
                let reply = attacker.lock(&line);
                assert!(reply == ServerReply::Nil || reply.error().is_some(), "{line}: {reply}");
                held.is_as_it_was(&line);
            }
            // The attacker may run these, and they change nothing for the holder.
            for line in [
                format!("CHECK {key} {token}"),
                format!("CHECK {key} {}", token + 1),
                format!("POOL ADD {key} another"),
                format!("POOL REM {key} m another"),
                format!("SHOW {key} COUNT 10000"),
                "LIST COUNT 10000".to_owned(),
            ] {
                attacker.lock(&line);
                held.is_as_it_was(&line);
            }
        }
    }

    fn a_wait_that_is_given_up_takes_nothing_with_it(flavor: Flavor) {
        let mut held = HeldLocks::new(flavor);
        for words in ["600 WAIT 0", "600 WAIT 0 BOUND"] {
            for key in ["lk:mutex", "lk:bound", "lk:do"] {
                let mut attacker = held.attacker();
                attacker.begin(&format!("ACQUIRE {key} {words}"));
                held.holder.until_waiting(key, 1);
                drop(attacker);
                held.holder.until_waiting(key, 0);
                held.is_as_it_was(words);
            }
        }
    }

    fn the_log_can_not_be_forged(flavor: Flavor) {
        let mut held = HeldLocks::new(flavor);
        // Log entries of a release and a break, from the test's own locks.
        let own = held.holder.take("lk:own 600");
        held.holder.give("lk:own", &own);
        held.holder.take("lk:own 600");
        assert_eq!(held.holder.lock("BREAK lk:own NOW"), ServerReply::Int(1));
        // With a busy disk the server may write them a little later.
        let all = || Some(logged(&held.server)).filter(|entries| entries.len() >= ENTRIES);
        let entries = eventually("every step is in the log", all).expect("a log");
        let mut attacker = held.attacker();
        for key in held.keys() {
            for entry in entries.iter().map(Vec::as_slice).chain([&b""[..], b"\0", b"\x02\0"]) {
                let reply = attacker.words(&[b"FENCELOCK.APPLY", key.as_bytes(), entry]);
                assert!(is_error(&reply, "NOPERM"), "{reply}");
            }
            held.is_as_it_was("APPLY");
        }
    }

    fn a_program_without_the_name_of_the_run_does_nothing(flavor: Flavor) {
        let mut held = HeldLocks::new(flavor);
        let mut attacker = held.attacker();
        let binding = held.binding.clone();
        assert!(is_error(&attacker.say("INFO server"), "NOPERM"));
        for run in ["", "0", "*", &"0".repeat(40)] {
            let reply = bind(&mut attacker, run);
            assert!(is_error(&reply, "TTVERIFY"), "{reply}");
        }
        for key in held.keys() {
            for guess in ["", "0000000000000000", &binding[1..], &format!("{binding} ")] {
                let reply = attacker.words(&["FENCELOCK.DO", key, guess, "break", "-", "1"]);
                assert!(reply.error().is_some(), "{reply}");
            }
        }
        held.is_as_it_was("no binding");
    }

    fn a_program_that_has_verified_the_run_does_nothing_either(flavor: Flavor) {
        let mut held = HeldLocks::new(flavor);
        let run = held.server.info("server").get("run_id").expect("a run").clone();
        let mut attacker = held.attacker();
        for (until, max_lease) in [("0", "60000"), ("0", "0"), ("1", "18446744073709551615")] {
            let words = ["FENCELOCK.BIND", &run, "", "", "", until, max_lease, "tt:wake:"];
            let binding = attacker.words(&words).text().expect("a binding").to_owned();
            for key in held.keys() {
                let grant = held.grants.iter().find(|(named, _)| *named == key).cloned();
                let secret = grant.as_ref().map_or(1, |(_, grant)| grant.secret);
                let near = format!("{:032x}", secret ^ 1);
                // The secret's bits are right, but another bit of the owner is wrong.
                let high = format!("1{:031x}", secret);
                let token = held.holder.of_holder(key, "token");
                let seen = attacker.lock(&format!("DO {key} {binding} view 100")).to_string();
                let named = seen.split("\\\"client\\\":\\\"").nth(1);
                let client = named.map_or(PROGRAM, |rest| &rest[..16]);
                for verb in [
                    format!("release {near} 0"),
                    format!("release {high} 0"),
                    format!("release {near} {}", u64::MAX),
                    words::renew(&near, client, 10),
                    words::renew(&high, client, 10),
                    "break - 0".to_owned(),
                    "break - 1".to_owned(),
                    format!("break {token} 1"),
                    format!("client_gone {client}"),
                    format!("refresh {client} 10"),
                    format!("refresh {PROGRAM} 10"),
                    "resize 1".to_owned(),
                    "resize 1000000".to_owned(),
                    "pool_remove m".to_owned(),
                    "pool_add n".to_owned(),
                    "tick".to_owned(),
                    words::acquire((&near, client), "m", 10, "-", "victim"),
                    words::acquire((&near, PROGRAM), "m", 10, "10", "victim"),
                ] {
                    let reply = attacker.lock(&format!("DO {key} {binding} {verb}")).to_string();
                    assert!(!reply.contains(OWNER), "{key} {verb}: {reply}");
                    let tells = grant.is_some() && reply.contains(&secret.to_string());
                    assert!(!tells, "{key} {verb}: {reply}");
                    if verb.starts_with("break") {
                        assert!(reply.starts_with("NOPERM "), "{key} {verb}: {reply}");
                    }
                    held.is_as_it_was(&format!("{key} {verb}"));
                }
            }
        }
        held.program("lk:handed", &words::renew(OWNER, PROGRAM, 3_600_000), " N ");
    }

    fn keys_of_others_and_raw_writes_are_out_of_reach(flavor: Flavor) {
        let mut held = HeldLocks::new(flavor);
        let mut attacker = held.attacker();
        for line in [
            "FENCELOCK.ACQUIRE other 600",
            "FENCELOCK.RELEASE other 1",
            "FENCELOCK.RENEW other 1 1",
            "FENCELOCK.CHECK other 1",
            "FENCELOCK.SHOW other",
            "FENCELOCK.BREAK other NOW",
            "FENCELOCK.POOL ADD other m",
            "FENCELOCK.DO other x tick",
            "FENCELOCK.APPLY other x",
            "DEL lk:mutex",
            "UNLINK lk:mutex",
            "SET lk:mutex x",
            "GETDEL lk:mutex",
            "GETSET lk:mutex x",
            "DUMP lk:mutex",
            "RESTORE lk:mutex 0 x REPLACE",
            "EXPIRE lk:mutex 0",
            "PEXPIREAT lk:mutex 1",
            "PERSIST lk:mutex",
            "RENAME lk:mutex lk:elsewhere",
            "COPY lk:own lk:mutex REPLACE",
            "MOVE lk:mutex 1",
            "SORT lk:own STORE lk:mutex",
            "MIGRATE 127.0.0.1 1 lk:mutex 0 1",
            "FLUSHALL",
            "FLUSHDB",
            "SWAPDB 0 1",
            "MULTI",
            "EVAL return 0",
            "FCALL f 0",
            "SCRIPT LOAD x",
            "DEBUG RELOAD",
            "CLIENT KILL TYPE normal",
            "CLIENT UNBLOCK 1",
            "CONFIG SET maxmemory 1",
            "MODULE LIST",
            "REPLICAOF 127.0.0.1 1",
            "MONITOR",
            "PSYNC ? -1",
            "ACL SETUSER u +@all",
            "SHUTDOWN NOSAVE",
        ] {
            let reply = attacker.say(line);
            assert!(is_error(&reply, "NOPERM"), "{line}: {reply}");
            held.is_as_it_was(line);
        }
        let listed = attacker.lock("LIST COUNT 10000").to_string();
        assert!(listed.contains("lk:mutex") && !listed.contains("other"), "{listed}");
    }
}
