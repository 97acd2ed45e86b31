//! What the command line asks for.

use std::str::FromStr;
use std::time::Duration;

use crate::load::Failure;

/// One run.
pub struct Args {
    pub library: String,
    pub load: Load,
    pub url: String,
    pub duration: Duration,
}

/// What the clients do.
#[derive(Clone, Copy)]
pub enum Load {
    /// Tasks with a lock each, which nobody else wants.
    Pairs { tasks: usize },
    /// Clients that all want the same.
    Crowd { clients: usize, hold: Duration },
}

impl Args {
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let library = words.next().ok_or("no library was named")?;
        let load = words.next().ok_or("no load was named")?;
        let words: Vec<String> = words.collect();
        let load = match load.as_str() {
            "pairs" => Load::Pairs { tasks: option(&words, "--tasks")? },
            "crowd" => Load::Crowd {
                clients: option(&words, "--clients")?,
                hold: Duration::from_millis(option(&words, "--hold-ms")?),
            },
            other => return Err(format!("no such load: {other}").into()),
        };
        let url = option(&words, "--url")?;
        let duration = Duration::try_from_secs_f64(option(&words, "--seconds")?)?;
        Ok(Self { library, load, url, duration })
    }
}

fn option<T: FromStr>(words: &[String], name: &str) -> Result<T, Failure> {
    let pair = words.chunks(2).find(|pair| pair[0] == name);
    let value = pair.and_then(|pair| pair.get(1)).ok_or_else(|| format!("{name} is missing"))?;
    value.parse().map_err(|_| format!("{name} can't be {value}").into())
}
