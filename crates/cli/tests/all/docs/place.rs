//! Who reads a page: somebody with an empty home, our program on the path, what the pages take for granted,
//! and the servers that the page talks of.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use taketurns_servers::clients::{NODE, PYTHON};
use taketurns_servers::others::{ObjectStore, Postgres};
use taketurns_servers::{Flavor, Server};
use tempfile::TempDir;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_taketurns");

/// What readers have of their own. `cargo` is for the README, which is typed before there is a program:
/// what it would build is here, and what it would test is what this is part of.
const FILES: [(&str, &str); 7] = [
    ("backup.sh", "#!/bin/sh\necho \"backed up with ${TAKETURNS_TOKEN:-no token}\"\n"),
    ("report.sh", "#!/bin/sh\necho reported\n"),
    ("plan.sh", "#!/bin/sh\necho planned\n"),
    ("train.py", "#!/bin/sh\necho trained\n"),
    ("Makefile", "deploy:\n\t@echo deployed\n"),
    (
        "bin/cargo",
        "#!/bin/sh\ncase \"$1 $2\" in\n'run --') shift 2; exec taketurns \"$@\";;\n\
         'xtask test') exit 0;;\nesac\nexit 101\n",
    ),
    ("bin/make", "#!/bin/sh\nexec sed -n 's/^\\t@//p' Makefile\n"),
];

/// A server that listens, by what pages call it.
enum Listener {
    Redis(Server),
    Postgres(Postgres),
    Objects(ObjectStore),
}

impl Listener {
    fn url(&self) -> String {
        match self {
            Self::Redis(server) => format!("redis://127.0.0.1:{}", server.port()),
            Self::Postgres(server) => server.url(),
            Self::Objects(store) => store.url(),
        }
    }
}

/// What the pages call one server. A name that begins with another one comes before it.
type Names = &'static [&'static str];

/// What each is called, and how one is had.
const NAMES: [(Names, fn() -> Listener); 6] = [
    (&["redis://127.0.0.1:6379", "redis://127.0.0.1", "redis://db.example"], redis),
    (&["redis://a.example"], redis),
    (&["redis://b.example"], redis),
    (&["redis://c.example"], redis),
    (&["postgres://app@db.example/app"], postgres),
    (&["https://s3.example"], objects),
];

fn redis() -> Listener {
    Listener::Redis(Server::start(Flavor::Redis).expect("a server"))
}

fn postgres() -> Listener {
    Listener::Postgres(Postgres::start().expect("PostgreSQL"))
}

fn objects() -> Listener {
    Listener::Objects(ObjectStore::start().expect("a store for objects"))
}

/// A home, a path, and servers.
pub(crate) struct Place {
    folder: TempDir,
    servers: Vec<(Names, Listener)>,
}

impl Place {
    /// With the servers that the text names.
    pub(crate) fn for_page(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let here = |name: &str| folder.path().join(name);
        for folder in ["bin", "notes"] {
            fs::create_dir(here(folder)).expect("made");
        }
        symlink(PROGRAM, here("bin/taketurns")).expect("made");
        for (name, text) in FILES {
            fs::write(here(name), text).expect("written");
            fs::set_permissions(here(name), fs::Permissions::from_mode(0o755)).expect("changed");
        }
        let is_named = |names: &[&str]| names.iter().any(|name| text.contains(name));
        let named = NAMES.into_iter().filter(|(names, _)| is_named(names));
        Self { folder, servers: named.map(|(names, start)| (names, start())).collect() }
    }

    /// Where what is printed is kept.
    pub(crate) fn notes(&self) -> PathBuf {
        self.folder.path().join("notes")
    }

    /// A text as it would be where the servers are that it names.
    pub(crate) fn with_addresses(&self, text: &str) -> String {
        let each = |(names, listener): &(Names, Listener)| {
            let url = listener.url();
            names.iter().map(move |name| (*name, url.clone())).collect::<Vec<_>>()
        };
        replaced(text, &self.servers.iter().flat_map(each).collect::<Vec<_>>())
    }

    /// A program, in an environment that has nothing of ours in it but the path.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("env");
        let path = std::env::var("PATH").expect("a path");
        let bin = self.folder.path().join("bin");
        let python = PYTHON.find().expect("installed").join("bin");
        command
            .args(["--default-signal=HUP,INT,QUIT,TERM", program])
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            // Where readers have installed the libraries that they use.
            .env("PATH", format!("{}:{}:{path}", bin.display(), python.display()))
            .env("NODE_PATH", NODE.find().expect("installed").join("node_modules"));
        let ours = std::env::vars_os().map(|(name, _)| name);
        let ours = ours.filter(|name| {
            let name = name.to_string_lossy();
            ["TAKETURNS_", "XDG_", "PG"].iter().any(|start| name.starts_with(start))
        });
        for name in ours {
            command.env_remove(name);
        }
        command
    }
}

/// The text with each name replaced by what stands behind it, which is not looked at again.
fn replaced(mut text: &str, names: &[(&str, String)]) -> String {
    let mut done = String::with_capacity(text.len());
    while let Some(next) = text.chars().next() {
        let found = names.iter().find_map(|(name, url)| Some((text.strip_prefix(name)?, url)));
        text = match found {
            Some((rest, url)) => {
                done.push_str(url);
                rest
            }
            None => {
                done.push(next);
                &text[next.len_utf8()..]
            }
        };
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_replaced_once_and_the_longer_one_first() {
        let names = [("a:1", "a:7".to_owned()), ("a", "a:8".to_owned())];
        assert_eq!(replaced("a:1 a é a/2", &names), "a:7 a:8 é a:8/2");
    }
}
