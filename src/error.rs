//! Every error text a client can get. Static: a client's bytes are never echoed.

use std::ffi::CStr;

/// An error reply: its code, then a text that says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(&'static CStr);

impl Error {
    /// The key holds something else.
    pub const WRONG_TYPE: Self =
        Self(c"WRONGTYPE Operation against a key holding the wrong kind of value");
    /// A new key, or a longer log or lease set, while the server is above its memory limit.
    pub const OUT_OF_MEMORY: Self =
        Self(c"OOM command not allowed when used memory > 'maxmemory'.");
    /// A bug of ours.
    pub const INTERNAL: Self = Self(c"ERR internal error of the limiter, see the server's log");
    /// Something is left over.
    pub const LEFT_OVER: Self = Self(c"ERR syntax error: unknown or repeated argument");

    /// An error with this text, which starts with its code.
    #[must_use]
    pub const fn new(text: &'static CStr) -> Self {
        Self(text)
    }

    /// The whole reply.
    #[must_use]
    pub const fn text(self) -> &'static CStr {
        self.0
    }
}
