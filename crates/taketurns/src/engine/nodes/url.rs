//! `quorum:URL,URL,URL`: which nodes there are, and who they are to all clients alike.

use taketurns_core::wire::sha1_hex;

use super::super::MemoryStore;
use super::super::redis::OpenRedis;

/// Fewer survive nothing; more cost more than they give.
const NODES: std::ops::RangeInclusive<usize> = 3..=15;

/// What the URL of a node starts with.
const SCHEMES: [&str; 4] = ["redis://", "rediss://", "memory:", "simulated:"];

/// The nodes of a quorum.
#[derive(Clone, Debug)]
pub(crate) struct NodeList {
    /// In the order of their addresses, which is the same for all clients.
    pub(crate) nodes: Vec<NodeUrl>,
    /// The same for all who mean the same nodes.
    pub(crate) fingerprint: String,
    /// If they speak the plain wire: is it known that there are no tokens?
    pub(crate) plain: Option<bool>,
}

/// Where one node is.
#[derive(Clone)]
pub(crate) struct NodeUrl {
    url: String,
    /// Who it is, to all clients alike.
    address: String,
    /// Where it is, for people.
    pub(crate) place: String,
    /// See [`NodeList::plain`].
    pub(crate) plain: Option<bool>,
}

/// A URL may have a password in it.
impl std::fmt::Debug for NodeUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NodeUrl").field(&self.place).finish()
    }
}

/// Opens one node.
pub(crate) enum NodeOpener {
    Memory(MemoryStore),
    #[cfg(feature = "simulation")]
    Simulated(Box<dyn super::super::Open>),
    Redis(Box<OpenRedis>),
}

impl NodeList {
    /// Reads what follows `quorum:`.
    pub(crate) fn parse(list: &str) -> Result<Self, String> {
        let mut nodes: Vec<NodeUrl> = split(list).map(NodeUrl::parse).collect::<Result<_, _>>()?;
        if !NODES.contains(&nodes.len()) {
            let (least, most) = (NODES.start(), NODES.end());
            return Err(format!(
                "a quorum has {least} to {most} nodes, not {}: write \
                 quorum:redis://a,redis://b,redis://c",
                nodes.len()
            ));
        }
        nodes.sort_by(|a, b| a.address.cmp(&b.address));
        if let Some(twice) = nodes.windows(2).find(|pair| pair[0].address == pair[1].address) {
            return Err(format!("the node {} is there twice", twice[0].place));
        }
        if let Some(other) =
            nodes.iter().find(|node| node.plain.is_some() != nodes[0].plain.is_some())
        {
            return Err(format!(
                "of {} and {} one says protocol=plain, and the other does not: all nodes have to speak \
                 the same",
                nodes[0].place, other.place
            ));
        }
        let is_known = nodes.iter().all(|node| node.plain == Some(true));
        let plain = nodes[0].plain.map(|_| is_known);
        let all: Vec<&str> = nodes.iter().map(|node| node.address.as_str()).collect();
        let mut fingerprint = sha1_hex(all.join("\n"));
        fingerprint.truncate(16);
        Ok(Self { nodes, fingerprint, plain })
    }
}

impl NodeUrl {
    fn parse(url: &str) -> Result<Self, String> {
        let opener = open(url)?;
        let (address, plain) = (opener.address(url)?, opener.plain()?);
        let place = address.split('/').next().unwrap_or_default().to_owned();
        Ok(Self { url: url.to_owned(), address, place, plain })
    }

    /// To be opened, as often as it takes.
    pub(crate) fn opener(&self) -> Result<NodeOpener, String> {
        open(&self.url)
    }
}

impl NodeOpener {
    fn address(&self, url: &str) -> Result<String, String> {
        match self {
            NodeOpener::Memory(_) => Ok(url.to_owned()),
            #[cfg(feature = "simulation")]
            NodeOpener::Simulated(_) => Ok(url.to_owned()),
            NodeOpener::Redis(redis) => redis.node_address(),
        }
    }

    fn plain(&self) -> Result<Option<bool>, String> {
        match self {
            NodeOpener::Memory(_) => Ok(None),
            #[cfg(feature = "simulation")]
            NodeOpener::Simulated(_) => Ok(None),
            NodeOpener::Redis(redis) => redis.plain(),
        }
    }
}

fn open(url: &str) -> Result<NodeOpener, String> {
    match url.split_once(':') {
        Some(("memory", "")) => {
            Err("a node memory: needs a name, so that all clients mean the same one".to_owned())
        }
        // It is shown to people, and may be the end of a password.
        Some(("memory", name)) if name.contains('@') => {
            Err("a node memory: has no @ in its name; in a password, write a comma as %2C"
                .to_owned())
        }
        Some(("memory", name)) => Ok(NodeOpener::Memory(MemoryStore::named(name))),
        #[cfg(feature = "simulation")]
        Some(("simulated", name)) => super::super::simulated(name).map(NodeOpener::Simulated),
        Some((
            "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster"
            | "rediss+cluster",
            _,
        )) => match OpenRedis::new(url) {
            Ok(redis) => Ok(NodeOpener::Redis(Box::new(redis))),
            Err(crate::Error::InvalidUrl(why)) => Err(why),
            Err(other) => Err(other.to_string()),
        },
        _ => {
            Err("a node of a quorum is a server of its own, with a redis:// or rediss:// URL"
                .into())
        }
    }
}

/// A comma parts two nodes where a scheme follows: a password or a prefix may have one in it.
fn split(list: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(list);
    std::iter::from_fn(move || {
        let text = rest?;
        let starts = |at: usize| SCHEMES.iter().any(|scheme| text[at + 1..].starts_with(scheme));
        let end = text.match_indices(',').map(|(at, _)| at).find(|at| starts(*at));
        rest = end.map(|at| &text[at + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(list: &str) -> Vec<String> {
        let members = NodeList::parse(list).expect("a quorum");
        members.nodes.into_iter().map(|node| node.address).collect()
    }

    fn why_not(list: &str) -> String {
        NodeList::parse(list).expect_err("no quorum")
    }

    #[test]
    fn nodes_are_known_by_address_in_whatever_order_they_are_named() {
        let one = NodeList::parse("memory:a,memory:b,memory:c").expect("a quorum");
        let other = NodeList::parse("memory:c,memory:a,memory:b").expect("a quorum");
        assert_eq!(one.fingerprint, other.fingerprint);
        let third = NodeList::parse("memory:a,memory:b,memory:d").expect("a quorum");
        assert_ne!(one.fingerprint, third.fingerprint);
    }

    #[test]
    fn credentials_and_options_are_no_part_of_who_a_node_is() {
        let plain = "redis://a,redis://b:7000/2,redis://c?prefix=x:";
        let same = "redis://c?prefix=x:&max_lease=9,redis://u:p,q@a:6379/0,rediss://b:7000/2";
        assert_eq!(addresses(plain), addresses(same));
        assert!(!format!("{:?}", NodeList::parse(same)).contains("p,q"));
    }

    #[test]
    fn what_is_no_quorum_is_refused_with_the_reason() {
        assert!(why_not("memory:a,memory:b").contains("3 to 15 nodes, not 2"));
        assert!(why_not("memory:a,memory:b,memory:a").contains("memory:a is there twice"));
        assert!(why_not("memory:,memory:b,memory:c").contains("needs a name"));
        assert!(why_not("file:/a,memory:b,memory:c").contains("a server of its own"));
        assert!(why_not("").contains("a server of its own"));
    }

    #[test]
    fn a_password_that_looks_like_the_next_node_is_not_repeated() {
        let why = why_not("redis://a?protocol=plain,redis://b?protocol=plain,memory:x:hunter2@c");
        assert!(why.contains("%2C") && !why.contains("hunter2"), "{why}");
    }

    #[test]
    fn either_all_nodes_speak_the_plain_wire_or_none() {
        let plain = |list: &str| NodeList::parse(list).expect("a quorum").plain;
        assert_eq!(plain("redis://a,redis://b,redis://c"), None);
        let url = |options: [&str; 3]| {
            let [a, b, c] = options;
            format!("redis://a?protocol=plain{a},redis://b{b},redis://c?protocol=plain{c}")
        };
        assert_eq!(plain(&url(["", "?protocol=plain", "&unfenced=ok"])), Some(false));
        let all = url(["&unfenced=ok", "?unfenced=ok&protocol=plain", "&unfenced=ok"]);
        assert_eq!(plain(&all), Some(true));
        let why = why_not(&url(["", "", ""]));
        assert!(why.contains("a:6379 and b:6379 one says protocol=plain"), "{why}");
    }

    #[test]
    fn a_node_is_one_server() {
        assert!(
            why_not("redis+sentinel://a,b/m,redis://b,redis://c").contains("server of its own")
        );
        assert!(why_not("redis://a?failover=immediate,redis://b,redis://c").contains("forgotten"));
    }
}
