//! Random bytes.

use super::api::api;

/// 16 bytes that nobody can guess.
#[must_use]
pub fn bytes16() -> [u8; 16] {
    let mut bytes = [0; 16];
    // SAFETY: both write at most the given length into the buffer.
    unsafe {
        let filled = libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK);
        if filled != 16 {
            // The server's own generator, seeded by the kernel's.
            api!(RedisModule_GetRandomBytes)(bytes.as_mut_ptr(), bytes.len());
        }
    }
    bytes
}
