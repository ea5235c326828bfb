//! Keys, opened for one command and closed when dropped.

use super::api::api;
use super::args::Arg;
use super::context::{Ctx, int};
use super::datatype::NativeType;
use redis_module::raw::{self, RedisModuleKey};
use std::ffi::{CStr, c_int};
use std::ops::Deref;
use std::ptr::NonNull;

const READ: c_int = int(raw::REDISMODULE_READ);
const READ_WRITE: c_int = int(raw::REDISMODULE_READ | raw::REDISMODULE_WRITE);

/// What a key holds.
pub enum Kind<'k, T> {
    /// Nothing: there is no such key (or it has expired).
    Empty,
    /// A value of ours.
    Ours(&'k T),
    /// Something else, also another module's value.
    Foreign,
}

enum Found<T> {
    Empty,
    Ours(NonNull<T>),
    Foreign,
}

/// An open key whose values of ours are of type `T`, to look at.
///
/// [`Key`]s borrow the context mutably, views share it: a value that somebody refers to cannot be
/// changed, replaced or freed through another opening of the same key.
pub struct KeyView<'k, T: NativeType> {
    raw: *mut RedisModuleKey,
    found: Found<T>,
    name: Arg<'k>,
    ctx: &'k Ctx<'k>,
}

/// An open key to read and write.
pub struct Key<'k, T: NativeType>(KeyView<'k, T>);

impl<'k, T: NativeType> Key<'k, T> {
    /// Opens the key for reading and writing. A key that exists or is missing is not changed by that
    /// (an access for LRU and LFU apart), an expired one is deleted, as GET would.
    #[inline]
    pub fn open(ctx: &'k mut Ctx<'_>, name: Arg<'k>) -> Self {
        Self(KeyView::open_as(ctx, name, READ_WRITE))
    }

    /// Opens several keys, one after the other; `None` if two have the same name.
    pub fn open_all(
        ctx: &'k mut Ctx<'_>,
        names: impl Iterator<Item = Arg<'k>> + Clone,
    ) -> Option<impl Iterator<Item = Self>> {
        for (index, name) in names.clone().enumerate() {
            if names.clone().take(index).any(|other| other.bytes() == name.bytes()) {
                return None;
            }
        }
        let ctx: &'k Ctx<'_> = ctx;
        Some(names.map(|name| Self(KeyView::open_as(ctx, name, READ_WRITE))))
    }
}

impl<'k, T: NativeType> KeyView<'k, T> {
    /// Opens the key to look at it. Counts as an access, and as a hit or a miss, as GET does.
    #[inline]
    pub fn open(ctx: &'k Ctx<'_>, name: Arg<'k>) -> Self {
        Self::open_as(ctx, name, READ)
    }

    #[inline]
    fn open_as(ctx: &'k Ctx<'_>, name: Arg<'k>, mode: c_int) -> Self {
        // SAFETY: context and string outlive the key, which Drop closes.
        let raw = unsafe { api!(RedisModule_OpenKey)(ctx.as_raw(), name.as_raw(), mode) };
        Self { raw, found: Self::look(raw), name, ctx }
    }

    #[inline]
    fn look(key: *mut RedisModuleKey) -> Found<T> {
        // SAFETY: all three take a null key (one missing when opened for reading) as an empty one.
        unsafe {
            let kind = api!(RedisModule_ModuleTypeGetType)(key);
            if !kind.is_null() && kind == T::slot().get() {
                // Only values that `set_value` or the type's callbacks boxed have our type.
                let value = api!(RedisModule_ModuleTypeGetValue)(key).cast();
                return NonNull::new(value).map_or(Found::Foreign, Found::Ours);
            }
            let kind = api!(RedisModule_KeyType)(key);
            if kind == raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
                Found::Empty
            } else {
                Found::Foreign
            }
        }
    }

    /// What the key holds.
    #[inline]
    pub fn kind(&self) -> Kind<'_, T> {
        match self.found {
            Found::Empty => Kind::Empty,
            // SAFETY: the value lives while the key is open, and nobody else can change it.
            Found::Ours(value) => Kind::Ours(unsafe { value.as_ref() }),
            Found::Foreign => Kind::Foreign,
        }
    }

    /// When the key expires (Unix ms), if ever.
    #[inline]
    pub fn expire_ms(&self) -> Option<i64> {
        if self.raw.is_null() {
            return None;
        }
        // SAFETY: the key is open; an empty one has no expiry.
        let at_ms = unsafe { api!(RedisModule_GetAbsExpire)(self.raw) };
        (at_ms != i64::from(raw::REDISMODULE_NO_EXPIRE)).then_some(at_ms)
    }
}

impl<T: NativeType> Key<'_, T> {
    /// The value, if it is ours, to change it in place.
    #[inline]
    pub fn value_mut(&mut self) -> Option<&mut T> {
        match self.0.found {
            // SAFETY: the value lives while the key is open; this borrow is exclusive.
            Found::Ours(mut value) => Some(unsafe { value.as_mut() }),
            _ => None,
        }
    }

    /// The bytes of a foreign string value.
    pub fn string(&mut self) -> Option<&[u8]> {
        let Found::Foreign = self.0.found else { return None };
        let mut len = 0;
        // SAFETY: the key is open and not empty; the bytes live until it is changed or closed.
        unsafe {
            if api!(RedisModule_KeyType)(self.0.raw) != raw::REDISMODULE_KEYTYPE_STRING as c_int {
                return None;
            }
            let start = api!(RedisModule_StringDMA)(self.0.raw, &raw mut len, READ);
            (!start.is_null()).then(|| std::slice::from_raw_parts(start.cast(), len))
        }
    }

    /// Stores `value` in place of whatever was there. The expiry is gone then.
    pub fn set_value(&mut self, value: Box<T>) {
        let value = Box::into_raw(value);
        // SAFETY: on success the server owns the box and frees it by the type's `free`; otherwise it
        // is still ours.
        unsafe {
            let kind = T::slot().get();
            let stored = api!(RedisModule_ModuleTypeSetValue)(self.0.raw, kind, value.cast());
            if stored == raw::REDISMODULE_OK as c_int {
                self.0.found = NonNull::new(value).map_or(Found::Empty, Found::Ours);
            } else {
                drop(Box::from_raw(value));
                self.0.found = KeyView::look(self.0.raw);
            }
        }
    }

    /// Deletes the key. It stays open, empty.
    pub fn delete(&mut self) {
        // SAFETY: the key is open; references to its value cannot exist during this borrow.
        unsafe { api!(RedisModule_DeleteKey)(self.0.raw) };
        self.0.found = KeyView::look(self.0.raw);
    }

    /// Sets when the key expires (Unix ms, not negative). Nothing happens to an empty key.
    #[inline]
    pub fn set_expire_ms(&mut self, at_ms: i64) {
        // SAFETY: the key is open; the server checks the rest.
        unsafe { api!(RedisModule_SetAbsExpire)(self.0.raw, at_ms) };
    }

    /// Closes the key. So does dropping it; this says when.
    #[inline]
    pub fn close(self) {}
}

/// What a command says about its key before closing it.
impl<T: NativeType> Key<'_, T> {
    /// Sends `command key blob` to replicas and the AOF.
    #[inline]
    pub fn replicate(&self, command: &'static CStr, blob: &[u8]) {
        self.0.ctx.replicate(command, self.0.name, blob);
    }

    /// Whether the server would now refuse a SET of this key for lack of memory.
    pub fn is_out_of_memory(&self) -> bool {
        self.0.ctx.is_out_of_memory(self.0.name)
    }
}

impl<T: NativeType> Drop for KeyView<'_, T> {
    fn drop(&mut self) {
        // SAFETY: opened by us, closed once; null is allowed.
        unsafe { api!(RedisModule_CloseKey)(self.raw) };
    }
}

impl<'k, T: NativeType> Deref for Key<'k, T> {
    type Target = KeyView<'k, T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
