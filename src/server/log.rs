//! Static lines in the server's log. Nothing of a client's ever goes there.

use super::api::{api, optional};
use redis_module::raw::RedisModuleCtx;
use std::ffi::CStr;
use std::ptr;

/// Something the operator may want to know.
pub fn notice(message: &'static CStr) {
    write(ptr::null_mut(), c"notice", message, c"");
}

/// A warning about `subject`, named at its end.
pub fn warning_about(message: &'static CStr, subject: &'static CStr) {
    write(ptr::null_mut(), c"warning", message, subject);
}

/// The same while it is not known yet what the server offers. Very old ones read the context.
///
/// # Safety
/// `ctx` is that of OnLoad.
pub(super) unsafe fn refusal(ctx: *mut RedisModuleCtx, message: &CStr, subject: &CStr) {
    // SAFETY: the function table is only read after RedisModule_Init.
    if unsafe { optional!(RedisModule_Log) }.is_some() {
        write(ctx, c"warning", message, subject);
    }
}

fn write(ctx: *mut RedisModuleCtx, level: &CStr, message: &CStr, subject: &CStr) {
    // SAFETY: the context lives, or is null, which the log takes on any thread; format and arguments
    // agree and end in NUL.
    unsafe {
        api!(RedisModule_Log)(
            ctx,
            level.as_ptr(),
            c"limiter: %s%s".as_ptr(),
            message.as_ptr(),
            subject.as_ptr(),
        );
    }
}
