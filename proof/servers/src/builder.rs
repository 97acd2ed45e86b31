//! The options of a server, and the configuration file that sets them.
//!
//! The file is written once, when the server first starts: what the server, or a sentinel, changes
//! in it afterwards is still so after a restart, as in real life.

use std::path::Path;

#[cfg(feature = "tls")]
use crate::Certificates;
use crate::module::Module;
use crate::{Flavor, Server, SetupError};

/// Builds a [`Server`]. Unless told otherwise it keeps nothing on disk, asks for no password, and
/// knows `DEBUG SLEEP`.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) flavor: Flavor,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) password: Option<String>,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) sentinel: bool,
    /// A command for what can't be said in the file.
    pub(crate) at_start: Vec<String>,
    pub(crate) modules: Vec<Module>,
    lines: Vec<String>,
    appendonly: bool,
}

/// How a server speaks TLS.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerTls {
    /// No port without TLS.
    pub(crate) only: bool,
    auth_clients: bool,
    lines: Vec<String>,
}

impl Builder {
    pub(crate) fn new(flavor: Flavor) -> Self {
        Self {
            flavor,
            args: Vec::new(),
            env: Vec::new(),
            password: None,
            tls: None,
            sentinel: false,
            at_start: Vec::new(),
            modules: Vec::new(),
            lines: Vec::new(),
            appendonly: false,
        }
    }

    /// One that watches a master. `name` is what clients know the master by.
    pub(crate) fn sentinel(flavor: Flavor, name: &str, master: u16, settings: &[&str]) -> Self {
        let mut builder = Self { sentinel: true, ..Self::new(flavor) };
        builder.lines.push(format!("sentinel monitor {name} 127.0.0.1 {master} 2"));
        builder.lines.extend(settings.iter().map(|line| format!("sentinel {line}")));
        builder
    }

    /// An argument for its command line, such as `--maxmemory`.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Arguments for its command line, such as `["--maxmemory", "10mb"]`.
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// A variable of its environment.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Does it log every write to a file, and read that when it starts again? Default: no.
    pub fn appendonly(mut self, appendonly: bool) -> Self {
        self.appendonly = appendonly;
        self
    }

    /// Loads a module whenever it starts. [`module_path`](crate::module_path) is where ours is. After
    /// a fail-over by sentinels an argument with a space would be read as two.
    pub fn module(mut self, path: &Path, args: &[&str]) -> Self {
        self.modules.push(Module::new(path, args));
        self
    }

    /// Makes it a replica of the server at this port.
    pub fn replica_of(self, port: u16) -> Self {
        self.line(format!("replicaof 127.0.0.1 {port}"))
    }

    /// Makes it a node of a cluster. [`Cluster`](crate::Cluster) joins the nodes.
    pub fn cluster(self) -> Self {
        self.line("cluster-enabled yes")
            .line("cluster-node-timeout 1000")
            .line("cluster-announce-ip 127.0.0.1")
    }

    /// The password of the user `default`, for which every client is asked. No spaces, no quotes.
    pub fn requirepass(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// A user and what it may do, as in an ACL file: `"alice on >secret ~lk:* +@all"`.
    pub fn acl_user(self, rules: &str) -> Self {
        self.line(format!("user {rules}"))
    }

    /// Speaks TLS on a port of its own, beside the plain one.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        let tls = self.tls.get_or_insert_default();
        tls.lines = vec![
            format!("tls-cert-file {}", certificates.server_cert().display()),
            format!("tls-key-file {}", certificates.server_key().display()),
            format!("tls-ca-cert-file {}", certificates.ca().display()),
        ];
        self
    }

    /// Must a client show a certificate of the same authority? Default: no.
    #[cfg(feature = "tls")]
    pub fn tls_auth_clients(mut self, needed: bool) -> Self {
        self.tls.get_or_insert_default().auth_clients = needed;
        self
    }

    /// Has no plain port. [`Server::port`] is the one that speaks TLS then, and [`Server::cli`]
    /// can't be used.
    #[cfg(feature = "tls")]
    pub fn tls_only(mut self) -> Self {
        self.tls.get_or_insert_default().only = true;
        self
    }

    /// A line of the configuration file.
    pub(crate) fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// A command to give it after every start.
    pub(crate) fn at_start(mut self, words: &[&str]) -> Self {
        self.at_start = words.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Starts it, and returns when it answers.
    ///
    /// # Errors
    ///
    /// [`SetupError::Missing`] if it is not installed, [`SetupError::Ended`] if it does not like how it was
    /// configured.
    pub fn start(self) -> Result<Server, SetupError> {
        Server::launch(self)
    }

    /// The file for a server with these ports.
    pub(crate) fn file(&self, folder: &Path, port: u16, tls_port: Option<u16>) -> String {
        let only_tls = self.tls.as_ref().is_some_and(|tls| tls.only);
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("port {}", if only_tls { 0 } else { port }),
            format!("dir \"{}\"", folder.display()),
            // To its output, which is a file: there it also says what it does not like in this one.
            "logfile \"\"".to_owned(),
        ];
        if !self.sentinel {
            lines.push("save \"\"".to_owned());
            lines.push(format!("appendonly {}", yes(self.appendonly)));
            // By default a server answers before it has written, if the disk is slow: a kill then loses it.
            lines.push("appendfsync always".to_owned());
            lines.push("enable-debug-command yes".to_owned());
            // Else a replica waits for five seconds whether another one wants the same.
            lines.push("repl-diskless-sync-delay 0".to_owned());
        }
        lines.extend(self.password.iter().map(|password| format!("requirepass {password}")));
        if let Some(tls) = &self.tls {
            lines.extend(tls_port.map(|port| format!("tls-port {port}")));
            lines.push(format!("tls-auth-clients {}", yes(tls.auth_clients)));
            lines.extend(tls.lines.iter().cloned());
        }
        lines.extend(self.modules.iter().map(|module| module.line(folder)));
        lines.extend(self.lines.iter().cloned());
        lines.join("\n") + "\n"
    }
}

fn yes(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}
