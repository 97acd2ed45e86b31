//! The rights that a user of the server needs, those that it should not have, and the ACL line that sets them.
//! Pure: [`super::gather`] asks the server.
//!
//! The server itself is asked, by a script that tries nothing and needs no right but `eval`: so it is known
//! also of a user that may not look at its own rules, and what the user may do besides is known too.

use crate::engine::redis::handshake::requirements::Placement;
use crate::engine::redis::url::RedisConfig;

/// Answers for each command in ARGV, which are parted by empty words: 1 if this user may run it with these
/// arguments, 0 if not, -1 if the server has none of that name.
pub(super) const ASK: &str = "#!lua flags=no-writes\n\
    local answers, words = {}, {}\n\
    for _, word in ipairs(ARGV) do\n\
      if word ~= '' then\n\
        words[#words + 1] = word\n\
      else\n\
        local known, may = pcall(redis.acl_check_cmd, unpack(words))\n\
        answers[#answers + 1] = known and (may and 1 or 0) or -1\n\
        words = {}\n\
      end\n\
    end\n\
    return answers";

/// Stand for a key and a channel of ours in the commands below.
const KEY: &str = "{key}";
const CHANNEL: &str = "{channel}";

/// A right as in an ACL rule, and a command that needs it.
type RequiredRight = (&'static str, &'static [&'static str]);

/// What clients send, and what scripts run: both are checked by the server.
const NEEDED: [RequiredRight; 18] = [
    ("info", &["INFO"]),
    ("time", &["TIME"]),
    ("subscribe", &["SUBSCRIBE", CHANNEL]),
    ("publish", &["PUBLISH", CHANNEL, "x"]),
    ("get", &["GET", KEY]),
    ("set", &["SET", KEY, "x"]),
    ("eval", &["EVAL", "return 1", "1", KEY]),
    ("evalsha", &["EVALSHA", "0", "1", KEY]),
    ("script|load", &["SCRIPT", "LOAD", "return 1"]),
    ("hmget", &["HMGET", KEY, "x"]),
    ("hget", &["HGET", KEY, "x"]),
    ("hlen", &["HLEN", KEY]),
    ("hset", &["HSET", KEY, "x", "x"]),
    ("hdel", &["HDEL", KEY, "x"]),
    ("pexpireat", &["PEXPIREAT", KEY, "1"]),
    ("persist", &["PERSIST", KEY]),
    ("del", &["DEL", KEY]),
    ("scan", &["SCAN", "0"]),
];
const OF_DATABASE: [RequiredRight; 1] = [("select", &["SELECT", "1"])];
const OF_CLUSTER: [RequiredRight; 2] =
    [("cluster|slots", &["CLUSTER", "SLOTS"]), ("asking", &["ASKING"])];
const OF_MODULE: [RequiredRight; 2] = [
    ("fencelock.bind", &["FENCELOCK.BIND", "x", "x", "x", KEY, "0", "0", "x"]),
    ("fencelock.do", &["FENCELOCK.DO", KEY, "x", "x"]),
];
/// Helps when somebody looks at a server. With Sentinel clients ask for settings too, and go on without.
const OF_LOOKING: [RequiredRight; 2] =
    [("config|get", &["CONFIG", "GET", "x"]), ("acl|whoami", &["ACL", "WHOAMI"])];

/// Keys and channels that are not ours.
const STRANGE: [&str; 2] = ["elsewhere", "otherwise"];

/// What nobody needs for locks, and what it is to people.
const EXCESSIVE: [(&str, &[&str]); 8] = [
    ("keys of others", &["GET", "{strange}"]),
    ("channels of others", &["PUBLISH", "{strange}", "x"]),
    ("FLUSHALL", &["FLUSHALL"]),
    ("KEYS", &["KEYS", "x"]),
    ("CONFIG SET", &["CONFIG", "SET", "x", "x"]),
    ("ACL SETUSER", &["ACL", "SETUSER", "x"]),
    ("MONITOR", &["MONITOR"]),
    ("SLOWLOG GET", &["SLOWLOG", "GET"]),
];

/// What was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rights {
    /// Needed, and not there.
    pub(super) missing: Vec<&'static str>,
    /// For the module alone.
    pub(super) module_missing: Vec<&'static str>,
    /// There, and not needed.
    pub(super) excess: Vec<&'static str>,
    /// What would be refused is not asked for: servers keep a log of that, and somebody may watch it.
    pub(super) may_see_settings: bool,
    pub(super) may_see_user: bool,
}

/// Those that this store needs on every server.
fn needed(config: &RedisConfig) -> Vec<RequiredRight> {
    let mut needed = NEEDED.to_vec();
    if config.db != 0 {
        needed.extend(OF_DATABASE);
    }
    if Placement::of(&config.servers) == Placement::Cluster {
        needed.extend(OF_CLUSTER);
    }
    needed
}

/// The words of the question, for [`read`] to understand the answer.
pub(super) fn question(config: &RedisConfig) -> Vec<String> {
    let word = |word: &&str| match *word {
        KEY => format!("{}x", config.prefix),
        CHANNEL => format!("{}wake:x", config.prefix),
        "{strange}" => strange(&config.prefix).to_owned(),
        word => word.to_owned(),
    };
    let commands = needed(config).into_iter().chain(OF_MODULE).map(|(_, command)| command);
    let commands = commands.chain(EXCESSIVE.iter().map(|(_, command)| *command));
    let commands = commands.chain(OF_LOOKING.iter().map(|(_, command)| *command));
    commands.flat_map(|command| command.iter().map(word).chain([String::new()])).collect()
}

/// One that does not begin with the prefix.
fn strange(prefix: &str) -> &'static str {
    STRANGE.into_iter().find(|name| !name.starts_with(prefix)).unwrap_or(STRANGE[0])
}

/// `None` if that is no answer to the question.
pub(super) fn read(config: &RedisConfig, answers: &[i64]) -> Option<Rights> {
    let needed = needed(config);
    let (own, rest) = answers.split_at_checked(needed.len())?;
    let (module, rest) = rest.split_at_checked(OF_MODULE.len())?;
    let (excess, looking) = rest.split_at_checked(EXCESSIVE.len())?;
    let [settings, user] = looking else { return None };
    let without = |(right, answer): (&RequiredRight, &i64)| (*answer != 1).then_some(right.0);
    // With an empty prefix there are no keys of others.
    let counts = |what: &str| !(config.prefix.is_empty() && what == EXCESSIVE[0].0);
    let beside = EXCESSIVE.iter().zip(excess).filter(|(_, answer)| **answer == 1);
    Some(Rights {
        missing: needed.iter().zip(own).filter_map(without).collect(),
        module_missing: OF_MODULE.iter().zip(module).filter_map(without).collect(),
        excess: beside.map(|((what, _), _)| *what).filter(|what| counts(what)).collect(),
        may_see_settings: *settings == 1,
        may_see_user: *user == 1,
    })
}

/// What is missing, for people: where all that is about keys is, it is the keys.
pub(super) fn told(config: &RedisConfig, missing: &[&'static str]) -> Vec<String> {
    let about = |word: &str| -> Vec<&'static str> {
        let about = needed(config).into_iter().filter(|(_, command)| command.contains(&word));
        about.map(|(right, _)| right).collect()
    };
    let groups = [(KEY, format!("the keys ~{}*", pattern(&config.prefix))), {
        (CHANNEL, format!("the channels &{}wake:*", pattern(&config.prefix)))
    }];
    let (mut rest, mut told) = (missing.to_vec(), Vec::new());
    for (word, name) in groups {
        let group = about(word);
        if group.iter().all(|right| rest.contains(right)) {
            rest.retain(|right| !group.contains(right));
            told.push(name);
        }
    }
    told.extend(rest.iter().map(|right| format!("+{right}")));
    told
}

/// The rule for a user that has what is needed, and nothing else.
pub(super) fn line(config: &RedisConfig, user: &str, has_module: bool) -> String {
    let prefix = pattern(&config.prefix);
    let mut rights: Vec<&str> = NEEDED.iter().map(|(right, _)| *right).collect();
    if has_module {
        rights.extend(OF_MODULE.iter().map(|(right, _)| *right));
    }
    rights.extend(needed(config).iter().skip(NEEDED.len()).map(|(right, _)| *right));
    if Placement::of(&config.servers) == Placement::Sentinel {
        rights.push(OF_LOOKING[0].0);
    }
    format!(
        "ACL SETUSER {user} reset on >PASSWORD ~{prefix}* resetchannels &{prefix}wake:* +{}",
        rights.join(" +")
    )
}

/// A prefix as a pattern that matches just it: no rule can have a space, and `?` matches one.
fn pattern(prefix: &str) -> String {
    let mut pattern = String::new();
    for c in prefix.chars() {
        match c {
            '*' | '?' | '[' | ']' | '\\' => pattern.extend(['\\', c]),
            c if c.is_whitespace() => pattern.push('?'),
            c => pattern.push(c),
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> RedisConfig {
        RedisConfig::parse(url).expect("a URL")
    }

    #[test]
    fn the_line_is_that_of_the_security_page() {
        let page = include_str!("../../../../../../SECURITY.md");
        let line = line(&config("redis://h"), "taketurns", false);
        assert!(page.lines().any(|known| known.trim() == line), "{line}");
        for right in OF_MODULE.iter().chain(&OF_DATABASE).chain(&OF_CLUSTER) {
            assert!(page.contains(right.0), "{}", right.0);
        }
        assert!(page.contains(OF_LOOKING[0].0));
    }

    #[test]
    fn the_line_has_what_the_url_needs() {
        let cluster = line(&config("redis+cluster://h?prefix=a*b c:"), "u", true);
        assert!(cluster.contains(r"~a\*b?c:* resetchannels &a\*b?c:wake:* "), "{cluster}");
        assert!(cluster.ends_with("+fencelock.bind +fencelock.do +cluster|slots +asking"));
        let sentinel = line(&config("redis+sentinel://h/m/2"), "u", false);
        assert!(sentinel.ends_with("+scan +select +config|get"), "{sentinel}");
    }

    #[test]
    fn each_answer_is_about_its_command() {
        let config = config("redis://h/1?prefix=else");
        let words = question(&config);
        let commands = words.iter().filter(|word| word.is_empty()).count();
        let others = OF_MODULE.len() + EXCESSIVE.len() + OF_LOOKING.len();
        assert_eq!(commands, NEEDED.len() + 1 + others);
        assert!(words.contains(&"elsex".to_owned()) && words.contains(&"otherwise".to_owned()));
        let mut answers = vec![1; commands];
        answers[commands - EXCESSIVE.len() - OF_LOOKING.len()..].fill(0);
        assert_eq!(read(&config, &answers), Some(Rights::default()));
        answers[3] = 0;
        answers[NEEDED.len() + 1] = -1;
        answers[commands - 3] = 1;
        answers[commands - 2] = 1;
        let rights = Rights {
            missing: vec!["publish"],
            module_missing: vec!["fencelock.bind"],
            excess: vec!["SLOWLOG GET"],
            may_see_settings: true,
            may_see_user: false,
        };
        assert_eq!(read(&config, &answers), Some(rights));
        assert_eq!(read(&config, &answers[1..]), None);
        assert_eq!(read(&config, &[]), None);
    }

    #[test]
    fn with_an_empty_prefix_there_are_no_keys_of_others() {
        let config = config("redis://h?prefix=");
        let answers = vec![1; question(&config).iter().filter(|word| word.is_empty()).count()];
        let excess = read(&config, &answers).expect("an answer").excess;
        assert!(!excess.contains(&"keys of others") && excess.contains(&"FLUSHALL"));
    }

    #[test]
    fn keys_that_are_out_of_reach_are_told_as_such() {
        let config = config("redis://h");
        let keyed = |(right, command): &RequiredRight| command.contains(&KEY).then_some(*right);
        let mut missing: Vec<_> = NEEDED.iter().filter_map(keyed).collect();
        assert_eq!(told(&config, &missing), ["the keys ~tt:*"]);
        missing.extend(["subscribe", "publish", "scan"]);
        let all = ["the keys ~tt:*", "the channels &tt:wake:*", "+scan"];
        assert_eq!(told(&config, &missing), all);
        assert_eq!(told(&config, &["publish", "get"]), ["+publish", "+get"]);
    }
}
