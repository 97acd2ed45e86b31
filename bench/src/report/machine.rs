//! The machine that was measured on: processor, cores, kernel and server version.

use std::fs;

use serde_json::{Value, json};
use taketurns_servers::Server;

/// What there is to know of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachineFacts {
    cores: usize,
    processor: String,
    kernel: String,
    server: String,
}

impl MachineFacts {
    pub(crate) fn look(server: &Server) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model =
            cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
        let version = server.info("server").remove("redis_version").unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: model.unwrap_or("unknown").to_owned(),
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .split('-')
                .take(1)
                .collect(),
            server: format!("{} {version}", server.flavor()),
        }
    }

    pub(super) fn facts(&self) -> Vec<(String, Value)> {
        let Self { cores, processor, kernel, server } = self;
        vec![
            ("cores".to_owned(), json!(cores)),
            ("processor".to_owned(), json!(processor)),
            ("kernel".to_owned(), json!(kernel)),
            ("server".to_owned(), json!(server)),
        ]
    }

    pub(super) fn words(&self) -> String {
        let Self { cores, processor, kernel, server } = self;
        format!(
            "{cores} cores ({processor}), Linux {kernel}, {server}, everything on the one machine"
        )
    }
}
