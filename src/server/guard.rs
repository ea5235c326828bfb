//! The wall between our code and the server's: a panic never crosses it.
//!
//! A panic that leaves an extern "C" function aborts the whole server, so every one of them runs its
//! body in [`guard`], without exception.

use super::api::api;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

/// Runs `body`; if it panics, answers `default` instead. `site` names the callback.
#[inline]
pub(super) fn guard<R>(site: &'static CStr, default: R, body: impl FnOnce() -> R) -> R {
    // What a panicking body leaves half done is not looked at again: commands compute first and
    // commit in infallible steps, and all other callbacks build their result from nothing.
    let body = AssertUnwindSafe(|| {
        injection::strike(site);
        body()
    });
    catch_unwind(body).unwrap_or(default)
}

/// From now on a panic logs its place in the source and nothing else: its message could hold a
/// client's bytes.
pub(super) fn install_hook() {
    std::panic::set_hook(Box::new(log_place));
    injection::arm();
}

fn log_place(panic: &PanicHookInfo<'_>) {
    let (file, line) = panic.location().map_or(("?", 0), |place| (place.file(), place.line()));
    let length = i32::try_from(file.len()).unwrap_or(0);
    // SAFETY: a null context is allowed, on any thread too; the precision bounds the string, which
    // has no terminator.
    unsafe {
        api!(RedisModule_Log)(
            std::ptr::null_mut(),
            c"warning".as_ptr(),
            c"limiter: internal error at %.*s:%u; the server goes on".as_ptr(),
            length,
            file.as_ptr(),
            line,
        );
    }
}

/// Panics on demand, so that tests can prove the guard of every callback. Debug builds only.
#[cfg(debug_assertions)]
mod injection {
    use std::ffi::CStr;
    use std::sync::OnceLock;

    static SITE: OnceLock<Option<std::ffi::OsString>> = OnceLock::new();

    /// Reads `RL_PANIC_AT`: the name of the callback that shall panic.
    pub(super) fn arm() {
        SITE.get_or_init(|| std::env::var_os("RL_PANIC_AT"));
    }

    #[allow(clippy::panic)]
    pub(super) fn strike(site: &CStr) {
        if let Some(Some(wanted)) = SITE.get()
            && wanted.as_encoded_bytes().eq_ignore_ascii_case(site.to_bytes())
        {
            panic!("on demand");
        }
    }
}

#[cfg(not(debug_assertions))]
mod injection {
    pub(super) fn arm() {}

    #[inline(always)]
    pub(super) fn strike(_site: &std::ffi::CStr) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_the_default() {
        assert_eq!(guard(c"test", 1, || 2), 2);
        // The default hook is still in place here; resuming skips it.
        assert_eq!(guard(c"test", 1, || std::panic::resume_unwind(Box::new("test"))), 1);
    }
}
