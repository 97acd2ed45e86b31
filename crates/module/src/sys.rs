//! The server's module interface, made safe. All `unsafe` of the module is here.
//!
//! What holds throughout, and is what the blocks below rely on:
//!
//! - The server fills in the `RedisModule_…` pointers before anything else runs (`call!`), and calls
//!   us on its main thread alone, one call at a time. The one exception is [`on_free`].
//! - Pointers that it hands us are good until we return; what wraps one (`Ctx`, `Args`, `OpenKey`) is
//!   neither kept nor sent elsewhere.
//! - A value under a key of our type is a `Record` that [`OpenKey::put`], [`on_rdb_load`] or [`on_copy`]
//!   made with `Box::into_raw`, and only [`on_free`] turns it back.
//! - A panic never crosses into the server ([`guarded`]).

use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use redis_module::raw as rm;

use crate::blocked::{self, BlockedReply};
use crate::commands::{self, COMMANDS, ModuleCommand};
use crate::entry::Entry;
use crate::facts::{CommandWords, Flags};
use crate::record::{self, Record};
use crate::{chores, info};

/// The server's allocator, so that the memory of locks is counted with all else.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: redis_module::alloc::RedisAlloc = redis_module::alloc::RedisAlloc;

static TYPE: AtomicPtr<rm::RedisModuleType> = AtomicPtr::new(null_mut());
/// A context that belongs to no call and stays valid.
static DETACHED: AtomicPtr<rm::RedisModuleCtx> = AtomicPtr::new(null_mut());

/// Was anything of the reply to the current command written? Only the main thread, which runs one command at a time,
/// writes and reads it.
static HAS_ANSWERED: AtomicBool = AtomicBool::new(false);

/// Calls a function of the server.
macro_rules! call {
    ($function:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: the pointer was filled in at load and never changes; the arguments are as the
        // server's documentation wants them, and good for the time of the call.
        unsafe { rm::$function.expect(stringify!($function))($($arg),*) }
    };
}

/// Runs our code. Logs a panic and returns `None`.
fn guarded<T>(what: impl FnOnce() -> T) -> Option<T> {
    let caught = catch_unwind(AssertUnwindSafe(what));
    if caught.is_err() {
        Ctx { raw: null_mut() }.log(c"warning", "a bug in the module: it gave up on one call");
    }
    caught.ok()
}

/// The context of a call.
#[derive(Clone, Copy)]
pub(crate) struct Ctx {
    raw: *mut rm::RedisModuleCtx,
}

/// A string of the server.
pub(crate) struct ModuleString<'a> {
    raw: *mut rm::RedisModuleString,
    /// We must free it.
    is_ours: bool,
    _from: PhantomData<&'a ()>,
}

impl ModuleString<'static> {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let raw = call!(RedisModule_CreateString(null_mut(), bytes.as_ptr().cast(), bytes.len()));
        Self { raw, is_ours: true, _from: PhantomData }
    }
}

impl ModuleString<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        let mut len = 0;
        let ptr = call!(RedisModule_StringPtrLen(self.raw, &raw mut len));
        // SAFETY: the server's text has that many bytes, and stays while `self` does.
        unsafe { slice(ptr.cast(), len) }
    }
}

impl Drop for ModuleString<'_> {
    fn drop(&mut self) {
        if self.is_ours {
            call!(RedisModule_FreeString(null_mut(), self.raw));
        }
    }
}

/// # Safety
/// If `ptr` is not null, `len` bytes are there for as long as `'a`.
unsafe fn slice<'a>(ptr: *const u8, len: usize) -> &'a [u8] {
    if ptr.is_null() {
        return &[];
    }
    // SAFETY: as promised by the caller.
    unsafe { std::slice::from_raw_parts(ptr, len) }
}

/// The arguments of a command, without the command's name.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a>(&'a [*mut rm::RedisModuleString]);

impl<'a> Args<'a> {
    pub(crate) fn len(self) -> usize {
        self.0.len()
    }

    /// Returns the key, or another argument, as a string of the server.
    pub(crate) fn word(self, at: usize) -> ModuleString<'a> {
        ModuleString { raw: self.0[at], is_ours: false, _from: PhantomData }
    }

    pub(crate) fn get(self, at: usize) -> &'a [u8] {
        let mut len = 0;
        let ptr = call!(RedisModule_StringPtrLen(self.0[at], &raw mut len));
        // SAFETY: the words of a command stay until it returns.
        unsafe { slice(ptr.cast(), len) }
    }

    /// Iterates over the arguments from this one on.
    pub(crate) fn from(self, at: usize) -> impl Iterator<Item = &'a [u8]> {
        (at..self.len()).map(move |at| self.get(at))
    }

    /// Collects the arguments from this one on.
    pub(crate) fn all_from(self, at: usize) -> CommandWords<'a> {
        self.from(at).collect()
    }
}

/// The content of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyContent {
    Nothing,
    Lock,
    Hash,
    Text,
    Other,
}

/// An open key. No key is opened twice at a time, so that a record has one reference.
pub(crate) struct OpenKey<'c> {
    raw: *mut rm::RedisModuleKey,
    holds: KeyContent,
    /// The record, if the key holds one.
    record: *mut Record,
    _ctx: PhantomData<&'c Ctx>,
}

impl<'c> OpenKey<'c> {
    fn new(ctx: &'c Ctx, name: &ModuleString<'_>, mode: u32) -> Self {
        let raw = call!(RedisModule_OpenKey(ctx.raw, name.raw, mode as c_int)).cast();
        let is_ours = || call!(RedisModule_ModuleTypeGetType(raw)) == TYPE.load(Ordering::Relaxed);
        let (mut holds, mut record) = (KeyContent::Other, null_mut());
        match call!(RedisModule_KeyType(raw)) as isize {
            rm::REDISMODULE_KEYTYPE_EMPTY => holds = KeyContent::Nothing,
            rm::REDISMODULE_KEYTYPE_HASH => holds = KeyContent::Hash,
            rm::REDISMODULE_KEYTYPE_STRING => holds = KeyContent::Text,
            rm::REDISMODULE_KEYTYPE_MODULE if is_ours() => {
                holds = KeyContent::Lock;
                record = call!(RedisModule_ModuleTypeGetValue(raw)).cast();
            }
            _ => {}
        }
        Self { raw, holds, record, _ctx: PhantomData }
    }
}

impl OpenKey<'_> {
    pub(crate) fn holds(&self) -> KeyContent {
        self.holds
    }

    pub(crate) fn record(&mut self) -> Option<&mut Record> {
        // SAFETY: null, or a value of our type, to which this is the only reference.
        unsafe { self.record.as_mut() }
    }

    /// Puts a record under this key, in place of anything else.
    pub(crate) fn put(&mut self, record: Box<Record>) {
        self.record = Box::into_raw(record);
        self.holds = KeyContent::Lock;
        let of_type = TYPE.load(Ordering::Relaxed);
        call!(RedisModule_ModuleTypeSetValue(self.raw, of_type, self.record.cast()));
    }

    pub(crate) fn delete(&mut self) {
        (self.holds, self.record) = (KeyContent::Nothing, null_mut());
        call!(RedisModule_DeleteKey(self.raw));
    }

    /// Sets or removes the key's expiry.
    pub(crate) fn end_at_ms(&mut self, at_ms: Option<u64>) {
        let at_ms = at_ms.map_or(i64::from(rm::REDISMODULE_NO_EXPIRE), |at_ms| at_ms as i64);
        call!(RedisModule_SetAbsExpire(self.raw, at_ms));
    }

    /// Does the key hold this string?
    pub(crate) fn is_text(&self, text: &[u8]) -> bool {
        if self.holds != KeyContent::Text {
            return false;
        }
        let mut len = 0;
        let read = rm::REDISMODULE_READ as c_int;
        let ptr = call!(RedisModule_StringDMA(self.raw, &raw mut len, read));
        // SAFETY: good while the key is open and unchanged.
        unsafe { slice(ptr.cast(), len) == text }
    }
}

impl Drop for OpenKey<'_> {
    fn drop(&mut self) {
        call!(RedisModule_CloseKey(self.raw));
    }
}

/// A client that waits for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockedClient(usize);

impl BlockedClient {
    fn raw(self) -> *mut rm::RedisModuleBlockedClient {
        self.0 as *mut _
    }

    /// Makes the server send the reply. To be called once.
    pub(crate) fn unblock(self, outcome: Option<BlockedReply>) {
        let data = outcome.map_or(null_mut(), |outcome| Box::into_raw(Box::new(outcome)));
        call!(RedisModule_UnblockClient(self.raw(), data.cast()));
    }
}

/// The reply to one of the server's own commands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Nothing,
    Text(Vec<u8>),
    Array(Vec<Value>),
}

impl Ctx {
    pub(crate) fn flags(&self) -> Flags {
        Flags(call!(RedisModule_GetContextFlags(self.raw)) as u32)
    }

    /// Does the server wait for its replicas, so that the module must not write by itself?
    pub(crate) fn must_keep_quiet(&self) -> bool {
        call!(RedisModule_AvoidReplicaTraffic()) != 0
    }

    pub(crate) fn db(&self) -> i32 {
        call!(RedisModule_GetSelectedDb(self.raw))
    }

    pub(crate) fn select(&self, db: i32) {
        call!(RedisModule_SelectDb(self.raw, db));
    }

    pub(crate) fn client(&self) -> u64 {
        call!(RedisModule_GetClientId(self.raw))
    }

    pub(crate) fn open<'c>(&'c self, name: &ModuleString<'_>) -> OpenKey<'c> {
        OpenKey::new(self, name, rm::REDISMODULE_READ | rm::REDISMODULE_WRITE)
    }

    /// Opens a key to look at it only: nothing is deleted, even if it has expired.
    pub(crate) fn look<'c>(&'c self, name: &ModuleString<'_>) -> OpenKey<'c> {
        OpenKey::new(self, name, rm::REDISMODULE_READ)
    }

    pub(crate) fn reply_ok(&self) {
        HAS_ANSWERED.store(true, Ordering::Relaxed);
        call!(RedisModule_ReplyWithSimpleString(self.raw, c"OK".as_ptr()));
    }

    pub(crate) fn reply_nil(&self) {
        HAS_ANSWERED.store(true, Ordering::Relaxed);
        call!(RedisModule_ReplyWithNull(self.raw));
    }

    pub(crate) fn reply_int(&self, number: u64) {
        HAS_ANSWERED.store(true, Ordering::Relaxed);
        call!(RedisModule_ReplyWithLongLong(self.raw, number as c_longlong));
    }

    pub(crate) fn reply_text(&self, text: impl AsRef<[u8]>) {
        HAS_ANSWERED.store(true, Ordering::Relaxed);
        let text = text.as_ref();
        let (ptr, len) = (text.as_ptr().cast(), text.len());
        call!(RedisModule_ReplyWithStringBuffer(self.raw, ptr, len));
    }

    pub(crate) fn reply_array(&self, len: usize) {
        HAS_ANSWERED.store(true, Ordering::Relaxed);
        call!(RedisModule_ReplyWithArray(self.raw, len as _));
    }

    pub(crate) fn reply_map(&self, len: usize) {
        HAS_ANSWERED.store(true, Ordering::Relaxed);
        call!(RedisModule_ReplyWithMap(self.raw, len as _));
    }

    pub(crate) fn reply_error(&self, text: &str) {
        HAS_ANSWERED.store(true, Ordering::Relaxed);
        let text = c_string(text);
        call!(RedisModule_ReplyWithError(self.raw, text.as_ptr()));
    }

    /// Closes the sender's connection: a second reply to one command would be taken for the reply to the next.
    fn close_client(&self) {
        let id = call!(RedisModule_GetClientId(self.raw));
        call!(RedisModule_DeauthenticateAndCloseClient(self.raw, id));
    }

    /// Passes an entry to the replicas and the log.
    pub(crate) fn replicate(&self, key: &ModuleString<'_>, entry: &[u8]) {
        let (ptr, len) = (entry.as_ptr().cast::<c_char>(), entry.len());
        let (name, format) = (commands::APPLY.as_ptr(), c"sb".as_ptr());
        call!(RedisModule_Replicate(self.raw, name, format, key.raw, ptr, len));
    }

    pub(crate) fn publish(&self, channel: &str, message: &str) {
        let (channel, message) =
            (ModuleString::new(channel.as_bytes()), ModuleString::new(message.as_bytes()));
        call!(RedisModule_PublishMessage(self.raw, channel.raw, message.raw));
    }

    /// Keeps an argument out of the slow log and of MONITOR.
    pub(crate) fn redact(&self, arg: usize) {
        call!(RedisModule_RedactClientCommandArgument(self.raw, arg as c_int + 1));
    }

    /// Blocks the client until it gets its reply, without a timeout. The server offers one, but Redis 7.0 never answers
    /// a client that times out at the moment it is unblocked.
    pub(crate) fn block(&self) -> BlockedClient {
        let raw = call!(RedisModule_BlockClient(
            self.raw,
            Some(on_reply),
            Some(on_timeout),
            Some(on_free_outcome),
            0,
        ));
        call!(RedisModule_SetDisconnectCallback(raw, Some(on_blocked_gone)));
        BlockedClient(raw as usize)
    }

    /// Starts a timer that calls [`chores::run`] after `after_ms`.
    pub(crate) fn start_timer(&self, after_ms: u64) -> u64 {
        call!(RedisModule_CreateTimer(self.raw, after_ms as i64, Some(on_timer), null_mut()))
    }

    pub(crate) fn stop_timer(&self, id: u64) {
        call!(RedisModule_StopTimer(self.raw, id, null_mut()));
    }

    /// May the sender of this command run that one?
    pub(crate) fn may_run(&self, words: &[&[u8]]) -> bool {
        let words: Vec<ModuleString<'_>> =
            words.iter().map(|word| ModuleString::new(word)).collect();
        let mut raws: Vec<_> = words.iter().map(|word| word.raw).collect();
        let (ptr, len) = (raws.as_mut_ptr(), raws.len() as c_int);
        self.as_user(|user| call!(RedisModule_ACLCheckCommandPermissions(user, ptr, len)))
    }

    /// May the sender of this command read that key?
    pub(crate) fn may_read(&self, key: &ModuleString<'_>) -> bool {
        let access = rm::REDISMODULE_CMD_KEY_ACCESS as c_int;
        self.as_user(|user| call!(RedisModule_ACLCheckKeyPermissions(user, key.raw, access)))
    }

    /// May the sender of this command publish there?
    pub(crate) fn may_publish(&self, channel: &str) -> bool {
        let channel = ModuleString::new(channel.as_bytes());
        self.as_user(|user| call!(RedisModule_ACLCheckChannelPermissions(user, channel.raw, 0)))
    }

    fn as_user(&self, check: impl FnOnce(*mut rm::RedisModuleUser) -> c_int) -> bool {
        let raw = call!(RedisModule_GetCurrentUserName(self.raw));
        if raw.is_null() {
            return false;
        }
        let name = ModuleString { raw, is_ours: true, _from: PhantomData };
        let user = call!(RedisModule_GetModuleUserFromUserName(name.raw));
        if user.is_null() {
            return false;
        }
        let is_allowed = check(user) == rm::REDISMODULE_OK as c_int;
        call!(RedisModule_FreeModuleUser(user));
        is_allowed
    }

    /// Runs one of the server's own commands.
    pub(crate) fn run(&self, command: &CStr, words: &[&[u8]]) -> Value {
        let words: Vec<ModuleString<'_>> =
            words.iter().map(|word| ModuleString::new(word)).collect();
        let mut raws: Vec<_> = words.iter().map(|word| word.raw).collect();
        let (name, format) = (command.as_ptr(), c"v".as_ptr());
        let reply = call!(RedisModule_Call(self.raw, name, format, raws.as_mut_ptr(), raws.len()));
        if reply.is_null() {
            return Value::Nothing;
        }
        let value = read_reply(reply);
        call!(RedisModule_FreeCallReply(reply));
        value
    }

    /// Does the server take writes to this key at present, from anybody? Not if too few replicas follow
    /// it, if its disk fails, or if it is cut off from its Cluster.
    pub(crate) fn takes_writes(&self, key: &ModuleString<'_>) -> bool {
        // The server refuses this write like any other. Otherwise it changes nothing: GT never sets an earlier expiry.
        let (name, format) = (c"PEXPIREAT".as_ptr(), c"Sscc".as_ptr());
        let (then, later) = (c"1".as_ptr(), c"GT".as_ptr());
        let reply = call!(RedisModule_Call(self.raw, name, format, key.raw, then, later));
        if reply.is_null() {
            // An administrator has renamed or removed this command: nothing is known.
            return std::io::Error::last_os_error().kind() == std::io::ErrorKind::NotFound;
        }
        call!(RedisModule_FreeCallReply(reply));
        true
    }

    pub(crate) fn log(&self, level: &CStr, text: &str) {
        let text = c_string(text);
        call!(RedisModule_Log(self.raw, level.as_ptr(), c"%s".as_ptr(), text.as_ptr()));
    }

    /// Returns a field of INFO.
    pub(crate) fn server_info(&self, section: &str, field: &str) -> String {
        let (section, field) = (c_string(section), c_string(field));
        let info = call!(RedisModule_GetServerInfo(self.raw, section.as_ptr()));
        let value = call!(RedisModule_ServerInfoGetFieldC(info, field.as_ptr()));
        // SAFETY: a text of the server's, good until the info is given back.
        let value = unsafe { (!value.is_null()).then(|| CStr::from_ptr(value)) };
        let value = value.map_or(String::new(), |value| value.to_string_lossy().into_owned());
        call!(RedisModule_FreeServerInfo(self.raw, info));
        value
    }
}

fn read_reply(reply: *mut rm::RedisModuleCallReply) -> Value {
    match call!(RedisModule_CallReplyType(reply)) as isize {
        rm::REDISMODULE_REPLY_STRING => {
            let mut len = 0;
            let ptr = call!(RedisModule_CallReplyStringPtr(reply, &raw mut len));
            // SAFETY: good until the reply is given back.
            Value::Text(unsafe { slice(ptr.cast(), len) }.to_vec())
        }
        rm::REDISMODULE_REPLY_ARRAY => {
            let len = call!(RedisModule_CallReplyLength(reply));
            let element = |at| read_reply(call!(RedisModule_CallReplyArrayElement(reply, at)));
            Value::Array((0..len).map(element).collect())
        }
        _ => Value::Nothing,
    }
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace(['\0', '\r', '\n'], " ")).unwrap_or_default()
}

/// Counters for INFO.
pub(crate) struct InfoCtx(*mut rm::RedisModuleInfoCtx);

impl InfoCtx {
    pub(crate) fn number(&self, name: &CStr, number: u64) {
        call!(RedisModule_InfoAddFieldULongLong(self.0, name.as_ptr(), number));
    }

    pub(crate) fn text(&self, name: &CStr, text: &str) {
        let text = c_string(text);
        call!(RedisModule_InfoAddFieldCString(self.0, name.as_ptr(), text.as_ptr()));
    }
}

// What the server calls.

/// Loads the module: the one name that the server looks for.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn RedisModule_OnLoad(
    raw: *mut rm::RedisModuleCtx,
    argv: *mut *mut rm::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's own context, and a name that stays. Nothing allocates before this.
    let begun = unsafe {
        let version = rm::REDISMODULE_APIVER_1 as c_int;
        rm::Export_RedisModule_Init(raw, c"fencelock".as_ptr(), record::VERSION, version)
    };
    if begun != rm::REDISMODULE_OK as c_int {
        return rm::REDISMODULE_ERR as c_int;
    }
    let ctx = Ctx { raw };
    let loaded = guarded(|| load(&ctx, &Args(args(argv, argc, 0)).all_from(0)));
    match loaded {
        Some(Ok(())) => rm::REDISMODULE_OK as c_int,
        Some(Err(why)) => {
            ctx.log(c"warning", &format!("not loaded: {why}"));
            rm::REDISMODULE_ERR as c_int
        }
        None => rm::REDISMODULE_ERR as c_int,
    }
}

fn load(ctx: &Ctx, args: &[&[u8]]) -> Result<(), String> {
    chores::begin(args, &ctx.server_info("server", "run_id"))?;
    let detached = call!(RedisModule_GetDetachedThreadSafeContext(ctx.raw));
    DETACHED.store(detached, Ordering::Relaxed);
    create_type(ctx)?;
    for (at, command) in COMMANDS.iter().enumerate() {
        create_command(ctx, command, HANDLERS[at])?;
    }
    call!(RedisModule_SetModuleOptions(ctx.raw, rm::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS as c_int));
    call!(RedisModule_RegisterInfoFunc(ctx.raw, Some(on_info)));
    let generic = rm::REDISMODULE_NOTIFY_GENERIC;
    call!(RedisModule_SubscribeToKeyspaceEvents(ctx.raw, generic, Some(on_key_event)));
    for id in [
        rm::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
        rm::REDISMODULE_EVENT_FLUSHDB,
        rm::REDISMODULE_EVENT_LOADING,
        rm::REDISMODULE_EVENT_CLIENT_CHANGE,
        rm::REDISMODULE_EVENT_CRON_LOOP,
        rm::REDISMODULE_EVENT_SWAPDB,
        rm::REDISMODULE_EVENT_FORK_CHILD,
    ] {
        let event = rm::RedisModuleEvent { id, dataver: 1 };
        let heard = call!(RedisModule_SubscribeToServerEvent(ctx.raw, event, Some(on_event)));
        if heard != rm::REDISMODULE_OK as c_int {
            return Err(format!("the server has no event {id}"));
        }
    }
    chores::loaded(ctx);
    Ok(())
}

fn create_type(ctx: &Ctx) -> Result<(), String> {
    // SAFETY: plain numbers and function pointers, for which zero is valid.
    let mut methods: rm::RedisModuleTypeMethods = unsafe { std::mem::zeroed() };
    // The version of 7.0: newer ones have nothing that we need.
    methods.version = 4;
    methods.rdb_load = Some(on_rdb_load);
    methods.rdb_save = Some(on_rdb_save);
    methods.aof_rewrite = Some(on_aof_rewrite);
    methods.digest = Some(on_digest);
    methods.free = Some(on_free);
    methods.mem_usage2 = Some(on_mem_usage);
    methods.unlink2 = Some(on_unlink);
    methods.copy2 = Some(on_copy);
    let (name, version) = (c"fencelock".as_ptr(), record::VERSION);
    let of_type = call!(RedisModule_CreateDataType(ctx.raw, name, version, &raw mut methods));
    if of_type.is_null() {
        return Err("the server did not take the type".into());
    }
    TYPE.store(of_type, Ordering::Relaxed);
    Ok(())
}

fn create_command(
    ctx: &Ctx,
    command: &ModuleCommand,
    run: rm::RedisModuleCmdFunc,
) -> Result<(), String> {
    let (name, flags, key) = (command.name.as_ptr(), command.flags.as_ptr(), command.key);
    let step = c_int::from(key > 0);
    let created = call!(RedisModule_CreateCommand(ctx.raw, name, run, flags, key, key, step));
    let failed = || format!("the server did not take the command {:?}", command.name);
    if created != rm::REDISMODULE_OK as c_int {
        return Err(failed());
    }
    let raw = call!(RedisModule_GetCommand(ctx.raw, name));
    let version = rm::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<rm::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<rm::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<rm::RedisModuleCommandArg>(),
    };
    // SAFETY: plain numbers and pointers, for which zero is valid: the last specification is zero.
    let mut specs: [rm::RedisModuleCommandKeySpec; 2] = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut info: rm::RedisModuleCommandInfo = unsafe { std::mem::zeroed() };
    info.version = &raw const version;
    info.summary = command.summary.as_ptr();
    info.complexity = command.complexity.as_ptr();
    info.since = c"1.0.0".as_ptr();
    info.arity = command.arity;
    if key > 0 {
        specs[0].flags = u64::from(command.key_flags());
        specs[0].begin_search_type =
            rm::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
        specs[0].bs.index.pos = key;
        specs[0].find_keys_type = rm::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
        specs[0].fk.range = rm::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 {
            lastkey: 0,
            keystep: 1,
            limit: 0,
        };
        info.key_specs = specs.as_mut_ptr();
    }
    if call!(RedisModule_SetCommandInfo(raw, &raw const info)) != rm::REDISMODULE_OK as c_int {
        return Err(failed());
    }
    // From 7.2 on. In 7.0 users are given the commands by name.
    // SAFETY: filled in at load, or left empty by a server that has no such function.
    let set_categories = unsafe { rm::RedisModule_SetCommandACLCategories };
    if let Some(set_categories) = set_categories {
        // SAFETY: a command of ours, and a static string.
        unsafe { set_categories(raw, command.categories.as_ptr()) };
    }
    Ok(())
}

fn args<'a>(
    argv: *mut *mut rm::RedisModuleString,
    argc: c_int,
    skip: usize,
) -> &'a [*mut rm::RedisModuleString] {
    if argv.is_null() || argc <= skip as c_int {
        return &[];
    }
    // SAFETY: the server's `argc` arguments stay until we return to it.
    unsafe { &std::slice::from_raw_parts(argv, argc as usize)[skip..] }
}

extern "C" fn on_command<const AT: usize>(
    raw: *mut rm::RedisModuleCtx,
    argv: *mut *mut rm::RedisModuleString,
    argc: c_int,
) -> c_int {
    let ctx = Ctx { raw };
    HAS_ANSWERED.store(false, Ordering::Relaxed);
    let done = guarded(|| commands::run(&COMMANDS[AT], &ctx, Args(args(argv, argc, 1))));
    if done.is_none() {
        match HAS_ANSWERED.load(Ordering::Relaxed) {
            true => ctx.close_client(),
            false => ctx.reply_error("ERR a bug in the module: see the server's log"),
        }
    }
    rm::REDISMODULE_OK as c_int
}

/// One handler for each command.
const HANDLERS: [rm::RedisModuleCmdFunc; COMMANDS.len()] = [
    Some(on_command::<0>),
    Some(on_command::<1>),
    Some(on_command::<2>),
    Some(on_command::<3>),
    Some(on_command::<4>),
    Some(on_command::<5>),
    Some(on_command::<6>),
    Some(on_command::<7>),
    Some(on_command::<8>),
    Some(on_command::<9>),
    Some(on_command::<10>),
    Some(on_command::<11>),
    Some(on_command::<12>),
    Some(on_command::<13>),
    Some(on_command::<14>),
];

fn handle_of(raw: *mut rm::RedisModuleCtx) -> BlockedClient {
    BlockedClient(call!(RedisModule_GetBlockedClientHandle(raw)) as usize)
}

extern "C" fn on_reply(
    raw: *mut rm::RedisModuleCtx,
    _: *mut *mut rm::RedisModuleString,
    _: c_int,
) -> c_int {
    let data: *const BlockedReply = call!(RedisModule_GetBlockedClientPrivateData(raw)).cast();
    // SAFETY: what `BlockedClient::unblock` passed, given back only by `on_free_outcome` after this.
    let outcome = unsafe { data.as_ref() };
    guarded(|| blocked::reply(&Ctx { raw }, handle_of(raw), outcome));
    rm::REDISMODULE_OK as c_int
}

/// Handles that somebody unblocked the client as if it had timed out.
extern "C" fn on_timeout(
    raw: *mut rm::RedisModuleCtx,
    _: *mut *mut rm::RedisModuleString,
    _: c_int,
) -> c_int {
    let ctx = Ctx { raw };
    guarded(|| blocked::left(&ctx, handle_of(raw)));
    ctx.reply_nil();
    rm::REDISMODULE_OK as c_int
}

extern "C" fn on_blocked_gone(
    raw: *mut rm::RedisModuleCtx,
    client: *mut rm::RedisModuleBlockedClient,
) {
    guarded(|| blocked::left(&Ctx { raw }, BlockedClient(client as usize)));
}

extern "C" fn on_free_outcome(_: *mut rm::RedisModuleCtx, data: *mut c_void) {
    if !data.is_null() {
        // SAFETY: what `BlockedClient::unblock` made of a box, given back once.
        drop(unsafe { Box::from_raw(data.cast::<BlockedReply>()) });
    }
}

extern "C" fn on_timer(raw: *mut rm::RedisModuleCtx, _: *mut c_void) {
    guarded(|| chores::run(&Ctx { raw }));
}

extern "C" fn on_info(raw: *mut rm::RedisModuleInfoCtx, _: c_int) {
    call!(RedisModule_InfoAddSection(raw, null::<c_char>()));
    guarded(|| info::show(&InfoCtx(raw)));
}

extern "C" fn on_key_event(
    raw: *mut rm::RedisModuleCtx,
    _: c_int,
    event: *const c_char,
    key: *mut rm::RedisModuleString,
) -> c_int {
    // SAFETY: the server's name of the event, with its end.
    let event = unsafe { CStr::from_ptr(event) };
    // The same record under another key. All other events free the record or load it.
    if [c"rename_to", c"move_to"].contains(&event) {
        let name = ModuleString { raw: key, is_ours: false, _from: PhantomData };
        guarded(|| chores::moved(&Ctx { raw }, &name));
    }
    rm::REDISMODULE_OK as c_int
}

extern "C" fn on_event(
    raw: *mut rm::RedisModuleCtx,
    event: rm::RedisModuleEvent,
    sub: u64,
    data: *mut c_void,
) {
    let ctx = Ctx { raw };
    guarded(|| match (event.id, sub) {
        (rm::REDISMODULE_EVENT_CRON_LOOP, _) => chores::look_at_clock(&ctx),
        (
            rm::REDISMODULE_EVENT_CLIENT_CHANGE,
            rm::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED,
        ) => {
            // SAFETY: that is what comes with this event.
            let client = unsafe { (*data.cast::<rm::RedisModuleClientInfo>()).id };
            chores::closed(&ctx, client);
        }
        (rm::REDISMODULE_EVENT_FLUSHDB, rm::REDISMODULE_SUBEVENT_FLUSHDB_END) => {
            // SAFETY: that is what comes with this event.
            let db = unsafe { (*data.cast::<rm::RedisModuleFlushInfo>()).dbnum };
            chores::flushed(&ctx, (db >= 0).then_some(db));
        }
        (rm::REDISMODULE_EVENT_SWAPDB, _) => {
            // SAFETY: that is what comes with this event.
            let swap = unsafe { &*data.cast::<rm::RedisModuleSwapDbInfo>() };
            chores::swapped(swap.dbnum_first, swap.dbnum_second);
        }
        (rm::REDISMODULE_EVENT_LOADING, rm::REDISMODULE_SUBEVENT_LOADING_ENDED)
        | (rm::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, _) => chores::took_over(&ctx),
        // Any child process, and any load that begins.
        (rm::REDISMODULE_EVENT_FORK_CHILD | rm::REDISMODULE_EVENT_LOADING, _) => chores::followed(),
        _ => {}
    });
}

/// # Safety
/// `value` is under a key of our type, or comes from one.
unsafe fn record<'a>(value: *const c_void) -> &'a Record {
    // SAFETY: as promised by the caller: a record that stays while the server shows it to us.
    unsafe { &*value.cast::<Record>() }
}

extern "C" fn on_rdb_load(io: *mut rm::RedisModuleIO, version: c_int) -> *mut c_void {
    if version != record::VERSION {
        let why = c"a lock of version %d, and this module knows version %d only";
        let level = c"warning".as_ptr();
        call!(RedisModule_LogIOError(io, level, why.as_ptr(), version, record::VERSION));
        return null_mut();
    }
    let mut len = 0;
    let ptr = call!(RedisModule_LoadStringBuffer(io, &raw mut len));
    if ptr.is_null() || call!(RedisModule_IsIOError(io)) != 0 {
        return null_mut();
    }
    // SAFETY: the server's copy, which is ours until it is freed below.
    let bytes = unsafe { slice(ptr.cast(), len) };
    let loaded = guarded(|| Record::from_bytes(bytes));
    call!(RedisModule_Free(ptr.cast()));
    match loaded {
        Some(Ok(mut record)) => {
            let name = call!(RedisModule_GetKeyNameFromIO(io));
            if !name.is_null() {
                let name =
                    ModuleString { raw: name.cast_mut(), is_ours: false, _from: PhantomData };
                let ctx = Ctx { raw: call!(RedisModule_GetContextFromIO(io)) };
                let db = call!(RedisModule_GetDbIdFromIO(io));
                guarded(|| chores::came(&ctx, &mut record, db, &name));
            }
            Box::into_raw(Box::new(record)).cast()
        }
        Some(Err(why)) => {
            let why = c_string(&why);
            let (level, format) = (c"warning".as_ptr(), c"%s".as_ptr());
            call!(RedisModule_LogIOError(io, level, format, why.as_ptr()));
            null_mut()
        }
        None => null_mut(),
    }
}

extern "C" fn on_rdb_save(io: *mut rm::RedisModuleIO, value: *mut c_void) {
    // SAFETY: a value of our type.
    let bytes = unsafe { record(value) }.to_bytes();
    call!(RedisModule_SaveStringBuffer(io, bytes.as_ptr().cast(), bytes.len()));
}

extern "C" fn on_aof_rewrite(
    io: *mut rm::RedisModuleIO,
    key: *mut rm::RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: a value of our type.
    let bytes = unsafe { record(value) }.to_bytes();
    Entry::State(bytes.into()).with_bytes(|entry| {
        let (ptr, len) = (entry.as_ptr().cast::<c_char>(), entry.len());
        let (name, format) = (commands::APPLY.as_ptr(), c"sb".as_ptr());
        call!(RedisModule_EmitAOF(io, name, format, key, ptr, len));
    });
}

extern "C" fn on_digest(digest: *mut rm::RedisModuleDigest, value: *mut c_void) {
    // SAFETY: a value of our type.
    let bytes = unsafe { record(value) }.to_digest();
    call!(RedisModule_DigestAddStringBuffer(digest, bytes.as_ptr().cast(), bytes.len()));
    call!(RedisModule_DigestEndSequence(digest));
}

/// May be called on another thread, when all keys are dropped at once. So it touches nothing but the record, and a list
/// with its own mutex.
extern "C" fn on_free(value: *mut c_void) {
    // SAFETY: made by us from a box; the server gives it up here, once.
    let record = unsafe { Box::from_raw(value.cast::<Record>()) };
    chores::freed(&record);
}

extern "C" fn on_unlink(_: *mut rm::RedisModuleKeyOptCtx, value: *const c_void) {
    // SAFETY: a value of our type.
    let is_tracked = unsafe { record(value) }.is_tracked;
    if is_tracked {
        // There is no context here that could start a timer.
        let raw = DETACHED.load(Ordering::Relaxed);
        guarded(|| chores::arm(&Ctx { raw }));
    }
}

extern "C" fn on_copy(_: *mut rm::RedisModuleKeyOptCtx, value: *const c_void) -> *mut c_void {
    // SAFETY: a value of our type.
    let copy = unsafe { record(value) }.idle_copy();
    Box::into_raw(Box::new(copy)).cast()
}

extern "C" fn on_mem_usage(
    _: *mut rm::RedisModuleKeyOptCtx,
    value: *const c_void,
    _: usize,
) -> usize {
    // SAFETY: a value of our type.
    let record = unsafe { record(value) };
    size_of::<Record>() - size_of::<taketurns_core::Lock>() + record.lock.memory()
}
