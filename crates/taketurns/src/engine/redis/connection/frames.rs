//! What a server sends, cut into whole frames as the bytes come: RESP2 and RESP3.
//!
//! ```text
//!   socket ─► room() ─► next() ─► is a frame whole? ─► its value
//! ```
//!
//! The sender may be anybody. Malformed bytes are reported as soon as they are read, and
//! nothing is believed of what a frame says of its own size: room is made for bytes that have come.

use redis::{PushKind, Value, parse_redis_value};

/// As much as a server puts into one string. No answer of ours comes near.
const FRAME_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Of a number, a status or an error. A script's error may carry a trace.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Ours are nested by three.
const DEPTH_MAX: usize = 32;
/// For one read. Most answers are of some hundred bytes, and a crowd has some hundred of them.
const ROOM: usize = 16 * 1024;
/// A long answer does not keep its room.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// Bytes that no server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Bytes on their way to become values.
#[derive(Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// How many of them have been made values of.
    used: usize,
    scan: Scan,
}

impl Frames {
    /// Where to append what comes, with some room.
    pub(crate) fn room(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.used);
        self.used = 0;
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEPT_BYTES_MAX);
        }
        // The whole of it is reserved again only when half is used, so that no read is tiny.
        if self.bytes.capacity() - self.bytes.len() < ROOM / 2 {
            self.bytes.reserve(ROOM);
        }
        &mut self.bytes
    }

    /// The next frame, if it is there as a whole. Attributes are left out.
    pub(crate) fn next(&mut self) -> Result<Option<Value>, Malformed> {
        let rest = &self.bytes[self.used..];
        let Some(length) = self.scan.frame(rest)? else { return Ok(None) };
        self.used += length;
        let value = match quick(&rest[..length], &mut 0) {
            Some(value) => value,
            None => parse_redis_value(&rest[..length]).map_err(|_| Malformed)?,
        };
        Ok(Some(match value {
            Value::Attribute { data, .. } => *data,
            value => value,
        }))
    }
}

/// Finds the end of a frame, and goes on where it stopped when there are more bytes.
#[derive(Default)]
struct Scan {
    /// Where the next element begins.
    at: usize,
    /// How many elements each open aggregate still lacks, the innermost last.
    open: Vec<usize>,
}

impl Scan {
    /// The length of the first frame, if these bytes have the whole of it. They are the same as before,
    /// or more, until it was found.
    fn frame(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        loop {
            let Some(line) = line(bytes, self.at)? else { return Ok(None) };
            let mut children = 0;
            self.at = match line.kind {
                b'$' | b'!' | b'=' => match line.length()? {
                    None => line.end,
                    Some(length) => {
                        let end = line.end + length + 2;
                        if bytes.len() < end {
                            return Ok(None);
                        }
                        if bytes[end - 2..end] != *b"\r\n" {
                            return Err(Malformed);
                        }
                        end
                    }
                },
                kind => {
                    if let b'*' | b'~' | b'>' | b'%' | b'|' = kind {
                        let length = line.length()?.unwrap_or(0);
                        children = match kind {
                            b'%' => 2 * length,
                            // Names and values, and then what they are attributes of.
                            b'|' => 2 * length + 1,
                            _ => length,
                        };
                    }
                    line.end
                }
            };
            if self.at > FRAME_BYTES_MAX {
                return Err(Malformed);
            }
            if children > 0 {
                if self.open.len() == DEPTH_MAX {
                    return Err(Malformed);
                }
                self.open.push(children);
            } else if self.close() {
                return Ok(Some(std::mem::take(&mut self.at)));
            }
        }
    }

    /// One element is whole, and so may be those of which it is the last. Is the frame?
    fn close(&mut self) -> bool {
        while let Some(lacking) = self.open.last_mut() {
            *lacking -= 1;
            if *lacking > 0 {
                return false;
            }
            self.open.pop();
        }
        true
    }
}

/// The first line of an element.
struct FrameHead<'a> {
    kind: u8,
    text: &'a [u8],
    /// Where the next one begins.
    end: usize,
}

fn line(bytes: &[u8], at: usize) -> Result<Option<FrameHead<'_>>, Malformed> {
    let Some((kind, rest)) = bytes.get(at..).and_then(<[u8]>::split_first) else {
        return Ok(None);
    };
    if !b"+-:$*_#,(!=%~>|".contains(kind) {
        return Err(Malformed);
    }
    let length = rest.windows(2).take(LINE_BYTES_MAX).position(|pair| pair == b"\r\n");
    match length {
        Some(length) => {
            Ok(Some(FrameHead { kind: *kind, text: &rest[..length], end: at + 1 + length + 2 }))
        }
        None if rest.len() > LINE_BYTES_MAX => Err(Malformed),
        None => Ok(None),
    }
}

impl FrameHead<'_> {
    /// Of what follows. `None` is the null that RESP2 has for some kinds.
    fn length(&self) -> Result<Option<usize>, Malformed> {
        if self.text == b"-1" && matches!(self.kind, b'$' | b'*' | b'~') {
            return Ok(None);
        }
        if self.text.is_empty() || self.text.len() > 10 {
            return Err(Malformed);
        }
        let length = self.text.iter().try_fold(0, |sum, digit| match digit {
            b'0'..=b'9' => Ok(sum * 10 + usize::from(digit - b'0')),
            _ => Err(Malformed),
        })?;
        if length > FRAME_BYTES_MAX { Err(Malformed) } else { Ok(Some(length)) }
    }
}

/// Reads what scripts, the module and wake-ups are made of, from a frame that is whole. `None` if there
/// is anything else in it: the crate has a parser for all, which takes several times as long.
fn quick(frame: &[u8], at: &mut usize) -> Option<Value> {
    let line = line(frame, *at).ok()??;
    *at = line.end;
    match line.kind {
        b'$' => {
            let Some(length) = line.length().ok()? else { return Some(Value::Nil) };
            let bytes = frame[*at..*at + length].to_vec();
            *at += length + 2;
            Some(Value::BulkString(bytes))
        }
        b':' => Some(Value::Int(str::from_utf8(line.text).ok()?.parse().ok()?)),
        b'+' if line.text == b"OK" => Some(Value::Okay),
        b'+' => Some(Value::SimpleString(str::from_utf8(line.text).ok()?.to_owned())),
        b'_' if line.text.is_empty() => Some(Value::Nil),
        b'*' => {
            let Some(length) = line.length().ok()? else { return Some(Value::Nil) };
            let values = (0..length).map(|_| quick(frame, at));
            Some(Value::Array(values.collect::<Option<_>>()?))
        }
        b'>' if line.text == b"3" => {
            let Value::BulkString(kind) = quick(frame, at)? else { return None };
            if kind != b"message" {
                return None;
            }
            let data = vec![quick(frame, at)?, quick(frame, at)?];
            Some(Value::Push { kind: PushKind::Message, data })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use taketurns_servers::fuzz;

    use super::*;

    /// One of every kind, and some within others.
    const GENUINE: [&[u8]; 31] = [
        b"+OK\r\n",
        b"+\r\n",
        b"+two words\r\n",
        b"-ERR no\r\n",
        b"-NOSCRIPT No matching script.\r\n",
        b":0\r\n",
        b":-42\r\n",
        b"$0\r\n\r\n",
        b"$5\r\na\r\nb\n\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*3\r\n:1\r\n$2\r\nab\r\n*2\r\n+x\r\n$-1\r\n",
        b"_\r\n",
        b"#t\r\n",
        b"#f\r\n",
        b",3.25\r\n",
        b",-inf\r\n",
        b"(3492890328409238509324850943850943825024385\r\n",
        b"!7\r\nERR bad\r\n",
        b"=7\r\ntxt:a\r\n\r\n",
        b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n",
        b"%0\r\n",
        b"~2\r\n:1\r\n:2\r\n",
        b"~0\r\n",
        b"|1\r\n+ttl\r\n:3600\r\n*1\r\n:7\r\n",
        b"*2\r\n|1\r\n+a\r\n:1\r\n:7\r\n:8\r\n",
        b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n",
        b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
        b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n",
        b"*2\r\n*2\r\n*1\r\n:1\r\n:2\r\n$1\r\n*\r\n",
    ];

    /// What comes of these bytes, in reads that end where it is said.
    fn read(bytes: &[u8], ends: impl IntoIterator<Item = usize>) -> Result<Vec<Value>, Malformed> {
        let (mut frames, mut values, mut from) = (Frames::default(), Vec::new(), 0);
        for to in ends.into_iter().chain([bytes.len()]) {
            frames.room().extend_from_slice(&bytes[from..to]);
            while let Some(value) = frames.next()? {
                values.push(value);
            }
            from = to;
        }
        Ok(values)
    }

    fn by_the_crate(bytes: &[u8]) -> Value {
        match parse_redis_value(bytes).expect("a frame") {
            Value::Attribute { data, .. } => *data,
            value => value,
        }
    }

    #[test]
    fn every_kind_is_read_as_the_crate_reads_it_wherever_it_is_split() {
        for frame in GENUINE {
            let wanted = vec![by_the_crate(frame)];
            let shown = frame.escape_ascii();
            for end in 0..frame.len() {
                assert_eq!(read(&frame[..end], []), Ok(vec![]), "{shown}: {end} bytes");
                assert_eq!(read(frame, [end]), Ok(wanted.clone()), "{shown}, split at {end}");
            }
            assert_eq!(read(frame, 0..frame.len()), Ok(wanted), "{shown}, byte by byte");
        }
    }

    #[test]
    fn frames_are_told_apart_wherever_reads_end() {
        let bytes = GENUINE.concat();
        let wanted: Vec<_> = GENUINE.iter().map(|frame| by_the_crate(frame)).collect();
        assert_eq!(read(&bytes, []), Ok(wanted.clone()));
        for step in [1, 2, 3, 7, 64] {
            assert_eq!(read(&bytes, (0..bytes.len()).step_by(step)), Ok(wanted.clone()), "{step}");
        }
    }

    #[test]
    fn what_no_server_says_is_told_at_once() {
        let deep = "*1\r\n".repeat(DEPTH_MAX + 1);
        let long = format!("+{}", "x".repeat(LINE_BYTES_MAX + 1));
        let garbled: [&[u8]; 14] = [
            b"H",
            b"\r\n",
            b"$x\r\n",
            b"$-2\r\n",
            b"$\r\n",
            b"$1\r\nabc",
            b"*1\r\n?",
            b"$536870913\r\n",
            b"*99999999999\r\n",
            b"%-1\r\n",
            b"#maybe\r\n",
            b":12x\r\n",
            deep.as_bytes(),
            long.as_bytes(),
        ];
        for bytes in garbled {
            let shown = bytes[..bytes.len().min(40)].escape_ascii();
            assert_eq!(read(bytes, []), Err(Malformed), "{shown}");
        }
    }

    #[test]
    fn a_size_alone_takes_no_room() {
        for bytes in [&b"$536870912\r\n"[..], b"*536870912\r\n", b"%9\r\n*536870912\r\n:1\r\n"] {
            let mut frames = Frames::default();
            frames.room().extend_from_slice(bytes);
            assert_eq!(frames.next(), Ok(None));
            assert!(frames.room().capacity() < 4 * ROOM);
        }
    }

    #[test]
    fn damaged_frames_are_read_as_the_crate_reads_them_or_not_at_all() {
        fuzz::rounds("frames", 20_000, |dice| {
            let bytes = dice.damaged(&GENUINE);
            let mut frames = Frames::default();
            let split = dice.below(bytes.len() + 1);
            frames.room().extend_from_slice(&bytes[..split]);
            let first = frames.next();
            let Ok(first) = first else { return false };
            let first = match first {
                Some(value) => Some(value),
                None => {
                    frames.room().extend_from_slice(&bytes[split..]);
                    frames.next().ok().flatten()
                }
            };
            let Some(value) = first else { return false };
            let whole = by_the_crate(&bytes);
            assert!(value == whole || matches!(value, Value::Double(nan) if nan.is_nan()));
            true
        });
    }
}
