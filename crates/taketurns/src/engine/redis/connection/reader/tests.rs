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
