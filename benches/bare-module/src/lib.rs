//! The physical limit of a limiter written as a module, to measure against: `BARE.GET key` opens a
//! key, reads its value of a native type and answers five integers; nothing else, whatever further
//! arguments it has. `BARE.SET key` makes the key, and gives it an expiry if there is a further
//! argument. For benchmarks only: nothing is saved, replicated or checked.

use redis_module::raw::{self, RedisModuleCtx, RedisModuleString, RedisModuleType};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

const OK: c_int = 0;
const ERR: c_int = 1;
const READ_WRITE: c_int = (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE).cast_signed();

static TYPE: AtomicPtr<RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// As large as a bucket of the limiter.
type Value = [u64; 2];

/// The server's function, which has been there since long before the oldest supported version.
macro_rules! api {
    ($symbol:ident) => {
        raw::$symbol.unwrap_unchecked()
    };
}

/// # Safety
/// Only for the server, while it loads the module.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: the server's own context; texts end in NUL; the server copies the methods.
    unsafe {
        let version = raw::REDISMODULE_APIVER_1.cast_signed();
        if raw::Export_RedisModule_Init(ctx, c"bare".as_ptr(), 1, version) != OK {
            return ERR;
        }
        let mut methods: raw::RedisModuleTypeMethods = std::mem::zeroed();
        methods.version = u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION);
        methods.free = Some(free);
        let name = c"bare-type".as_ptr();
        let kind = api!(RedisModule_CreateDataType)(ctx, name, 0, &raw mut methods);
        if kind.is_null() {
            return ERR;
        }
        TYPE.store(kind, Ordering::Relaxed);
        let (set, get) = (c"bare.set".as_ptr(), c"bare.get".as_ptr());
        let flags = c"write fast".as_ptr();
        if api!(RedisModule_CreateCommand)(ctx, set, Some(bare_set), flags, 1, 1, 1) != OK {
            return ERR;
        }
        api!(RedisModule_CreateCommand)(ctx, get, Some(bare_get), flags, 1, 1, 1)
    }
}

unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: every value was boxed by `bare_set`.
    drop(unsafe { Box::from_raw(value.cast::<Value>()) });
}

unsafe extern "C" fn bare_set(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's own context and arguments, of which there are `argc`.
    unsafe {
        if argc < 2 {
            return api!(RedisModule_WrongArity)(ctx);
        }
        let key = api!(RedisModule_OpenKey)(ctx, *argv.add(1), READ_WRITE);
        let value: Box<Value> = Box::new([0, 1]);
        let kind = TYPE.load(Ordering::Relaxed);
        api!(RedisModule_ModuleTypeSetValue)(key, kind, Box::into_raw(value).cast());
        if argc > 2 {
            api!(RedisModule_SetExpire)(key, 86_400_000);
        }
        api!(RedisModule_CloseKey)(key);
        api!(RedisModule_ReplyWithLongLong)(ctx, 1)
    }
}

unsafe extern "C" fn bare_get(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's own context and arguments, of which there are `argc`; a value of our type
    // was boxed by `bare_set` and lives while the key is open.
    unsafe {
        if argc < 2 {
            return api!(RedisModule_WrongArity)(ctx);
        }
        let key = api!(RedisModule_OpenKey)(ctx, *argv.add(1), READ_WRITE);
        let ours = api!(RedisModule_ModuleTypeGetType)(key) == TYPE.load(Ordering::Relaxed);
        let value: Value = if ours {
            api!(RedisModule_ModuleTypeGetValue)(key).cast::<Value>().read()
        } else {
            [0; 2]
        };
        api!(RedisModule_CloseKey)(key);
        api!(RedisModule_ReplyWithArray)(ctx, 5);
        // As long as those of a refusal.
        for number in [value[0], value[1], 0, 86_399_000, 86_399_000] {
            api!(RedisModule_ReplyWithLongLong)(ctx, number.cast_signed());
        }
        OK
    }
}
