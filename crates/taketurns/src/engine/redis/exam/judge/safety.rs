//! Who else can get at the locks: TLS, passwords and rights.

use std::net::IpAddr;

use super::Case;
use crate::doctor::{Check, Subject, list};
use crate::engine::redis::exam::rights;
use crate::engine::redis::handshake::facts::field;

/// Whom to make a user for, where there is none yet.
const USER: &str = "taketurns";

impl Case<'_> {
    pub(super) fn safety(&self) -> Vec<Check> {
        let mut checks = vec![self.tls(), self.password()];
        checks.extend(self.rights());
        checks.extend(self.excess());
        checks
    }

    fn tls(&self) -> Check {
        let node = &self.node;
        match (&self.config.tls, is_loopback(&self.server.address.host)) {
            (Some(_), _) => Subject::Tls.ok(node, "on"),
            (None, true) => Subject::Tls.ok(node, "off, on this machine alone"),
            (None, false) => Subject::Tls.warn(
                node,
                "off: everybody on the way there can read passwords, and what it takes to release a lock",
                "set up tls-port on the server, and write rediss in the URL",
            ),
        }
    }

    fn password(&self) -> Check {
        let node = &self.node;
        let near = is_loopback(&self.server.address.host);
        match (&self.server.login, self.server.is_open) {
            (Some(user), false) => Subject::Password.ok(node, format!("we log in as {user}")),
            (Some(user), true) if near => Subject::Password
                .ok(node, format!("we log in as {user}; others need not, on this machine alone")),
            (Some(user), true) => Subject::Password.warn(
                node,
                format!(
                    "we log in as {user}, but clients that do not log in get in too, as default"
                ),
                "ACL SETUSER default off, once no client relies on it",
            ),
            (None, _) if near => {
                Subject::Password.ok(node, "none is asked for, on this machine alone")
            }
            (None, _) => Subject::Password.fail(
                node,
                "none is required: every client that reaches the port can take any lock away",
                format!("{}; then ACL SETUSER default off", self.line()),
            ),
        }
    }

    fn rights(&self) -> Option<Check> {
        let (node, user) = (&self.node, self.user());
        let rights = match &self.answers.rights {
            Ok(rights) => rights,
            Err(failure) if failure.is_right_missing() => {
                let found =
                    format!("{}; what else is missing can't be told", failure.clone().said());
                return Some(Subject::Rights.fail(node, found, self.line()));
            }
            // It is not about rights, and said elsewhere.
            Err(_) => return None,
        };
        let mut missing = rights::told(self.config, &rights.missing);
        if let Err(failure) = &self.answers.subscribes
            && missing.is_empty()
        {
            missing.push(failure.clone().said());
        }
        // A foreign protocol's keys, and so the rights that they need, depend on the names of its locks.
        let besides = match &self.config.protocol {
            Some(protocol) => {
                format!(
                    "; for the protocol's own keys see docs/protocols/{}.md",
                    protocol.wire.form().name
                )
            }
            None => String::new(),
        };
        let enough = format!("the user {user} may do all that is needed{besides}");
        Some(match missing.is_empty() {
            true => Subject::Rights.ok(node, enough),
            false => Subject::Rights.fail(
                node,
                format!("the user {user} lacks {}", list(missing)),
                self.line(),
            ),
        })
    }

    fn excess(&self) -> Option<Check> {
        let (node, user) = (&self.node, self.user());
        let excess = &self.answers.rights.as_ref().ok()?.excess;
        if excess.is_empty() {
            return Some(Subject::Excess.ok(node, format!("the user {user} may do no more")));
        }
        let open =
            if self.server.login.is_none() { ", for whom no password is asked," } else { "" };
        let found = format!("the user {user}{open} may do more than locks need: {}", list(excess));
        Some(Subject::Excess.warn(node, found, self.line()))
    }

    fn user(&self) -> &str {
        let known = self.answers.user.as_deref().or(self.server.login.as_deref());
        known.unwrap_or("default")
    }

    /// The rule to be given. One for everybody is not narrowed: others may need it as it is.
    fn line(&self) -> String {
        if let Some(protocol) = &self.config.protocol {
            let name = protocol.wire.form().name;
            return format!("use the ACL line of docs/protocols/{name}.md, with your names");
        }
        let user = match self.user() {
            "default" => USER,
            user => user,
        };
        let info = self.answers.info.as_deref().unwrap_or_default();
        rights::line(self.config, user, field(info, "fencelock_failover").is_some())
    }
}

/// Can nobody but this machine see what is sent there?
fn is_loopback(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let is_named = name == "localhost" || name.ends_with(".localhost");
    is_named || host.parse::<IpAddr>().is_ok_and(|number| number.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn this_machine_has_several_names() {
        for host in ["127.0.0.1", "127.9.9.9", "::1", "localhost", "Localhost.", "a.localhost"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["10.0.0.1", "::2", "localhost.example.com", "redis", ""] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
