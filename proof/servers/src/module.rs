//! A module that a server loads when it starts.
//!
//! The server is given a link to it in its own folder. When it rewrites its configuration file,
//! which sentinels make it do, it does not quote the path, and could not read back one with a space.

use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::SetupError;

/// What is loaded, and with which arguments.
#[derive(Clone, Debug)]
pub(crate) struct Module {
    path: PathBuf,
    args: Vec<String>,
}

impl Module {
    pub(crate) fn new(path: &Path, args: &[&str]) -> Self {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        Self { path: path.to_owned(), args }
    }

    /// Puts the link into the server's folder.
    pub(crate) fn link(&self, folder: &Path) -> Result<(), SetupError> {
        let path = self.path.canonicalize().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SetupError::NoModule(self.path.clone()),
            _ => error.into(),
        })?;
        Ok(symlink(path, self.linked(folder))?)
    }

    /// The line of the configuration file.
    pub(crate) fn line(&self, folder: &Path) -> String {
        let mut line = format!("loadmodule {}", quoted(self.linked(folder).as_os_str().as_bytes()));
        for arg in &self.args {
            line = line + " " + &quoted(arg.as_bytes());
        }
        line
    }

    fn linked(&self, folder: &Path) -> PathBuf {
        folder.join(self.path.file_name().unwrap_or_default())
    }
}

/// As a server reads a word of its configuration file, whatever is in it.
fn quoted(word: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for &byte in word {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', byte.into()]),
            b' '..=b'~' => quoted.push(byte.into()),
            _ => write!(quoted, "\\x{byte:02x}").expect("a string takes all"),
        }
    }
    quoted + "\""
}
