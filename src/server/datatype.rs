//! A native data type: the server's callbacks around a safe trait.
//!
//! Values are boxed once, in [`into_server`], and unboxed once, in `free`.

use super::api::{api, optional};
use super::context::Ctx;
use super::guard::guard;
use super::load::Failed;
use redis_module::raw::{
    RedisModuleDefragCtx, RedisModuleDigest, RedisModuleIO, RedisModuleKeyOptCtx,
    RedisModuleString, RedisModuleType, RedisModuleTypeMethods,
};
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value that keys can hold. `Send`, since the server frees on another thread; `encode` and
/// `rewrite` run in a forked child too, where they must take no lock.
pub trait NativeType: Clone + Send + Sized + 'static {
    /// What TYPE answers, and the name in an RDB: 9 characters, never changed.
    const NAME: &'static CStr;
    /// The version of [`NativeType::encode`], 0 to 1023.
    const ENCODING: c_int;
    /// The command that an AOF rewrite writes, as `command key blob`.
    const AOF_COMMAND: &'static CStr;

    /// The place of the type's registration: a static.
    fn slot() -> &'static TypeSlot<Self>;

    /// Appends the whole value, for RDB, DUMP and the digest.
    fn encode(&self, out: &mut Vec<u8>);

    /// The value of bytes that version `encoding` wrote. Total: the bytes may be forged, or of a
    /// version still to come.
    fn decode(bytes: &[u8], encoding: c_int) -> Option<Self>;

    /// Appends the blob of [`NativeType::AOF_COMMAND`] that restores the value.
    fn rewrite(&self, out: &mut Vec<u8>);

    /// Bytes on the heap, its own box not counted.
    fn heap_bytes(&self) -> usize;

    /// How many allocations there are to free: above 64 the server may free on another thread.
    fn free_effort(&self) -> usize {
        1
    }
}

/// The registration of one native type. Each type has its own, so that a value of one can never be
/// taken for another's.
pub struct TypeSlot<T> {
    registered: AtomicPtr<RedisModuleType>,
    of: PhantomData<fn() -> T>,
}

impl<T> TypeSlot<T> {
    /// Nothing registered yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { registered: AtomicPtr::new(ptr::null_mut()), of: PhantomData }
    }

    /// Null before the type is registered.
    #[inline]
    pub(super) fn get(&self) -> *mut RedisModuleType {
        // Written once, while the module loads.
        self.registered.load(Ordering::Relaxed)
    }
}

impl<T> Default for TypeSlot<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Registers `T`. Only while the module loads.
pub fn register<T: NativeType>(ctx: &mut Ctx<'_>) -> Result<(), Failed> {
    let mut methods = methods::<T>();
    // SAFETY: the context is that of OnLoad; the table is copied; its functions live as long as the
    // module.
    let registered = unsafe {
        api!(RedisModule_CreateDataType)(
            ctx.as_raw(),
            T::NAME.as_ptr(),
            T::ENCODING,
            &raw mut methods,
        )
    };
    if registered.is_null() {
        return Err(Failed::about(c"cannot register the data type ", T::NAME));
    }
    T::slot().registered.store(registered, Ordering::Relaxed);
    Ok(())
}

/// The version of the table that Redis 7.0 knows. Newer servers read no further than this says.
const METHODS_VERSION: u64 = 4;

fn methods<T: NativeType>() -> RedisModuleTypeMethods {
    RedisModuleTypeMethods {
        version: METHODS_VERSION,
        rdb_load: Some(rdb_load::<T>),
        rdb_save: Some(rdb_save::<T>),
        // Without it an AOF rewrite crashes.
        aof_rewrite: Some(aof_rewrite::<T>),
        // DEBUG DIGEST: how tests compare a replica with its primary.
        digest: Some(digest::<T>),
        free: Some(free::<T>),
        // MEMORY USAGE.
        mem_usage2: Some(mem_usage::<T>),
        // Whether freeing is worth another thread.
        free_effort2: Some(free_effort::<T>),
        // COPY.
        copy2: Some(copy::<T>),
        defrag: Some(defrag::<T>),
        // Nothing outside the keyspace refers to a value, or is saved beside the keys.
        unlink: None,
        unlink2: None,
        aux_load: None,
        aux_save: None,
        aux_save2: None,
        aux_save_triggers: 0,
        // Their successors above win where both are given.
        mem_usage: None,
        free_effort: None,
        copy: None,
    }
}

fn into_server<T>(value: T) -> *mut c_void {
    Box::into_raw(Box::new(value)).cast()
}

/// # Safety
/// `value` is one that [`into_server`] made of a `T`, and nobody changes it for `'a`.
unsafe fn borrow<'a, T>(value: *const c_void) -> &'a T {
    // SAFETY: the caller's promise.
    unsafe { &*value.cast::<T>() }
}

unsafe extern "C" fn rdb_load<T: NativeType>(
    io: *mut RedisModuleIO,
    encoding: c_int,
) -> *mut c_void {
    guard(c"rdb_load", ptr::null_mut(), || {
        if encoding > T::ENCODING {
            return refuse(io, c"was written by a newer version of the module");
        }
        let mut len = 0;
        // SAFETY: the server's stream; the buffer is ours to free, and null on a read error.
        let value = unsafe {
            let start = api!(RedisModule_LoadStringBuffer)(io, &raw mut len);
            if start.is_null() || api!(RedisModule_IsIOError)(io) != 0 {
                None
            } else {
                let buffer = ServerBuffer { start: start.cast(), len };
                Some(T::decode(buffer.bytes(), encoding))
            }
        };
        match value {
            None => refuse(io, c"cannot be read: the data ends early"),
            Some(None) => refuse(io, c"is not valid"),
            Some(Some(value)) => into_server(value),
        }
    })
}

/// Says why a value is not loaded. The answer fails a RESTORE, and the loading of a file.
fn refuse(io: *mut RedisModuleIO, reason: &'static CStr) -> *mut c_void {
    // SAFETY: format and argument agree.
    unsafe {
        let format = c"limiter: a stored limit %s".as_ptr();
        api!(RedisModule_LogIOError)(io, c"warning".as_ptr(), format, reason.as_ptr());
    }
    ptr::null_mut()
}

/// A buffer the server gave away.
struct ServerBuffer {
    start: *mut u8,
    len: usize,
}

impl ServerBuffer {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the server's promise for what LoadStringBuffer answered.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for ServerBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated by the server, given to us, freed once.
        unsafe { api!(RedisModule_Free)(self.start.cast()) };
    }
}

unsafe extern "C" fn rdb_save<T: NativeType>(io: *mut RedisModuleIO, value: *mut c_void) {
    guard(c"rdb_save", (), || {
        let mut bytes = Vec::new();
        // SAFETY: the server hands us our own value; the bytes are copied. It notes an I/O error
        // itself and fails the save.
        unsafe {
            borrow::<T>(value).encode(&mut bytes);
            api!(RedisModule_SaveStringBuffer)(io, bytes.as_ptr().cast(), bytes.len());
        }
    });
}

unsafe extern "C" fn aof_rewrite<T: NativeType>(
    io: *mut RedisModuleIO,
    key: *mut RedisModuleString,
    value: *mut c_void,
) {
    guard(c"aof_rewrite", (), || {
        let mut blob = Vec::new();
        // SAFETY: the server hands us our own value; format and arguments agree. The server writes
        // the key's expiry itself.
        unsafe {
            borrow::<T>(value).rewrite(&mut blob);
            api!(RedisModule_EmitAOF)(
                io,
                T::AOF_COMMAND.as_ptr(),
                c"sb".as_ptr(),
                key,
                blob.as_ptr(),
                blob.len(),
            );
        }
    });
}

unsafe extern "C" fn digest<T: NativeType>(digest: *mut RedisModuleDigest, value: *mut c_void) {
    guard(c"digest", (), || {
        let mut bytes = Vec::new();
        // SAFETY: the server hands us our own value; the bytes are only read.
        unsafe {
            borrow::<T>(value).encode(&mut bytes);
            api!(RedisModule_DigestAddStringBuffer)(digest, bytes.as_ptr().cast(), bytes.len());
            api!(RedisModule_DigestEndSequence)(digest);
        }
    });
}

unsafe extern "C" fn free<T: NativeType>(value: *mut c_void) {
    guard(c"free", (), || {
        // SAFETY: boxed by `into_server` or `Key::set_value`, freed once, by the server's own book.
        drop(unsafe { Box::from_raw(value.cast::<T>()) });
    });
}

unsafe extern "C" fn mem_usage<T: NativeType>(
    _ctx: *mut RedisModuleKeyOptCtx,
    value: *const c_void,
    _sample_size: usize,
) -> usize {
    guard(c"mem_usage", 0, || {
        // SAFETY: the function table is only read; the pointer is one that the allocator gave.
        let own = match unsafe { optional!(RedisModule_MallocSize) } {
            // SAFETY: the server's allocator made our box.
            Some(malloc_size) => unsafe { malloc_size(value.cast_mut()) },
            None => size_of::<T>(),
        };
        // SAFETY: the server hands us our own value.
        own + unsafe { borrow::<T>(value) }.heap_bytes()
    })
}

unsafe extern "C" fn free_effort<T: NativeType>(
    _ctx: *mut RedisModuleKeyOptCtx,
    value: *const c_void,
) -> usize {
    // SAFETY: the server hands us our own value.
    guard(c"free_effort", 1, || unsafe { borrow::<T>(value) }.free_effort())
}

unsafe extern "C" fn copy<T: NativeType>(
    _ctx: *mut RedisModuleKeyOptCtx,
    value: *const c_void,
) -> *mut c_void {
    guard(c"copy", ptr::null_mut(), || {
        // SAFETY: the server hands us our own value.
        into_server(unsafe { borrow::<T>(value) }.clone())
    })
}

/// Moves the box itself, which is all there is for a plain bucket. 0: done.
unsafe extern "C" fn defrag<T: NativeType>(
    ctx: *mut RedisModuleDefragCtx,
    _key: *mut RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guard(c"defrag", 0, || {
        // SAFETY: the server moves the bytes of the box, as a move in Rust does, and frees the old.
        unsafe {
            let moved = api!(RedisModule_DefragAlloc)(ctx, *value);
            if !moved.is_null() {
                *value = moved;
            }
        }
        0
    })
}
