//! A small client of the servers' protocol: one connection, one command after the other.
//!
//! It speaks RESP2, and understands as much of RESP3 as a test needs that says `HELLO 3` on it:
//! pushes and sets are arrays here, and maps are arrays of names and values by turns.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use crate::PATIENCE;

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerReply {
    /// A status, such as OK.
    Simple(String),
    /// A refusal. It begins with a word in capitals.
    Error(String),
    /// A number.
    Int(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Nothing there.
    Nil,
    /// Several replies.
    Array(Vec<ServerReply>),
}

impl ServerReply {
    /// The text of a status, or of bytes if they are UTF-8. Not that of an error.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Simple(text) => Some(text),
            Self::Bulk(bytes) => str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The number.
    pub fn int(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { None }
    }

    /// The elements of an array.
    pub fn array(&self) -> Option<&[ServerReply]> {
        if let Self::Array(elements) = self { Some(elements) } else { None }
    }

    /// The bytes.
    pub fn bytes(&self) -> Option<&[u8]> {
        if let Self::Bulk(bytes) = self { Some(bytes) } else { None }
    }

    /// The message of an error.
    pub fn error(&self) -> Option<&str> {
        if let Self::Error(message) = self { Some(message) } else { None }
    }

    /// Is it the status OK?
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Simple(text) if text == "OK")
    }

    /// The value that follows a name in an array of names and values.
    pub fn field(&self, name: &str) -> Option<&ServerReply> {
        let pairs = self.array()?.chunks_exact(2);
        pairs.into_iter().find(|pair| pair[0].text() == Some(name)).map(|pair| &pair[1])
    }
}

impl fmt::Display for ServerReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(text) | Self::Error(text) => f.write_str(text),
            Self::Int(number) => write!(f, "{number}"),
            Self::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::Nil => f.write_str("nil"),
            Self::Array(elements) => {
                f.write_str("[")?;
                for (index, element) in elements.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{element}")?;
                }
                f.write_str("]")
            }
        }
    }
}

/// A connection to a port of this machine.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

fn write_command(bytes: &mut Vec<u8>, words: &[impl AsRef<[u8]>]) {
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
}

impl Connection {
    /// Connects. A reply may take [`PATIENCE`] until [`Connection::set_timeout`] says otherwise.
    ///
    /// # Errors
    ///
    /// If nobody listens there.
    pub fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// How long [`Connection::read`] waits for the next bytes.
    ///
    /// # Errors
    ///
    /// If the time is zero.
    pub fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(timeout))
    }

    /// Sends a command, and reads one reply. An error of the server is a [`ServerReply::Error`].
    ///
    /// # Errors
    ///
    /// If the connection is broken, or the reply does not come in time.
    pub fn command(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<ServerReply> {
        self.send(words)?;
        self.read()
    }

    /// Sends a command without waiting for its reply.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub fn send(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        write_command(&mut bytes, words);
        self.stream.get_mut().write_all(&bytes)
    }

    /// Sends several commands at once, without waiting for their replies.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub fn send_all<W: AsRef<[u8]>>(&mut self, commands: &[Vec<W>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        commands.iter().for_each(|words| write_command(&mut bytes, words));
        self.stream.get_mut().write_all(&bytes)
    }

    /// Is there something to read, or the end? Does not wait for it.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub fn is_ready(&self) -> io::Result<bool> {
        if !self.stream.buffer().is_empty() {
            return Ok(true);
        }
        let socket = self.stream.get_ref();
        socket.set_nonblocking(true)?;
        let peeked = socket.peek(&mut [0]);
        socket.set_nonblocking(false)?;
        match peeked {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Reads the next reply or push.
    ///
    /// # Errors
    ///
    /// If the connection is broken, or nothing comes in time, or it is not the protocol.
    pub fn read(&mut self) -> io::Result<ServerReply> {
        read(&mut self.stream)
    }
}

fn read(stream: &mut impl BufRead) -> io::Result<ServerReply> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    let Some((&kind, rest)) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first) else {
        return Err(if line.is_empty() { io::ErrorKind::UnexpectedEof } else { invalid() }.into());
    };
    let text = String::from_utf8_lossy(rest).into_owned();
    match kind {
        b'+' | b',' | b'#' | b'(' => Ok(ServerReply::Simple(text)),
        b'-' => Ok(ServerReply::Error(text)),
        b':' => Ok(ServerReply::Int(text.parse().map_err(|_| invalid())?)),
        b'_' => Ok(ServerReply::Nil),
        b'$' | b'!' | b'=' => bulk(stream, count(&text)?),
        b'*' | b'>' | b'~' => array(stream, count(&text)?),
        b'%' => array(stream, count(&text)?.map(|pairs| 2 * pairs)),
        _ => Err(invalid().into()),
    }
}

/// A length, or none for -1, which is how RESP2 says nil.
fn count(text: &str) -> io::Result<Option<usize>> {
    if text == "-1" { Ok(None) } else { text.parse().map(Some).map_err(|_| invalid().into()) }
}

fn bulk(stream: &mut impl BufRead, length: Option<usize>) -> io::Result<ServerReply> {
    let Some(length) = length else { return Ok(ServerReply::Nil) };
    let mut bytes = vec![0; length + 2];
    stream.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(ServerReply::Bulk(bytes))
}

fn array(stream: &mut impl BufRead, length: Option<usize>) -> io::Result<ServerReply> {
    let Some(length) = length else { return Ok(ServerReply::Nil) };
    (0..length).map(|_| read(stream)).collect::<io::Result<_>>().map(ServerReply::Array)
}

const fn invalid() -> io::ErrorKind {
    io::ErrorKind::InvalidData
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(mut bytes: &[u8]) -> io::Result<ServerReply> {
        read(&mut bytes)
    }

    #[test]
    fn every_kind_of_reply_is_read() {
        let bytes = b"*7\r\n+OK\r\n-ERR no\r\n:-3\r\n$2\r\nhi\r\n$-1\r\n*-1\r\n>1\r\n_\r\n";
        let expected = ServerReply::Array(vec![
            ServerReply::Simple("OK".to_owned()),
            ServerReply::Error("ERR no".to_owned()),
            ServerReply::Int(-3),
            ServerReply::Bulk(b"hi".to_vec()),
            ServerReply::Nil,
            ServerReply::Nil,
            ServerReply::Array(vec![ServerReply::Nil]),
        ]);
        let reply = decoded(bytes).expect("a reply");
        assert_eq!(reply, expected);
        assert_eq!(reply.to_string(), "[OK, ERR no, -3, \"hi\", nil, nil, [nil]]");
    }

    #[test]
    fn a_value_is_found_by_its_name() {
        let reply = decoded(b"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:2\r\n").expect("a reply");
        assert_eq!(reply.field("b"), Some(&ServerReply::Int(2)));
        assert_eq!(reply.field("c"), None);
    }

    #[test]
    fn an_end_and_a_foreign_protocol_are_told_apart() {
        assert_eq!(decoded(b"").unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(decoded(b"HTTP/1.1 400\r\n").unwrap_err().kind(), invalid());
    }
}
