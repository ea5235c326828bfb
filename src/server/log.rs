//! Static lines in the server's log. Nothing of a client's ever goes there.

use super::api::api;
use std::ffi::CStr;

/// Something the operator may want to know.
pub fn notice(message: &'static CStr) {
    write(c"notice", message, c"");
}

/// A warning about `subject`, named at its end.
pub fn warning_about(message: &'static CStr, subject: &'static CStr) {
    write(c"warning", message, subject);
}

fn write(level: &CStr, message: &CStr, subject: &CStr) {
    // SAFETY: the log takes a null context on any thread; format and arguments agree and end in NUL.
    unsafe {
        api!(RedisModule_Log)(
            std::ptr::null_mut(),
            level.as_ptr(),
            c"limiter: %s%s".as_ptr(),
            message.as_ptr(),
            subject.as_ptr(),
        );
    }
}
