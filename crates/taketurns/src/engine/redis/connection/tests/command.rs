//! Commands as they are written.

use redis::cmd;

use crate::engine::redis::connection::{CommandBuffer, WriteCommand};

#[test]
fn a_command_is_written_as_the_redis_crate_writes_it() {
    for number in [0, 9, 10, 99, 100, 12_345] {
        let mut ours = CommandBuffer::default();
        ours.begin(3);
        ours.word(b"SET");
        ours.word(b"a\r\nkey");
        ours.number(number);
        let mut theirs = CommandBuffer::default();
        cmd("SET").arg("a\r\nkey").arg(number).write(&mut theirs);
        assert_eq!(ours.bytes, theirs.bytes);
    }
}

#[test]
fn arguments_are_one_word_with_tabs_or_one_word_each() {
    let mut lent = CommandBuffer::default();
    for words in [&["one", "", "three"][..], &[""], &[]] {
        // With what the command before left in it.
        let mut args = lent.take_args();
        words.iter().for_each(|word| args.push(word.as_bytes()));
        assert_eq!(args.count(), words.len());
        let mut out = CommandBuffer::default();
        out.begin(1);
        out.joined(&args);
        lent.keep_args(args);
        let mut theirs = CommandBuffer::default();
        cmd(&words.join("\t")).write(&mut theirs);
        assert_eq!(out.bytes, theirs.bytes);
    }
}
