//! What the server says about itself and about a command, as plain data.

use std::ops::Deref;

use redis_module::raw as rm;

use crate::commands::ModuleCommand;

/// What the server is and does at the moment.
#[derive(Clone, Copy)]
pub(crate) struct Flags(pub(crate) u32);

impl Flags {
    fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn is_replica(self) -> bool {
        self.has(rm::REDISMODULE_CTX_FLAGS_SLAVE)
    }

    /// Does the command come from the server's own log or from its master?
    pub(crate) fn is_repeated(self) -> bool {
        self.has(rm::REDISMODULE_CTX_FLAGS_REPLICATED | rm::REDISMODULE_CTX_FLAGS_LOADING)
    }

    /// Does the server log what it does?
    pub(crate) fn has_log(self) -> bool {
        self.has(rm::REDISMODULE_CTX_FLAGS_AOF)
    }

    pub(crate) fn is_out_of_memory(self) -> bool {
        self.has(rm::REDISMODULE_CTX_FLAGS_OOM)
    }

    pub(crate) fn is_script(self) -> bool {
        self.has(rm::REDISMODULE_CTX_FLAGS_LUA)
    }

    pub(crate) fn may_block(self) -> bool {
        !self.has(
            rm::REDISMODULE_CTX_FLAGS_LUA
                | rm::REDISMODULE_CTX_FLAGS_MULTI
                | rm::REDISMODULE_CTX_FLAGS_DENY_BLOCKING,
        )
    }
}

/// As many arguments as most commands have.
const FEW: usize = 12;

/// The arguments of a command.
pub(crate) enum CommandWords<'a> {
    Few([&'a [u8]; FEW], usize),
    Many(Vec<&'a [u8]>),
}

impl<'a> FromIterator<&'a [u8]> for CommandWords<'a> {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(words: I) -> Self {
        let (mut few, mut len) = ([&[][..]; FEW], 0);
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            if len == FEW {
                return CommandWords::Many(few.into_iter().chain([word]).chain(words).collect());
            }
            few[len] = word;
            len += 1;
        }
        CommandWords::Few(few, len)
    }
}

impl<'a> Deref for CommandWords<'a> {
    type Target = [&'a [u8]];

    fn deref(&self) -> &[&'a [u8]] {
        match self {
            CommandWords::Few(words, len) => &words[..*len],
            CommandWords::Many(words) => words,
        }
    }
}

impl ModuleCommand {
    pub(crate) fn key_flags(&self) -> u32 {
        if self.writes() {
            rm::REDISMODULE_CMD_KEY_RW
                | rm::REDISMODULE_CMD_KEY_ACCESS
                | rm::REDISMODULE_CMD_KEY_UPDATE
        } else {
            rm::REDISMODULE_CMD_KEY_RO | rm::REDISMODULE_CMD_KEY_ACCESS
        }
    }
}
