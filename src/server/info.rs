//! Sections of the server's INFO.

use super::api::api;
use super::context::Ctx;
use super::guard::guard;
use super::load::Failed;
use redis_module::raw::{self, RedisModuleInfoCtx};
use std::ffi::{CStr, c_int};

/// What the module tells in INFO. May run while the server crashes: only atomics, no locks.
pub trait InfoSource {
    /// Writes the sections.
    fn fill(info: &mut Info);
}

/// One INFO in the making.
pub struct Info {
    raw: *mut RedisModuleInfoCtx,
    wanted: bool,
}

impl Info {
    /// Starts the section `limiter_<name>`; its fields follow. They are dropped when nobody asked
    /// for the section.
    pub fn section(&mut self, name: &'static CStr) {
        // SAFETY: the server's INFO context lives during the callback.
        let answer = unsafe { api!(RedisModule_InfoAddSection)(self.raw, name.as_ptr()) };
        self.wanted = answer == raw::REDISMODULE_OK as c_int;
    }

    /// Adds the field `limiter_<name>` to the section.
    pub fn field(&mut self, name: &'static CStr, value: u64) {
        if self.wanted {
            // SAFETY: the server's INFO context lives during the callback.
            unsafe { api!(RedisModule_InfoAddFieldULongLong)(self.raw, name.as_ptr(), value) };
        }
    }
}

/// Registers `S`. Only while the module loads.
pub fn register<S: InfoSource>(ctx: &mut Ctx<'_>) -> Result<(), Failed> {
    // SAFETY: the context is that of OnLoad; the function lives as long as the module.
    let answer = unsafe { api!(RedisModule_RegisterInfoFunc)(ctx.as_raw(), Some(info::<S>)) };
    Failed::unless(answer, c"cannot register the INFO sections")
}

unsafe extern "C" fn info<S: InfoSource>(raw: *mut RedisModuleInfoCtx, _for_crash_report: c_int) {
    guard(c"info", (), || S::fill(&mut Info { raw, wanted: false }));
}
