//! What is sent to a server: commands, written straight into the bytes of its connection.

use redis::Cmd;
use taketurns_core::wire::{StepArgs, push_number};

/// Something to be sent: one command.
pub(crate) trait WriteCommand: Sync {
    fn write(&self, out: &mut CommandBuffer);
}

impl<W: WriteCommand + ?Sized> WriteCommand for &W {
    fn write(&self, out: &mut CommandBuffer) {
        (**self).write(out);
    }
}

impl WriteCommand for Cmd {
    fn write(&self, out: &mut CommandBuffer) {
        self.write_packed_command(&mut out.bytes);
    }
}

/// Commands one behind the other, as they go out.
#[derive(Default)]
pub(crate) struct CommandBuffer {
    pub(super) bytes: Vec<u8>,
    /// Kept for its room alone.
    args: StepArgs,
}

impl CommandBuffer {
    /// Begins a command that has this number of words, its name included.
    pub(crate) fn begin(&mut self, words: usize) {
        self.head(b'*', words);
    }

    /// The next word.
    pub(crate) fn word(&mut self, word: &[u8]) {
        self.head(b'$', word.len());
        self.bytes.extend_from_slice(word);
        self.end();
    }

    /// The next word, a number.
    pub(crate) fn number(&mut self, number: usize) {
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        self.head(b'$', digits);
        push_number(&mut self.bytes, number as u64);
        self.end();
    }

    /// The next word: all arguments, with a tab between two.
    pub(crate) fn joined(&mut self, args: &StepArgs) {
        self.head(b'$', args.joined_len());
        self.bytes.extend(args.joined(b'\t'));
        self.end();
    }

    /// With arguments that are encoded for this command alone.
    pub(crate) fn with_args(
        &mut self,
        encode: impl FnOnce(&mut StepArgs),
        write: impl FnOnce(&mut Self, &StepArgs),
    ) {
        let mut args = std::mem::take(&mut self.args);
        args.clear();
        encode(&mut args);
        write(self, &args);
        self.args = args;
    }

    fn head(&mut self, kind: u8, number: usize) {
        self.bytes.push(kind);
        push_number(&mut self.bytes, number as u64);
        self.end();
    }

    fn end(&mut self) {
        self.bytes.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use redis::cmd;

    use super::*;

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
        for words in [&["one", "", "three"][..], &[""], &[]] {
            let mut out = CommandBuffer::default();
            let encode =
                |args: &mut StepArgs| words.iter().for_each(|word| args.push(word.as_bytes()));
            out.with_args(encode, |out, args| {
                assert_eq!(args.count(), words.len());
                out.begin(1);
                out.joined(args);
            });
            let mut theirs = CommandBuffer::default();
            cmd(&words.join("\t")).write(&mut theirs);
            assert_eq!(out.bytes, theirs.bytes);
        }
    }
}
