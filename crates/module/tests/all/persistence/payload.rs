//! Stored forms of another version, truncated or damaged: they are refused and never cause a crash. Whatever is
//! accepted as a lock works as one.

use std::fs;

use taketurns_core::{Ask, Member};
use taketurns_servers::fuzz::Dice;
use taketurns_servers::{Flavor, Server, ServerReply, SetupError, on_both};

use crate::persistence::crc64::seal;
use crate::persistence::program::Program;
use crate::persistence::support::{Client, logging, restart, server};

/// A DUMP is type, module and version, our bytes, the server's version and a checksum.
const ID: std::ops::Range<usize> = 1..10;
const FOOTER: usize = 10;

pub(crate) fn dump(client: &mut Client, key: &str) -> Vec<u8> {
    client.say(&format!("DUMP {key}")).bytes().expect("a dump").to_vec()
}

fn restore(client: &mut Client, key: &str, payload: &[u8]) -> ServerReply {
    let words: [&[u8]; 5] = [b"RESTORE", key.as_bytes(), b"0", payload, b"REPLACE"];
    client.0.command(&words).expect("the server lives")
}

/// The last ten bits of the id are the version.
fn other_version(bytes: &mut [u8], id: &[u8]) {
    let at = bytes.windows(id.len()).position(|part| part == id).expect("a lock");
    bytes[at + id.len() - 1] ^= 0b11;
}

/// Returns our bytes. After the id come the opcode of a string, its length in one byte or two, and the string, which
/// holds our bytes if it is not compressed; then the end opcode.
pub(crate) fn ours(payload: &[u8]) -> &[u8] {
    let (mark, first) = (payload[ID.end], payload[ID.end + 1]);
    assert_eq!(mark, 5, "a text");
    let at = ID.end + if first < 0x40 { 2 } else { 3 };
    &payload[at..payload.len() - FOOTER - 1]
}

/// Replaces our bytes in a payload.
pub(crate) fn with_ours(payload: &[u8], ours: &[u8]) -> Vec<u8> {
    let length = [0x40 | (ours.len() >> 8) as u8, ours.len() as u8];
    let end = &payload[payload.len() - FOOTER - 1..];
    let mut changed = [&payload[..=ID.end], &length, ours, end].concat();
    seal(&mut changed);
    changed
}

/// Dumps locks of every kind, with everything that a lock can contain.
fn dumps(server: &Server) -> Vec<Vec<u8>> {
    let (mut client, mut program) = (Client::of(server), Program::of(server, "", 7));
    client.take("mutex 600 LABEL a");
    program.wait("mutex", 1, Ask::Mutex, "program");
    client.take("rw 600 SHARED");
    program.wait("rw", 2, Ask::Write, "program");
    program.wait("rw", 3, Ask::Read, "program");
    client.take("sem 600 PERMITS 2 3");
    program.wait("sem", 4, Ask::Permits { take: 2, of: 3 }, "program");
    client.int("FENCELOCK.POOL ADD pool x y z");
    let member = Member::new("x").expect("a member");
    client.take("pool 600 MEMBER x");
    program.wait("pool", 5, Ask::Member(member), "program");
    client.take("bound 600 BOUND");
    ["mutex", "rw", "sem", "pool", "bound"].map(|key| dump(&mut client, key)).into()
}

/// Returns the server's error when it refuses to start with a damaged file.
fn start_with(server: &Server, client: &mut Client, change: impl FnOnce(&mut Vec<u8>)) -> String {
    client.ok("SAVE");
    server.kill();
    let path = server.dir().join("dump.rdb");
    let mut file = fs::read(&path).expect("a saved file");
    change(&mut file);
    seal(&mut file);
    fs::write(&path, file).expect("written");
    let error = server.restart().expect_err("it does not start");
    let SetupError::Ended { said, .. } = error else { panic!("{error}") };
    assert!(!said.contains("crashed by signal"), "{said}");
    said
}

on_both! {
    fn a_payload_of_another_version_is_refused(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        client.take("k 600");
        let mut payload = dump(&mut client, "k");
        let id = payload[ID].to_vec();
        other_version(&mut payload, &id);
        seal(&mut payload);
        let reply = restore(&mut client, "new", &payload);
        assert!(reply.error().is_some_and(|error| error.contains("Bad data format")), "{reply}");
        assert_eq!(client.int("EXISTS new"), 0);
        assert!(server.log().contains("a lock of version 7, and this module knows version 4 only"));
    }

    fn a_saved_file_of_another_version_is_refused_at_the_start(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        client.take("k 600");
        let id = dump(&mut client, "k")[ID].to_vec();
        let said = start_with(&server, &mut client, |file| other_version(file, &id));
        assert!(said.contains("a lock of version 7, and this module knows version 4 only"), "{said}");
    }

    fn a_saved_file_with_a_broken_lock_is_refused_at_the_start(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        client.take("k 600 LABEL this-is-the-label");
        client.ok("CONFIG SET rdbcompression no");
        let label = b"this-is-the-label";
        let said = start_with(&server, &mut client, |file| {
            let at = file.windows(label.len()).position(|part| part == label).expect("a label");
            file[at] = 0xff;
        });
        assert!(said.contains("not able to load"), "{said}");
    }

    fn a_log_with_a_broken_step_is_no_crash(flavor: Flavor) {
        let server = logging(flavor, &[]).start().expect("a server");
        let mut client = Client::of(&server);
        client.take("k 600");
        server.kill();
        let folder = server.dir().join("appendonlydir");
        let log = fs::read_dir(folder).expect("a folder").filter_map(|entry| Some(entry.ok()?.path()));
        let log = log.into_iter().find(|path| path.to_string_lossy().contains(".incr.aof"));
        let log = log.expect("a log");
        let mut bytes = fs::read(&log).expect("a log");
        bytes.extend(b"*3\r\n$15\r\nFENCELOCK.APPLY\r\n$1\r\nk\r\n$3\r\n\xff\xff\xff\r\n");
        fs::write(&log, bytes).expect("written");
        // A server skips a command of the log that fails.
        restart(&server);
        assert_eq!(Client::of(&server).labels("k", "holders").len(), 1);
        assert!(server.is_running());
    }

    fn a_payload_that_was_cut_short_is_refused(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        client.ok("CONFIG SET rdbcompression no");
        for whole in dumps(&server) {
            let ours = ours(&whole);
            for length in 0..ours.len() {
                let payload = with_ours(&whole, &ours[..length]);
                let reply = restore(&mut client, "new", &payload);
                assert!(reply.error().is_some(), "{length} of {}: {reply}", ours.len());
            }
            assert!(restore(&mut client, "whole", &with_ours(&whole, ours)).is_ok());
        }
        assert_eq!(client.int("EXISTS new"), 0);
    }

    fn thousands_of_changed_payloads_do_no_harm(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let dumps = dumps(&server);
        let mut dice = Dice::new(0x7a6e);
        let mut taken = 0;
        for round in 0..5_000 {
            let mut payload = dice.one_of(&dumps).clone();
            let body = ID.end..payload.len() - FOOTER;
            for _ in 0..=dice.below(3) {
                let at = body.start + dice.below(body.len());
                payload[at] = match dice.below(3) {
                    0 => payload[at] ^ (1 << dice.below(8)),
                    1 => dice.below(256) as u8,
                    _ => dice.one_of(&[0, 1, 0x7f, 0x80, 0xff]),
                };
            }
            seal(&mut payload);
            // Some stay for a while, so that timers reach them.
            let key = format!("new{}", dice.below(16));
            if restore(&mut client, &key, &payload).is_ok() {
                taken += 1;
                use_it(&mut client, &key, round);
            }
        }
        assert!(taken > 100, "only {taken} were taken for locks");
        assert!(server.is_running());
        let info = server.info("fencelock");
        assert_eq!(info["fencelock_failover"], "immediate");
        let log = server.log();
        let bug = log.lines().find(|line| line.contains("a bug in the module"));
        assert_eq!(bug, None, "{log}");
    }
}

/// Uses whatever was accepted as a lock.
fn use_it(client: &mut Client, key: &str, round: u32) {
    let show = client.show(key);
    if show == ServerReply::Nil {
        // Its last use was so long ago that it is forgotten already.
        return;
    }
    assert!(show.field("kind").is_some(), "{show}");
    client.digest(key);
    let usage = client.say(&format!("MEMORY USAGE {key}"));
    assert!(usage == ServerReply::Nil || usage.int().is_some_and(|bytes| bytes > 0), "{usage}");
    if round.is_multiple_of(2) {
        return;
    }
    let kinds = ["", " EXCLUSIVE", " PERMITS 1 3", " ANY"];
    for kind in kinds {
        let reply = client.say(&format!("FENCELOCK.ACQUIRE {key} 60{kind}"));
        let is_bug = reply.error().is_some_and(|error| error.contains("bug"));
        assert!(!is_bug, "{reply}");
    }
    for command in [format!("FENCELOCK.BREAK {key} NOW"), format!("DEL {key}")] {
        let reply = client.say(&command);
        assert!(reply.int().is_some(), "{command}: {reply}");
    }
}
