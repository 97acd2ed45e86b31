//! What a server says of itself in INFO, as maps.

use std::collections::BTreeMap;

/// How often a command ran, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CommandStats {
    /// How many calls were carried out.
    pub calls: u64,
    /// Their time on the server's processor, in microseconds.
    pub usec: u64,
    /// The mean of that.
    pub usec_per_call: f64,
}

/// The fields of one or more INFO sections.
///
/// ```
/// let info = taketurns_servers::stats::info("# Server\r\nredis_version:7.0.15\r\n");
/// assert_eq!(info["redis_version"], "7.0.15");
/// ```
pub fn info(text: &str) -> BTreeMap<String, String> {
    let fields = text.lines().filter(|line| !line.starts_with('#'));
    fields
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim_end().to_owned()))
        .collect()
}

/// INFO's section `commandstats`: a command's name in lower case, with `|` before a subcommand.
///
/// ```
/// let text = "cmdstat_config|get:calls=2,usec=30,usec_per_call=15.00,rejected_calls=0\r\n";
/// let stats = taketurns_servers::stats::commands(text);
/// assert_eq!(stats["config|get"].calls, 2);
/// assert_eq!(stats["config|get"].usec_per_call, 15.0);
/// ```
pub fn commands(text: &str) -> BTreeMap<String, CommandStats> {
    info(text)
        .into_iter()
        .filter_map(|(name, value)| Some((name.strip_prefix("cmdstat_")?.to_owned(), one(&value))))
        .collect()
}

fn one(fields: &str) -> CommandStats {
    let mut stats = CommandStats::default();
    for (name, value) in fields.split(',').filter_map(|field| field.split_once('=')) {
        match name {
            "calls" => stats.calls = value.parse().unwrap_or_default(),
            "usec" => stats.usec = value.parse().unwrap_or_default(),
            "usec_per_call" => stats.usec_per_call = value.parse().unwrap_or_default(),
            _ => {}
        }
    }
    stats
}
