//! What is looked at: every check by its name, in one list that the page is compared with.

use super::{Check, Level};

macro_rules! subjects {
    ($($subject:ident $name:literal)*) => {
        /// What a check is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Subject { $($subject),* }

        impl Subject {
            pub(crate) const ALL: &[Self] = &[$(Self::$subject),*];

            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$subject => $name),* }
            }
        }
    };
}

subjects! {
    Reachable "reachable"
    // Of a server.
    Info "info"
    Version "version"
    Mode "mode"
    Role "role"
    Loading "loading"
    Database "database"
    Persistence "persistence"
    Saving "saving"
    Eviction "eviction"
    Memory "memory"
    Clock "clock"
    Latency "latency"
    Resp3 "resp3"
    Idle "idle"
    Settings "settings"
    Module "module"
    Rights "rights"
    Excess "excess"
    Tls "tls"
    Password "password"
    Quarantine "quarantine"
    Replicas "replicas"
    MinReplicas "min-replicas"
    Protocol "protocol"
    // Of PostgreSQL.
    Commit "commit"
    Bloat "bloat"
    Snapshot "snapshot"
    Timeouts "timeouts"
    // Of Sentinels.
    Sentinels "sentinels"
    Agreement "agreement"
    // Of a Cluster.
    Slots "slots"
    State "state"
    // Of a quorum.
    Nodes "nodes"
    Majority "majority"
    Identity "identity"
    Membership "membership"
    // Of a file.
    Directory "directory"
    FileSystem "file-system"
    File "file"
    Access "access"
    Space "space"
    Integrity "integrity"
    Journal "journal"
    Format "format"
    WakeUps "wake-ups"
    Boot "boot"
    Locks "locks"
}

impl Subject {
    pub(crate) fn ok(self, node: impl ToString, found: impl Into<String>) -> Check {
        self.check(node, Level::Ok, found, None)
    }

    #[cfg(any(feature = "file", feature = "postgres", feature = "redis", test))]
    pub(crate) fn warn(
        self,
        node: impl ToString,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Check {
        self.check(node, Level::Warn, found, Some(advice.into()))
    }

    #[cfg(any(feature = "file", feature = "postgres", feature = "redis", test))]
    pub(crate) fn fail(
        self,
        node: impl ToString,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Check {
        self.check(node, Level::Fail, found, Some(advice.into()))
    }

    fn check(
        self,
        node: impl ToString,
        level: Level,
        found: impl Into<String>,
        advice: Option<String>,
    ) -> Check {
        Check { node: node.to_string(), name: self.name(), level, found: found.into(), advice }
    }
}
