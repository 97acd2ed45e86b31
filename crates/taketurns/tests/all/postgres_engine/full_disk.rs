//! A disk that is full: an error that says so, and nothing is lost.
//!
//! The disk is a small one of our own. To mount it the test runs anew in a place of its own, which only root may make:
//! for anybody else there is nothing to test.

use std::fs::{self, File, Permissions};
use std::io::{ErrorKind as IoKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use taketurns::ErrorKind;
use taketurns_servers::others::Postgres;

use super::connect;
use crate::support::patience::block_on;

/// Set where the test may mount a disk.
const INSIDE: &str = "TAKETURNS_TEST_MOUNTS";
const NAME: &str = "postgres_engine::full_disk::\
    on_a_full_disk_nothing_new_is_granted_and_nothing_is_lost";
/// A database without tables of ours has 8 of these.
const DISK: &str = "size=24m,mode=711";

#[test]
fn on_a_full_disk_nothing_new_is_granted_and_nothing_is_lost() {
    if std::env::var_os(INSIDE).is_some() {
        return nothing_is_lost();
    }
    let mut may_mount = Command::new("unshare");
    may_mount.args(["-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).stderr(Stdio::null());
    if !may_mount.status().is_ok_and(|status| status.success()) {
        println!("not tested: this user may not mount a disk");
        return;
    }
    let mut inside = Command::new("unshare");
    inside.arg("-m").arg(std::env::current_exe().expect("this program"));
    let inside = inside.args(["--exact", NAME]).env(INSIDE, "").output().expect("started");
    let said = String::from_utf8_lossy(&inside.stdout);
    assert!(inside.status.success() && said.contains("1 passed"), "{said}");
}

fn nothing_is_lost() {
    let server = Postgres::builder().quick().setting("autovacuum", "off").start().expect("one");
    let folder = tempfile::tempdir().expect("a folder");
    // The server runs as another user, who has to pass through.
    fs::set_permissions(&folder, Permissions::from_mode(0o711)).expect("ours");
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).expect("a folder");
    let mut mount = Command::new("mount");
    let mounted = mount.args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(&disk).status();
    assert!(mounted.expect("started").success(), "it may be mounted");
    let space = disk.join("space");
    fs::create_dir(&space).expect("a folder");
    server.own(&space).expect("the server's");
    let space = format!("CREATE TABLESPACE small LOCATION '{}'", space.display());
    server.sql("postgres", &space).expect("a table space");
    server
        .sql("postgres", "CREATE DATABASE locks TEMPLATE template0 TABLESPACE small")
        .expect("a database");

    block_on(async {
        let url = server.url_of("postgres", "locks") + "?max_lease=3600";
        let locks = connect(&url).await;
        let lease = Duration::from_secs(3_600);
        let filling = disk.join("filling");
        fill(&filling);
        // New locks find room in the pages that there are, and then no more.
        let mut held = Vec::new();
        let (name, error) = loop {
            let name = format!("{}-{}", "x".repeat(400), held.len());
            match locks.mutex(&name).acquire().lease(lease).await {
                Ok(guard) => held.push((name, guard)),
                Err(error) => break (name, error),
            }
        };
        assert_eq!(error.kind(), ErrorKind::Store, "{error}");
        assert!(error.to_string().contains("disk is full"), "{error}");
        let other = connect(&url).await;
        for (name, guard) in &held {
            guard.check().expect("held");
            let view = other.inspect(name).await.expect("a look").expect("it is there");
            assert_eq!(view.holders.len(), 1, "{view:?}");
        }
        fs::remove_file(&filling).expect("room");
        for (_, guard) in held {
            guard.release().await.expect("it was held all along");
        }
        let granted = locks.mutex(&name).try_acquire().await.expect("an answer");
        granted.expect("free").release().await.expect("held");
    });
    drop(server);
    let unmounted = Command::new("umount").arg(&disk).status().expect("started");
    assert!(unmounted.success(), "nobody uses it");
}

/// Not a byte is left for anybody else.
fn fill(filling: &Path) {
    let mut file = File::create(filling).expect("a file");
    loop {
        match file.write(&[0; 4_096]) {
            Ok(_) => {}
            Err(error) if error.kind() == IoKind::StorageFull => return,
            Err(error) => panic!("{error}"),
        }
    }
}
