//! Loading the module.

use super::api::{api, first_missing, optional};
use super::args::Args;
use super::context::{Ctx, int};
use super::guard::{guard, install_hook};
use super::log;
use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};
use std::ffi::{CStr, c_int};

/// Why the module cannot load.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    reason: &'static CStr,
    subject: &'static CStr,
}

impl Failed {
    /// For this reason.
    #[must_use]
    pub const fn because(reason: &'static CStr) -> Self {
        Self { reason, subject: c"" }
    }

    /// For this reason, `subject` being its last word.
    #[must_use]
    pub const fn about(reason: &'static CStr, subject: &'static CStr) -> Self {
        Self { reason, subject }
    }

    /// For this reason, unless `answer` is the server's OK.
    pub(super) fn unless(answer: c_int, reason: &'static CStr) -> Result<(), Self> {
        if answer == OK { Ok(()) } else { Err(Self::because(reason)) }
    }

    /// Writes it to the log.
    pub fn log(self) {
        log::warning_about(self.reason, self.subject);
    }
}

const OK: c_int = raw::REDISMODULE_OK as c_int;
const ERR: c_int = raw::REDISMODULE_ERR as c_int;

/// The module's version as the server shows it in MODULE LIST: 1.2.3 is 10203.
const VERSION: c_int = version(env!("CARGO_PKG_VERSION_MAJOR")) * 10_000
    + version(env!("CARGO_PKG_VERSION_MINOR")) * 100
    + version(env!("CARGO_PKG_VERSION_PATCH"));

const fn version(digits: &str) -> c_int {
    match c_int::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => 0,
    }
}

/// What the server calls first.
///
/// # Safety
/// Only for the server, while it loads the module.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's own context. Nothing may allocate before this: the allocator is the
    // server's.
    let initialised = unsafe {
        raw::Export_RedisModule_Init(
            ctx,
            c"limiter".as_ptr(),
            VERSION,
            int(raw::REDISMODULE_APIVER_1),
        )
    };
    if initialised != OK {
        // Its functions are there by now; it only fails when the name is taken.
        // SAFETY: the context is the server's own.
        unsafe { log::refusal(ctx, c"not loaded: there is already a module called ", c"limiter") };
        return ERR;
    }
    if let Some(name) = first_missing() {
        let reason =
            c"not loaded: it needs Redis 7.0 or newer, or Valkey; this server does not offer ";
        // SAFETY: the context is the server's own.
        unsafe { log::refusal(ctx, reason, name) };
        return ERR;
    }
    install_hook();
    // SAFETY: context and arguments live until this function returns, and are used only here.
    let (mut ctx, args) = unsafe { (Ctx::from_raw(ctx), Args::from_raw(argv, argc)) };
    guard(c"load", ERR, || match crate::load(&mut ctx, &args) {
        Ok(()) => OK,
        Err(failed) => {
            failed.log();
            ERR
        }
    })
}

/// Valkey's bit for "this module's keys may be moved by CLUSTER MIGRATESLOTS". One module without it
/// stops every such migration. Redis gives the bit no meaning, and might one day another.
const VALKEY_HANDLES_SLOT_MIGRATION: c_int = 1 << 5;

/// Tells the server what the module takes care of.
pub fn declare_options(ctx: &mut Ctx<'_>) {
    let mut options = int(raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD
        // A refusal must not touch WATCH: we signal ourselves, when something has changed.
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED);
    if is_valkey(ctx) {
        options |= VALKEY_HANDLES_SLOT_MIGRATION;
    }
    // SAFETY: the context is that of OnLoad.
    unsafe { api!(RedisModule_SetModuleOptions)(ctx.as_raw(), options) };
}

fn is_valkey(ctx: &Ctx<'_>) -> bool {
    // SAFETY: the function table is only read; the field's text lives until its data is freed.
    unsafe {
        let (Some(get), Some(field), Some(free)) = (
            optional!(RedisModule_GetServerInfo),
            optional!(RedisModule_ServerInfoGetFieldC),
            optional!(RedisModule_FreeServerInfo),
        ) else {
            return false;
        };
        let info = get(ctx.as_raw(), c"server".as_ptr());
        if info.is_null() {
            return false;
        }
        let name = field(info, c"server_name".as_ptr());
        let valkey = !name.is_null() && CStr::from_ptr(name).to_bytes() == b"valkey";
        free(ctx.as_raw(), info);
        valkey
    }
}
