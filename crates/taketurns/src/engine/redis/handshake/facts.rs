//! What a server says of itself, read from `INFO` and `TIME`.

use crate::engine::redis::url::Address;

/// The sections to ask for, each with its own command: before 7.0, INFO took only one section, and
/// old servers must be recognised.
pub(crate) const SECTIONS: [&str; 5] =
    ["server", "replication", "memory", "persistence", "cluster"];

/// What a server says of itself at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerFacts {
    /// The id of this run of the process: another after every restart.
    pub(crate) run: String,
    /// Of Valkey, Valkey's own.
    pub(crate) version: (u32, u32, u32),
    pub(crate) flavor: ServerFlavor,
    pub(crate) role: Role,
    pub(crate) uptime_s: u64,
    pub(crate) loading: bool,
    pub(crate) eviction_policy: Option<String>,
    pub(crate) maxmemory: u64,
    pub(crate) cluster_enabled: bool,
    /// Those that follow it now, if it is a master.
    pub(crate) replicas: Vec<Address>,
    /// Its clock.
    pub(crate) now_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerFlavor {
    Redis,
    Valkey,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Master,
    /// Of whom, as far as it says.
    Replica {
        of: String,
    },
}

impl ServerFacts {
    /// Reads the text of `INFO`, all sections in one. `None` if something is missing that every
    /// server says.
    pub(crate) fn parse(info: &str, now_ms: u64) -> Option<Self> {
        let field = |name: &str| field(info, name);
        let number = |name: &str| field(name).and_then(|text| text.parse().ok());
        let valkey = field("valkey_version");
        let role = match field("role")? {
            "master" => Role::Master,
            _ => Role::Replica {
                of: format!(
                    "{}:{}",
                    field("master_host").unwrap_or("?"),
                    field("master_port").unwrap_or("?")
                ),
            },
        };
        Some(Self {
            run: field("run_id").filter(|run| !run.is_empty())?.to_owned(),
            version: version(valkey.or_else(|| field("redis_version"))?)?,
            flavor: if valkey.is_some() { ServerFlavor::Valkey } else { ServerFlavor::Redis },
            role,
            uptime_s: number("uptime_in_seconds").unwrap_or(0),
            loading: field("loading") == Some("1"),
            eviction_policy: field("maxmemory_policy").map(str::to_owned),
            maxmemory: number("maxmemory").unwrap_or(0),
            cluster_enabled: field("cluster_enabled") == Some("1")
                || field("redis_mode") == Some("cluster"),
            replicas: info.lines().filter_map(replica).collect(),
            now_ms,
        })
    }
}

impl ServerFacts {
    /// By which rule it throws keys away when its memory is full, if by any.
    pub(crate) fn evicts(&self) -> Option<&str> {
        self.eviction_policy.as_deref().filter(|policy| *policy != "noeviction")
    }
}

/// One line of `INFO`.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// `slave0:ip=10.0.0.7,port=6379,state=online,offset=42,lag=0`
fn replica(line: &str) -> Option<Address> {
    let (number, about) = line.trim().strip_prefix("slave")?.split_once(':')?;
    number.parse::<u32>().ok()?;
    let part =
        |name: &str| about.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let host = part("ip").filter(|host| !host.is_empty())?;
    Address::of_parts(host, part("port")?.parse().ok()?, host)
}

/// `7.0.15`, `7.4`, `8.0.0-rc1`.
fn version(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.split(['.', '-']).map(|part| part.parse().ok());
    Some((parts.next()??, parts.next().flatten().unwrap_or(0), parts.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REDIS: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n\
        run_id:3020a9\r\nuptime_in_seconds:12\r\n\r\n# Replication\r\nrole:master\r\n\
        # Memory\r\nmaxmemory:1048576\r\nmaxmemory_human:1.00M\r\nmaxmemory_policy:allkeys-lru\r\n\
        # Persistence\r\nloading:0\r\nasync_loading:1\r\n# Cluster\r\ncluster_enabled:0\r\n";

    #[test]
    fn a_redis_master() {
        let facts = ServerFacts::parse(REDIS, 77).unwrap();
        assert_eq!(
            facts,
            ServerFacts {
                run: "3020a9".to_owned(),
                version: (7, 0, 15),
                flavor: ServerFlavor::Redis,
                role: Role::Master,
                uptime_s: 12,
                loading: false,
                eviction_policy: Some("allkeys-lru".to_owned()),
                maxmemory: 1_048_576,
                cluster_enabled: false,
                replicas: Vec::new(),
                now_ms: 77,
            }
        );
    }

    #[test]
    fn a_valkey_replica_that_is_loading_in_a_cluster() {
        let text = "redis_version:7.2.4\nvalkey_version:8.0.1\nredis_mode:cluster\nrun_id:x\n\
                    role:slave\nmaster_host:10.0.0.9\nmaster_port:7001\nloading:1\n";
        let facts = ServerFacts::parse(text, 0).unwrap();
        assert_eq!((facts.version, facts.flavor), ((8, 0, 1), ServerFlavor::Valkey));
        assert_eq!(facts.role, Role::Replica { of: "10.0.0.9:7001".to_owned() });
        assert!(facts.loading && facts.cluster_enabled);
        assert_eq!((facts.eviction_policy, facts.maxmemory), (None, 0));
    }

    #[test]
    fn a_master_names_its_replicas() {
        let text = format!(
            "{REDIS}connected_slaves:2\r\n\
             slave0:ip=10.0.0.7,port=6380,state=online,offset=42,lag=0\r\n\
             slave1:ip=fe80::1,port=6379,state=wait_bgsave,offset=0,lag=0\r\n\
             slave2:ip=,port=6379\r\nslave3:ip=h,port=x\r\nslave_repl_offset:1\r\n"
        );
        let at = |host: &str, port| Address { host: host.to_owned(), port };
        let facts = ServerFacts::parse(&text, 0).unwrap();
        assert_eq!(facts.replicas, [at("10.0.0.7", 6380), at("fe80::1", 6379)]);
    }

    #[test]
    fn what_is_no_info_is_not_read() {
        assert_eq!(ServerFacts::parse("", 0), None);
        assert_eq!(ServerFacts::parse("run_id:\nrole:master\nredis_version:7.0.0", 0), None);
        assert_eq!(version("8.0.0-rc1"), Some((8, 0, 0)));
        assert_eq!(version("7.4"), Some((7, 4, 0)));
        assert_eq!(version("unstable"), None);
    }
}
