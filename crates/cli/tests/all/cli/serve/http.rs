//! A client of HTTP/1.1 that asks one thing per connection. It sends what it is told, also what no
//! browser would.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::Value;

use crate::cli::helper::HANG;

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    pub(super) body: String,
}

impl Answer {
    /// Reads to the end of what was announced, since not everybody closes; else to the end of all.
    fn read(mut from: impl BufRead) -> io::Result<Self> {
        let mut answer = Self { status: 0, head: String::new(), body: String::new() };
        while !answer.head.ends_with("\r\n\r\n") && from.read_line(&mut answer.head)? > 0 {}
        let status = answer.head.split(' ').nth(1).and_then(|status| status.parse().ok());
        answer.status = status.ok_or_else(|| io::Error::other("no status"))?;
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        from.take(length.unwrap_or(u64::MAX)).read_to_string(&mut answer.body)?;
        Ok(answer)
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no document: {self:?}"))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// What it says is wrong.
    pub(super) fn error(&self) -> String {
        self.json()["error"].as_str().expect("a sentence").to_owned()
    }
}

/// Asks `at`, which is a host and a port.
pub(super) fn ask(
    at: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    try_ask(at, method, path, headers, body).expect("it answers, in UTF-8")
}

/// The same, where nobody may be left to answer.
pub(super) fn try_ask(
    at: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(HANG))?;
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        request.push_str(&format!("Host: {at}\r\n"));
    }
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(request.as_bytes())?;
    Answer::read(BufReader::new(Patient { stream, until: Instant::now() + HANG }))
}

/// Reads until it gives up: one who sends a little now and then would else be listened to for ever.
struct Patient {
    stream: TcpStream,
    until: Instant,
}

impl Read for Patient {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if Instant::now() > self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.read(into)
    }
}

pub(super) fn get(at: &str, path: &str) -> Answer {
    ask(at, "GET", path, &[], "")
}
