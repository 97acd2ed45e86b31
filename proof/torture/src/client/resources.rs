//! The client's connection to the resources that the locks guard.

use std::io;
use std::path::Path;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::resources::ResourceAccess;

/// A connection to the resources.
#[derive(Debug)]
pub(super) struct ResourceClient(BufReader<UnixStream>);

impl ResourceClient {
    pub(super) async fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(BufReader::new(UnixStream::connect(path).await?)))
    }

    /// Reads or writes, and returns when that is done.
    pub(super) async fn uses(&mut self, of: &ResourceAccess) -> io::Result<()> {
        let line = serde_json::to_string(of)? + "\n";
        self.0.get_mut().write_all(line.as_bytes()).await?;
        self.0.read_line(&mut String::new()).await?;
        Ok(())
    }
}
