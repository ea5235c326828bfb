//! The context of one call: its reply, and what it may ask and tell the server.

use super::api::api;
use super::args::Arg;
use crate::error::Error;
use redis_module::raw::{self, RedisModuleCtx};
use std::ffi::{CStr, c_int, c_long, c_uint};
use std::marker::PhantomData;

/// The context of one call. It cannot be copied or leave its thread, and what may run foreign code
/// or open a key for writing borrows it mutably: so no reference into a key outlives its value.
pub struct Ctx<'a> {
    raw: *mut RedisModuleCtx,
    lives: PhantomData<&'a mut RedisModuleCtx>,
}

impl<'a> Ctx<'a> {
    /// # Safety
    /// `raw` is a context that lives for `'a`, on the main thread, and no other `Ctx` is made of it.
    pub(super) const unsafe fn from_raw(raw: *mut RedisModuleCtx) -> Self {
        Self { raw, lives: PhantomData }
    }

    pub(super) const fn as_raw(&self) -> *mut RedisModuleCtx {
        self.raw
    }

    fn flags(&self) -> c_uint {
        // SAFETY: the context lives.
        let flags = unsafe { api!(RedisModule_GetContextFlags)(self.raw) };
        flags.cast_unsigned()
    }

    /// Whether the server would now refuse a SET of `key` for lack of memory. Changes nothing; costs
    /// little while there is memory.
    #[must_use]
    pub fn is_out_of_memory(&self, key: Arg<'_>) -> bool {
        if self.flags() & raw::REDISMODULE_CTX_FLAGS_OOM == 0 {
            return false;
        }
        // Above maxmemory SET may still pass, as when eviction has just made room. The server tells
        // no module, but it does refuse a command in its name; this one, let through, fails on "x".
        // SAFETY: format and arguments agree; the reply is freed. errno is this thread's own.
        unsafe {
            *libc::__errno_location() = 0;
            let reply = api!(RedisModule_Call)(
                self.raw,
                c"INCRBY".as_ptr(),
                c"Msc".as_ptr(),
                key.as_raw(),
                c"x".as_ptr(),
            );
            let errno = *libc::__errno_location();
            if !reply.is_null() {
                api!(RedisModule_FreeCallReply)(reply);
            }
            // Where INCRBY is renamed there is nobody to ask (ENOENT), and what the flag says counts.
            reply.is_null() && (errno == libc::ENOSPC || errno == libc::ENOENT)
        }
    }

    /// Whether the call comes from a primary, a slot migration or a file, not from a client.
    #[must_use]
    pub fn is_following(&self) -> bool {
        let following = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
        self.flags() & following != 0
    }

    /// Sends the call to replicas and the AOF as it came.
    pub fn replicate_verbatim(&self) {
        // SAFETY: the context is that of a running command.
        unsafe { api!(RedisModule_ReplicateVerbatim)(self.raw) };
    }

    /// Sends `command key blob` to replicas and the AOF.
    pub fn replicate(&self, command: &'static CStr, key: Arg<'_>, blob: &[u8]) {
        // SAFETY: format and arguments agree: a string, and a pointer with a size_t.
        unsafe {
            api!(RedisModule_Replicate)(
                self.raw,
                command.as_ptr(),
                c"sb".as_ptr(),
                key.as_raw(),
                blob.as_ptr(),
                blob.len(),
            );
        }
    }

    /// Tells WATCH and client tracking that `key` has changed. After the key is closed.
    pub fn signal_modified(&mut self, key: Arg<'_>) {
        // SAFETY: context and string live.
        unsafe { api!(RedisModule_SignalModifiedKey)(self.raw, key.as_raw()) };
    }

    /// Raises the keyspace event `event` of class `d`. After the key is closed: the handlers of
    /// other modules run here.
    pub fn notify(&mut self, event: &'static CStr, key: Arg<'_>) {
        self.notify_class(raw::REDISMODULE_NOTIFY_MODULE, event, key);
    }

    /// Raises the event `del` of class `g`, as the server does when the last element of a value goes.
    pub fn notify_deleted(&mut self, key: Arg<'_>) {
        self.notify_class(raw::REDISMODULE_NOTIFY_GENERIC, c"del", key);
    }

    fn notify_class(&mut self, class: c_int, event: &'static CStr, key: Arg<'_>) {
        // SAFETY: context and string live.
        unsafe {
            api!(RedisModule_NotifyKeyspaceEvent)(self.raw, class, event.as_ptr(), key.as_raw());
        }
    }
}

/// Replies. They cannot fail; an array or map must be followed by exactly its elements.
impl Ctx<'_> {
    /// An array of integers.
    #[inline]
    pub fn reply_ints(&self, values: &[i64]) {
        self.reply_array_len(values.len());
        for &value in values {
            self.reply_int(value);
        }
    }

    /// The head of an array; `len` elements must follow.
    #[inline]
    pub fn reply_array_len(&self, len: usize) {
        // SAFETY: the context is that of a running command.
        unsafe { api!(RedisModule_ReplyWithArray)(self.raw, long(len)) };
    }

    /// The head of a map (under RESP2 a flat array); `len` names with values must follow.
    pub fn reply_map_len(&self, len: usize) {
        // SAFETY: the context is that of a running command.
        unsafe { api!(RedisModule_ReplyWithMap)(self.raw, long(len)) };
    }

    /// An integer.
    #[inline]
    pub fn reply_int(&self, value: i64) {
        // SAFETY: the context is that of a running command.
        unsafe { api!(RedisModule_ReplyWithLongLong)(self.raw, value) };
    }

    /// Null.
    pub fn reply_null(&self) {
        // SAFETY: the context is that of a running command.
        unsafe { api!(RedisModule_ReplyWithNull)(self.raw) };
    }

    /// A byte string.
    pub fn reply_bulk(&self, bytes: &[u8]) {
        // SAFETY: the bytes are copied.
        unsafe {
            api!(RedisModule_ReplyWithStringBuffer)(self.raw, bytes.as_ptr().cast(), bytes.len());
        }
    }

    /// A status line such as `OK`.
    pub fn reply_status(&self, status: &'static CStr) {
        // SAFETY: the text ends in NUL and is copied.
        unsafe { api!(RedisModule_ReplyWithSimpleString)(self.raw, status.as_ptr()) };
    }

    /// An error.
    pub fn reply_error(&self, error: Error) {
        // SAFETY: the text ends in NUL and is copied.
        unsafe { api!(RedisModule_ReplyWithError)(self.raw, error.text().as_ptr()) };
    }
}

fn long(len: usize) -> c_long {
    c_long::try_from(len).unwrap_or(c_long::MAX)
}

/// A C int of a small constant of the bindings.
pub(super) const fn int(constant: u32) -> c_int {
    constant.cast_signed()
}
