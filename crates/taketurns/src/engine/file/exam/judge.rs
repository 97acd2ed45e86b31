//! Judges a file by facts that were gathered before. Pure: it reads nothing.

use super::super::check::{APPLICATION_ID, directory_of};
use super::super::database::VERSION;
use super::{DatabaseFacts, FileFacts, StoreFacts};
use crate::doctor::{Check, Subject};

const MIB: u64 = 1_048_576;
/// A journal may grow to some MiB before it is moved into the file.
const FREE_BYTES_MIN: u64 = 64 * MIB;
const FREE_BYTES_NONE: u64 = MIB;

/// `refused` is why a client would not open it, if so.
pub(super) fn judge(facts: &StoreFacts, refused: Option<&str>) -> Vec<Check> {
    let node = facts.path.display().to_string();
    let mut checks = vec![directory(facts), file_system(facts, refused)];
    checks.extend(space(facts));
    match &facts.file {
        None => checks.push(match refused {
            None => Subject::File.ok(&node, "not there yet: it is made at the first use"),
            Some(why) => Subject::File.fail(&node, why, "name another path"),
        }),
        Some(file) => {
            checks.push(existing(&node, file, refused));
            // What is somebody else's is none of ours to mend.
            if is_ours(file, refused) {
                checks.push(access(&node, file));
                checks.extend(content(&node, file));
            }
        }
    }
    checks.extend([wake_ups(facts, &node), boot(facts, &node)]);
    checks
}

fn directory(facts: &StoreFacts) -> Check {
    let node = directory_of(&facts.path).display();
    let mode = facts.directory.mode & 0o7777;
    // With the sticky bit nobody can replace what is somebody else's.
    let open = mode & 0o002 != 0 && mode & 0o1000 == 0;
    match (facts.directory.is_writable, open) {
        (false, _) => Subject::Directory.fail(
            node,
            "this user can't write there, where SQLite has its journal and wake-ups their sockets",
            "chown or chmod it, or name another path",
        ),
        (true, true) => Subject::Directory.warn(
            node,
            format!("anybody can replace the file (mode {mode:04o}), and with it all locks"),
            "chmod o-w it",
        ),
        (true, false) => Subject::Directory.ok(node, format!("mode {mode:04o}")),
    }
}

fn file_system(facts: &StoreFacts, refused: Option<&str>) -> Check {
    let node = directory_of(&facts.path).display();
    match refused.filter(|why| why.contains("file system")) {
        None => Subject::FileSystem.ok(node, "local, as far as can be told"),
        Some(why) => Subject::FileSystem.fail(node, why, "name a path on a local disk"),
    }
}

fn space(facts: &StoreFacts) -> Option<Check> {
    let node = directory_of(&facts.path).display();
    let free = facts.free_bytes?;
    let found = format!("{} MiB free", free / MIB);
    Some(match free {
        FREE_BYTES_MIN.. => Subject::Space.ok(node, found),
        FREE_BYTES_NONE.. => Subject::Space.warn(node, found, "free some: a lock is a write"),
        _ => Subject::Space.fail(node, found, "free some: nothing can be acquired on a full disk"),
    })
}

fn is_ours(file: &FileFacts, refused: Option<&str>) -> bool {
    match &file.content {
        Ok(content) => content.application_id == APPLICATION_ID,
        // What is wrong with it is said for itself.
        Err(_) => refused.is_none(),
    }
}

fn existing(node: &str, file: &FileFacts, refused: Option<&str>) -> Check {
    match (is_ours(file, refused), file.is_writable) {
        (false, _) => Subject::File.fail(
            node,
            refused.unwrap_or("this is not a taketurns store"),
            "name another path",
        ),
        (true, false) => Subject::File.fail(
            node,
            "this user can't write to it",
            "chown or chmod it, or run as the user that has the locks",
        ),
        (true, true) => Subject::File.ok(node, "a store of ours"),
    }
}

fn access(node: &str, file: &FileFacts) -> Check {
    let mode = file.mode & 0o777;
    match mode & 0o007 {
        0 => Subject::Access.ok(node, format!("mode {mode:03o}")),
        others => {
            let may = if others & 0o2 != 0 { "grant itself any lock" } else { "release any lock" };
            Subject::Access.warn(
                node,
                format!("mode {mode:03o}: every user of this machine can {may}"),
                "chmod o= it, and -wal and -shm beside it, while nobody uses it",
            )
        }
    }
}

fn content(node: &str, file: &FileFacts) -> Vec<Check> {
    let content = match &file.content {
        Ok(content) => content,
        Err(why) => return vec![Subject::Integrity.fail(node, why, DAMAGED)],
    };
    let DatabaseFacts { format, journal, damage, locks, of_this_boot, .. } = content;
    let integrity = match damage {
        None => Subject::Integrity.ok(node, "SQLite finds nothing wrong (quick_check)"),
        Some(damage) => Subject::Integrity.fail(node, damage, DAMAGED),
    };
    let journal = journal.as_deref().map(|journal| match journal {
        "wal" => Subject::Journal.ok(node, "write-ahead (WAL)"),
        other => Subject::Journal.warn(
            node,
            format!("{other}, and not WAL: readers and writers wait for each other"),
            "sqlite3 FILE 'PRAGMA journal_mode=WAL', while nobody uses it",
        ),
    });
    let format = match *format == i64::from(VERSION) {
        true => Subject::Format.ok(node, format!("{format}")),
        false => Subject::Format.fail(
            node,
            format!("{format}, and this program has {VERSION}"),
            "use the same release everywhere; or another file, and remove this one once nobody uses it",
        ),
    };
    let locks = format!("{locks}, {of_this_boot} of them used since this boot");
    let mut checks = vec![integrity];
    checks.extend(journal);
    checks.extend([format, Subject::Locks.ok(node, locks)]);
    checks
}

fn wake_ups(facts: &StoreFacts, node: &str) -> Check {
    let polled = "so waiters poll";
    let why = match &facts.wakes.directory {
        _ if !facts.wakes.has_proc => Some("/proc is not there"),
        None if !facts.directory.is_writable => Some("no directory for sockets can be made"),
        None => None,
        Some(wake) if !wake.is_directory => Some("what is at the path with -wake is no directory"),
        Some(wake) if !wake.is_trusted => Some("the directory with -wake is somebody else's"),
        Some(wake) if !wake.is_writable => {
            Some("this user can't write to the directory with -wake")
        }
        Some(_) => None,
    };
    match why {
        // Addresses go through /proc/self/fd, so no path is too long.
        None => Subject::WakeUps.ok(node, "by sockets beside it, however long its path is"),
        Some(why) => Subject::WakeUps.warn(
            node,
            format!("{why}, {polled}"),
            "mount /proc; remove what is at the path with -wake while nobody uses the store",
        ),
    }
}

fn boot(facts: &StoreFacts, node: &str) -> Check {
    match facts.boot_id {
        true => Subject::Boot.ok(node, "this boot has an id: leases of an earlier one are over"),
        false => Subject::Boot.fail(
            node,
            "the id of this boot can't be read, and leases are tied to it",
            "mount /proc, with /proc/sys/kernel/random/boot_id readable",
        ),
    }
}

const DAMAGED: &str = "if nobody uses it, move it away: a new one is made at the next use";

#[cfg(test)]
mod tests {
    use super::super::{DirectoryFacts, SocketDirectory, SocketFacts};
    use super::*;
    use crate::doctor::Level;

    fn content() -> DatabaseFacts {
        DatabaseFacts {
            application_id: APPLICATION_ID,
            format: VERSION.into(),
            journal: Some("wal".to_owned()),
            damage: None,
            locks: 3,
            of_this_boot: 1,
        }
    }

    fn file(content: DatabaseFacts) -> Option<FileFacts> {
        Some(FileFacts { mode: 0o100_600, is_writable: true, content: Ok(content) })
    }

    fn good() -> StoreFacts {
        StoreFacts {
            path: "/d/locks.db".into(),
            directory: DirectoryFacts { mode: 0o40_700, is_writable: true },
            free_bytes: Some(1 << 40),
            file: file(content()),
            wakes: SocketFacts {
                has_proc: true,
                directory: Some(SocketDirectory {
                    is_directory: true,
                    is_trusted: true,
                    is_writable: true,
                }),
            },
            boot_id: true,
        }
    }

    #[track_caller]
    fn bad(facts: &StoreFacts, refused: Option<&str>) -> (&'static str, Level) {
        let checks = judge(facts, refused);
        let bad: Vec<_> = checks.iter().filter(|check| check.level > Level::Ok).collect();
        let [bad] = bad[..] else { panic!("{checks:?}") };
        assert!(bad.advice.is_some());
        (bad.name, bad.level)
    }

    #[test]
    fn a_good_file_and_one_that_is_yet_to_be_made_are_well() {
        let young = StoreFacts {
            file: None,
            wakes: SocketFacts { has_proc: true, directory: None },
            ..good()
        };
        for facts in [good(), young] {
            let checks = judge(&facts, None);
            assert!(checks.iter().all(|check| check.level == Level::Ok), "{checks:?}");
        }
    }

    #[test]
    fn each_fault_of_the_place_is_named() {
        let directory = |mode, is_writable| StoreFacts {
            directory: DirectoryFacts { mode, is_writable },
            ..good()
        };
        assert_eq!(bad(&directory(0o40_777, true), None), ("directory", Level::Warn));
        assert_eq!(bad(&directory(0o40_700, false), None), ("directory", Level::Fail));
        let shared = judge(&directory(0o41_777, true), None);
        assert!(shared.iter().all(|check| check.level == Level::Ok), "as /tmp is: {shared:?}");
        let nfs = "/d: this is on a file system that may be shared by machines (NFS)";
        assert_eq!(bad(&good(), Some(nfs)), ("file-system", Level::Fail));
        let free = |bytes| StoreFacts { free_bytes: Some(bytes), ..good() };
        assert_eq!(bad(&free(32 * MIB), None), ("space", Level::Warn));
        assert_eq!(bad(&free(0), None), ("space", Level::Fail));
        assert_eq!(bad(&StoreFacts { boot_id: false, ..good() }, None), ("boot", Level::Fail));
    }

    #[test]
    fn each_fault_of_the_file_is_named() {
        let with = |change: fn(&mut FileFacts)| {
            let mut facts = good();
            change(facts.file.as_mut().expect("a file"));
            facts
        };
        assert_eq!(bad(&with(|file| file.mode = 0o644), None), ("access", Level::Warn));
        assert_eq!(bad(&with(|file| file.mode = 0o606), None), ("access", Level::Warn));
        assert_eq!(bad(&with(|file| file.is_writable = false), None), ("file", Level::Fail));
        let broken = with(|file| file.content = Err("malformed".to_owned()));
        assert_eq!(bad(&broken, None), ("integrity", Level::Fail));
        let of = |content| StoreFacts { file: file(content), ..good() };
        let damage = Some("row 1 missing".to_owned());
        assert_eq!(
            bad(&of(DatabaseFacts { damage, ..content() }), None),
            ("integrity", Level::Fail)
        );
        let other = DatabaseFacts { application_id: 7, ..content() };
        assert_eq!(bad(&of(other), Some("not a store")), ("file", Level::Fail));
        assert_eq!(
            bad(&of(DatabaseFacts { format: 2, ..content() }), None),
            ("format", Level::Fail)
        );
        let journal = Some("delete".to_owned());
        assert_eq!(
            bad(&of(DatabaseFacts { journal, ..content() }), None),
            ("journal", Level::Warn)
        );
        let directory = StoreFacts { file: None, ..good() };
        assert_eq!(bad(&directory, Some("this is a directory")), ("file", Level::Fail));
    }

    #[test]
    fn where_there_can_be_no_sockets_it_is_polled() {
        let good_wake = SocketDirectory { is_directory: true, is_trusted: true, is_writable: true };
        for wake in [
            SocketDirectory { is_directory: false, ..good_wake.clone() },
            SocketDirectory { is_trusted: false, ..good_wake.clone() },
            SocketDirectory { is_writable: false, ..good_wake },
        ] {
            let wakes = SocketFacts { has_proc: true, directory: Some(wake) };
            assert_eq!(bad(&StoreFacts { wakes, ..good() }, None), ("wake-ups", Level::Warn));
        }
        let wakes = SocketFacts { has_proc: false, directory: None };
        assert_eq!(bad(&StoreFacts { wakes, ..good() }, None), ("wake-ups", Level::Warn));
    }
}
