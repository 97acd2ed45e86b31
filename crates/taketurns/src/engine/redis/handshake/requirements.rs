//! Whether a server will do, judged by what it says of itself. Pure: nothing is asked here.

use std::fmt;
use std::time::Duration;

use super::facts::{Role, ServerFacts};
use crate::engine::redis::connection::failure::Failure;
use crate::engine::redis::url::{Address, Servers};

const VERSION_MIN: (u32, u32, u32) = (7, 0, 0);
const CLOCK_OFF_MS_MAX: u64 = 10_000;

/// By which kind of URL the server was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    Single,
    Sentinel,
    Cluster,
}

impl Placement {
    pub(crate) fn of(servers: &Servers) -> Self {
        match servers {
            Servers::One(_) => Self::Single,
            Servers::Sentinel { .. } => Self::Sentinel,
            Servers::Cluster(_) => Self::Cluster,
        }
    }
}

/// What is known of a connection besides the server's own words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionTraits {
    pub(crate) placement: Placement,
    pub(crate) resp3: bool,
    /// Our wall clock.
    pub(crate) local_ms: u64,
    /// After how long without replicas a master stops taking writes; `None` if never.
    pub(crate) lag: Option<Duration>,
}

/// Works, but less well than one may think.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub(crate) enum Warning {
    #[error("maxmemory-policy is {0}, which may evict a lock that is held: set it to noeviction")]
    Evicts(String),
    #[error("there is no RESP3 (HELLO 3), so wake-ups take a second connection")]
    NoResp3,
    #[error(
        "its clock differs from ours by {0} s: fencing tokens follow its clock, so keep it right"
    )]
    Clock(u64),
    #[error(
        "a master that has lost its replicas goes on taking writes, or does not let us ask: after \
         a fail-over two holders are possible, and only the fencing token protects (set \
         min-replicas-to-write 1 and min-replicas-max-lag)"
    )]
    Unguarded,
    #[error(
        "it has the module, and its replica {0} does not: a fail-over to that would lose every lock \
         (load the module there too)"
    )]
    Lacking(String),
}

impl Warning {
    /// Of replicas without the module of their master.
    pub(crate) fn lacking(replicas: &[Address]) -> Option<Self> {
        let names: Vec<_> = replicas.iter().map(Address::to_string).collect();
        (!names.is_empty()).then(|| Self::Lacking(names.join(", ")))
    }
}

/// What is wrong with a server, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerFault {
    pub(crate) what: String,
    pub(crate) remedy: &'static str,
}

impl fmt::Display for ServerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.remedy)
    }
}

/// It is of a version that lacks what we need.
pub(crate) fn too_old(facts: &ServerFacts) -> Option<ServerFault> {
    let (major, minor, patch) = facts.version;
    (facts.version < VERSION_MIN).then(|| ServerFault {
        what: format!("is of version {major}.{minor}.{patch}"),
        remedy: "7.0 or later is needed",
    })
}

/// It is, or is not, part of a Cluster, and the URL says otherwise.
pub(crate) fn misplaced(facts: &ServerFacts, placement: Placement) -> Option<ServerFault> {
    let (what, remedy) = match (placement, facts.cluster_enabled) {
        (Placement::Cluster, false) => ("is not part of a Cluster", "use redis://"),
        (Placement::Single | Placement::Sentinel, true) => {
            ("is part of a Cluster", "use redis+cluster://")
        }
        _ => return None,
    };
    Some(ServerFault { what: what.to_owned(), remedy })
}

/// It follows another.
pub(crate) fn following(facts: &ServerFacts) -> Option<ServerFault> {
    match &facts.role {
        Role::Master => None,
        Role::Replica { of } => Some(ServerFault {
            what: format!("is a replica of {of}"),
            remedy: "connect to its master",
        }),
    }
}

/// Why this server won't do at all.
///
/// At the first connect a replica is a mistake in the URL; later it may be a fail-over that is not
/// over yet.
pub(crate) fn refusal(
    server: &Address,
    facts: &ServerFacts,
    placement: Placement,
    first: bool,
) -> Option<Failure> {
    if let Some(fault) = too_old(facts).or_else(|| misplaced(facts, placement)) {
        return Some(Failure::Broken(format!("{server} {fault}")));
    }
    if let Some(fault) = following(facts) {
        let why = format!("{server} {fault}");
        let mistake = first && placement == Placement::Single;
        return Some(if mistake { Failure::Broken(why) } else { Failure::NotMaster(why) });
    }
    facts.loading.then(|| Failure::loading(server))
}

/// What should be known of it.
pub(crate) fn warnings(facts: &ServerFacts, seen: ConnectionTraits) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(policy) = facts.evicts() {
        warnings.push(Warning::Evicts(policy.to_owned()));
    }
    if !seen.resp3 {
        warnings.push(Warning::NoResp3);
    }
    let off_ms = facts.now_ms.abs_diff(seen.local_ms);
    if off_ms > CLOCK_OFF_MS_MAX {
        warnings.push(Warning::Clock(off_ms / 1_000));
    }
    if seen.placement == Placement::Sentinel && seen.lag.is_none() {
        warnings.push(Warning::Unguarded);
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::redis::handshake::facts::ServerFlavor;

    fn facts() -> ServerFacts {
        ServerFacts {
            run: "r".to_owned(),
            version: (7, 0, 0),
            flavor: ServerFlavor::Redis,
            role: Role::Master,
            uptime_s: 1,
            loading: false,
            eviction_policy: Some("noeviction".to_owned()),
            maxmemory: 0,
            cluster_enabled: false,
            replicas: Vec::new(),
            now_ms: 1_000_000,
        }
    }

    fn refused(facts: &ServerFacts, placement: Placement, first: bool) -> Option<Failure> {
        refusal(&Address { host: "h".to_owned(), port: 1 }, facts, placement, first)
    }

    #[test]
    fn a_good_server_is_neither_refused_nor_warned_of() {
        let seen = ConnectionTraits {
            placement: Placement::Single,
            resp3: true,
            local_ms: 1_010_000,
            lag: None,
        };
        assert_eq!(refused(&facts(), Placement::Single, true), None);
        assert_eq!(warnings(&facts(), seen), []);
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        let says =
            |facts: ServerFacts, placement, piece: &str| match refused(&facts, placement, true) {
                Some(Failure::Broken(why)) => assert!(why.contains(piece), "{why}"),
                other => panic!("{other:?}"),
            };
        says(ServerFacts { version: (6, 2, 14), ..facts() }, Placement::Single, "7.0 or later");
        says(ServerFacts { cluster_enabled: true, ..facts() }, Placement::Single, "redis+cluster");
        says(facts(), Placement::Cluster, "use redis://");
        let replica = ServerFacts { role: Role::Replica { of: "m:2".to_owned() }, ..facts() };
        says(replica.clone(), Placement::Single, "replica of m:2");
        let later = refused(&replica, Placement::Single, false);
        assert!(matches!(later, Some(Failure::NotMaster(_))), "{later:?}");
        let sentinel = refused(&replica, Placement::Sentinel, true);
        assert!(matches!(sentinel, Some(Failure::NotMaster(_))), "{sentinel:?}");
        let loading = ServerFacts { loading: true, ..facts() };
        let loading = refused(&loading, Placement::Single, true);
        assert!(matches!(loading, Some(Failure::Loading(_))), "{loading:?}");
    }

    #[test]
    fn replicas_without_the_module_are_named() {
        let at = |port| Address { host: "h".to_owned(), port };
        assert_eq!(Warning::lacking(&[]), None);
        let both = Warning::lacking(&[at(1), at(2)]).unwrap().to_string();
        assert!(both.contains("its replica h:1, h:2 does not"), "{both}");
    }

    #[test]
    fn each_warning_has_its_cause() {
        let facts = ServerFacts { eviction_policy: Some("volatile-lru".to_owned()), ..facts() };
        let seen = ConnectionTraits {
            placement: Placement::Sentinel,
            resp3: false,
            local_ms: 1_011_000,
            lag: None,
        };
        let all = [
            Warning::Evicts("volatile-lru".to_owned()),
            Warning::NoResp3,
            Warning::Clock(11),
            Warning::Unguarded,
        ];
        assert_eq!(warnings(&facts, seen), all);
        let guarded = ConnectionTraits { lag: Some(Duration::from_secs(10)), ..seen };
        assert_eq!(warnings(&facts, guarded), all[..3]);
    }
}
