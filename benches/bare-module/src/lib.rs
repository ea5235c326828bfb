//! The physical limit of a limiter written as a module, to measure against: `BARE.GET key` opens a
//! key, reads its value of a native type and answers five integers; nothing else, whatever further
//! arguments it has. `BARE.CHARGE key` also does what every admission must: it reads the expiry, sends
//! as many bytes to replicas and the AOF as RL.BUCKET, and tells that the key changed. `BARE.SET key`
//! makes the key, and gives it an expiry if there is a further argument. For benchmarks only: nothing is
//! saved or checked, and the effect does nothing.

use redis_module::raw::{self, RedisModuleCtx, RedisModuleKey, RedisModuleString, RedisModuleType};
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

const OK: c_int = 0;
const ERR: c_int = 1;
const READ_WRITE: c_int = (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE).cast_signed();

type Function =
    unsafe extern "C" fn(*mut RedisModuleCtx, *mut *mut RedisModuleString, c_int) -> c_int;

static TYPE: AtomicPtr<RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// As large as a bucket of the limiter.
type Value = [u64; 2];

/// As long as the effect of one.
const EFFECT: [u8; 41] = [7; 41];

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
        let flags = c"write fast".as_ptr();
        let commands: [(&CStr, Function); 4] = [
            (c"bare.set", bare_set),
            (c"bare.get", bare_get),
            (c"bare.charge", bare_charge),
            // As long a name as RL.E.
            (c"ba.e", bare_effect),
        ];
        for (name, run) in commands {
            if api!(RedisModule_CreateCommand)(ctx, name.as_ptr(), Some(run), flags, 1, 1, 1) != OK
            {
                return ERR;
            }
        }
        OK
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
    // SAFETY: the server's own context and arguments, of which there are `argc`.
    unsafe {
        if argc < 2 {
            return api!(RedisModule_WrongArity)(ctx);
        }
        let key = api!(RedisModule_OpenKey)(ctx, *argv.add(1), READ_WRITE);
        let value = read(key);
        api!(RedisModule_CloseKey)(key);
        reply(ctx, value)
    }
}

unsafe extern "C" fn bare_charge(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's own context and arguments, of which there are `argc`; the format is that of
    // a string and a buffer with its length.
    unsafe {
        if argc < 2 {
            return api!(RedisModule_WrongArity)(ctx);
        }
        let name = *argv.add(1);
        let key = api!(RedisModule_OpenKey)(ctx, name, READ_WRITE);
        let value = read(key);
        api!(RedisModule_GetAbsExpire)(key);
        let (command, format) = (c"BA.E".as_ptr(), c"sb".as_ptr());
        api!(RedisModule_Replicate)(ctx, command, format, name, EFFECT.as_ptr(), EFFECT.len());
        api!(RedisModule_CloseKey)(key);
        api!(RedisModule_SignalModifiedKey)(ctx, name);
        let (class, event) = (raw::REDISMODULE_NOTIFY_MODULE, c"bare.charge".as_ptr());
        api!(RedisModule_NotifyKeyspaceEvent)(ctx, class, event, name);
        reply(ctx, value)
    }
}

unsafe extern "C" fn bare_effect(
    ctx: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: the server's own context.
    unsafe { api!(RedisModule_ReplyWithLongLong)(ctx, 1) }
}

/// # Safety
/// `key` is open.
unsafe fn read(key: *mut RedisModuleKey) -> Value {
    // SAFETY: a value of our type was boxed by `bare_set` and lives while the key is open.
    unsafe {
        if api!(RedisModule_ModuleTypeGetType)(key) == TYPE.load(Ordering::Relaxed) {
            api!(RedisModule_ModuleTypeGetValue)(key).cast::<Value>().read()
        } else {
            [0; 2]
        }
    }
}

/// # Safety
/// `ctx` is that of a running command.
unsafe fn reply(ctx: *mut RedisModuleCtx, value: Value) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        api!(RedisModule_ReplyWithArray)(ctx, 5);
        // As long as those of a refusal.
        for number in [value[0], value[1], 0, 86_399_000, 86_399_000] {
            api!(RedisModule_ReplyWithLongLong)(ctx, number.cast_signed());
        }
    }
    OK
}
