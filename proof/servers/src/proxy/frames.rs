//! Where one frame of RESP3 ends and the next begins, however the bytes arrive.
//!
//! Frames are looked at no closer than that, and to tell whether one is a published message. What
//! is not RESP at all, such as TLS, passes as it comes.

/// Bytes that arrived, up to the next whole frame.
#[derive(Debug, Default)]
pub(super) struct ProxyFrames {
    buffer: Vec<u8>,
    /// Up to where the frame at the start of the buffer is known to go.
    scanned: usize,
    /// How many values that frame still needs; none if it has not begun.
    missing: usize,
    foreign: bool,
}

/// A whole frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    /// Is it a message that somebody published?
    pub(super) message: bool,
}

/// What comes next in the buffer.
enum FrameStep {
    /// A value: its length in bytes, and the number of values that must follow it.
    Value(usize, usize),
    Incomplete,
    Foreign,
}

impl ProxyFrames {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, if all of it is there.
    pub(super) fn next(&mut self) -> Option<Frame> {
        while !self.foreign && self.scanned < self.buffer.len() {
            match step(&self.buffer[self.scanned..]) {
                FrameStep::Value(length, more) => {
                    self.missing = self.missing.max(1) - 1 + more;
                    self.scanned += length;
                    if self.missing == 0 {
                        return Some(self.cut(self.scanned));
                    }
                }
                FrameStep::Incomplete => return None,
                FrameStep::Foreign => self.foreign = true,
            }
        }
        (self.foreign && !self.buffer.is_empty()).then(|| self.cut(self.buffer.len()))
    }

    fn cut(&mut self, length: usize) -> Frame {
        let rest = self.buffer.split_off(length);
        let bytes = std::mem::replace(&mut self.buffer, rest);
        self.scanned = 0;
        let message = !self.foreign && is_message(&bytes);
        Frame { bytes, message }
    }
}

fn step(bytes: &[u8]) -> FrameStep {
    let kind = bytes[0];
    if !b"+-:_#,($!=*~>%|".contains(&kind) {
        return FrameStep::Foreign;
    }
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return FrameStep::Incomplete;
    };
    let line = end + 2;
    if b"+-:_#,(".contains(&kind) {
        return FrameStep::Value(line, 0);
    }
    let count = match str::from_utf8(&bytes[1..end]) {
        // RESP2's nil.
        Ok("-1") => return FrameStep::Value(line, 0),
        Ok(text) => text.parse::<usize>().ok(),
        Err(_) => None,
    };
    match (kind, count) {
        (_, None) => FrameStep::Foreign,
        (b'$' | b'!' | b'=', Some(length)) if bytes.len() < line + length + 2 => {
            FrameStep::Incomplete
        }
        (b'$' | b'!' | b'=', Some(length)) => FrameStep::Value(line + length + 2, 0),
        (b'%', Some(pairs)) => FrameStep::Value(line, 2 * pairs),
        // Attributes come before a value, and do not stand for it.
        (b'|', Some(pairs)) => FrameStep::Value(line, 2 * pairs + 1),
        (_, Some(elements)) => FrameStep::Value(line, elements),
    }
}

/// Is it a push whose first element says that it is a message?
fn is_message(frame: &[u8]) -> bool {
    let Some(end) = frame.windows(2).position(|pair| pair == b"\r\n") else { return false };
    let kinds: [&[u8]; 3] = [b"$7\r\nmessage\r\n", b"$8\r\npmessage\r\n", b"$8\r\nsmessage\r\n"];
    frame[0] == b'>' && kinds.iter().any(|kind| frame[end + 2..].starts_with(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\na\r\nb\r\n";
    const CONFIRMATION: &[u8] = b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    const REPLIES: [&[u8]; 6] = [
        b"+OK\r\n",
        b"%2\r\n+a\r\n*2\r\n:1\r\n*-1\r\n+b\r\n$-1\r\n",
        b"|1\r\n+ttl\r\n:3\r\n*1\r\n$0\r\n\r\n",
        b"*0\r\n",
        b"$7\r\nmessage\r\n",
        b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
    ];

    fn frames(bytes: &[u8], chunk: usize) -> Vec<Frame> {
        let mut frames = ProxyFrames::default();
        let mut found = Vec::new();
        for chunk in bytes.chunks(chunk) {
            frames.add(chunk);
            while let Some(frame) = frames.next() {
                found.push(frame);
            }
        }
        found
    }

    #[test]
    fn frames_are_found_however_they_are_split() {
        let all: Vec<&[u8]> = [&REPLIES[..], &[MESSAGE, CONFIRMATION, MESSAGE]].concat();
        let bytes = all.concat();
        for chunk in 1..=bytes.len() {
            let found = frames(&bytes, chunk);
            let found: Vec<(&[u8], bool)> =
                found.iter().map(|frame| (&frame.bytes[..], frame.message)).collect();
            let expected: Vec<(&[u8], bool)> =
                all.iter().map(|&frame| (frame, frame == MESSAGE)).collect();
            assert_eq!(found, expected, "in chunks of {chunk}");
        }
    }

    #[test]
    fn what_is_no_resp_passes_as_it_comes() {
        let hello = b"\x16\x03\x03\x00\x7a>3\r\n";
        let found = frames(hello, 3);
        assert!(found.iter().all(|frame| !frame.message));
        assert_eq!(found.iter().flat_map(|frame| frame.bytes.clone()).collect::<Vec<_>>(), hello);
    }
}
