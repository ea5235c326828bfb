//! Arguments of a call, borrowed from the server.

use super::api::api;
use redis_module::raw::RedisModuleString;
use std::ffi::c_int;
use std::marker::PhantomData;

/// All arguments of one call; number 0 is the command's name.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    argv: &'a [*mut RedisModuleString],
}

impl<'a> Args<'a> {
    /// # Safety
    /// `argv` holds `argc` strings that live, unchanged, for `'a`.
    pub(super) unsafe fn from_raw(argv: *mut *mut RedisModuleString, argc: c_int) -> Self {
        let len = usize::try_from(argc).unwrap_or(0);
        if argv.is_null() || len == 0 {
            return Self { argv: &[] };
        }
        // SAFETY: the caller's promise.
        Self { argv: unsafe { std::slice::from_raw_parts(argv, len) } }
    }

    /// How many there are, the command's name included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.argv.len()
    }

    /// Whether there is none, as when the module is loaded without arguments.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.argv.is_empty()
    }

    /// Argument `index`.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> Option<Arg<'a>> {
        self.argv.get(index).map(|&raw| Arg { raw, lives: PhantomData })
    }
}

/// One argument.
#[derive(Clone, Copy)]
pub struct Arg<'a> {
    raw: *mut RedisModuleString,
    lives: PhantomData<&'a RedisModuleString>,
}

impl<'a> Arg<'a> {
    /// Its bytes: any, also none, NUL or not UTF-8.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        let mut len = 0;
        // SAFETY: the string lives for 'a and is not changed in that time.
        unsafe {
            let start = api!(RedisModule_StringPtrLen)(self.raw, &raw mut len);
            std::slice::from_raw_parts(start.cast(), len)
        }
    }

    pub(super) const fn as_raw(&self) -> *mut RedisModuleString {
        self.raw
    }
}
