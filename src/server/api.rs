//! The server's function table.
//!
//! The server fills `RedisModule_*` statics once, in `RedisModule_Init`, on the main thread, before
//! anything else of the module runs; afterwards they are only read. [`first_missing`] is asked right
//! after that, and the module does not load if it answers. So a call through [`api!`] is one load and
//! one indirect call, without a check, and a function that is not on the list does not compile.
//! Whatever only newer servers have goes through [`optional!`] instead: never a version number.

use redis_module::raw;
use std::ffi::CStr;

macro_rules! required {
    ($($symbol:ident)*) => {
        /// The pointer of a required function; to be called in an unsafe block.
        macro_rules! api {
            // The check at load makes the `None` unreachable.
            $(($symbol) => { redis_module::raw::$symbol.unwrap_unchecked() };)*
        }

        /// The first required function that this server does not offer.
        pub(super) fn first_missing() -> Option<&'static CStr> {
            $(
                // SAFETY: the statics are written only by RedisModule_Init, which has returned.
                if unsafe { raw::$symbol }.is_none() {
                    const NAME: &str = concat!(stringify!($symbol), "\0");
                    return CStr::from_bytes_with_nul(NAME.as_bytes()).ok();
                }
            )*
            None
        }
    };
}

required! {
    RedisModule_Alloc
    RedisModule_Free
    RedisModule_Log
    RedisModule_LogIOError
    RedisModule_SetModuleOptions
    RedisModule_GetContextFlags
    RedisModule_CreateCommand
    RedisModule_GetCommand
    RedisModule_SetCommandInfo
    RedisModule_IsKeysPositionRequest
    RedisModule_KeyAtPosWithFlags
    RedisModule_RegisterBoolConfig
    RedisModule_LoadConfigs
    RedisModule_RegisterInfoFunc
    RedisModule_InfoAddSection
    RedisModule_InfoAddFieldULongLong
    RedisModule_StringPtrLen
    RedisModule_OpenKey
    RedisModule_CloseKey
    RedisModule_KeyType
    RedisModule_DeleteKey
    RedisModule_StringDMA
    RedisModule_GetAbsExpire
    RedisModule_SetAbsExpire
    RedisModule_SignalModifiedKey
    RedisModule_NotifyKeyspaceEvent
    RedisModule_Replicate
    RedisModule_ReplicateVerbatim
    RedisModule_Call
    RedisModule_FreeCallReply
    RedisModule_ReplyWithArray
    RedisModule_ReplyWithMap
    RedisModule_ReplyWithLongLong
    RedisModule_ReplyWithNull
    RedisModule_ReplyWithStringBuffer
    RedisModule_ReplyWithSimpleString
    RedisModule_ReplyWithError
    RedisModule_CreateDataType
    RedisModule_ModuleTypeGetType
    RedisModule_ModuleTypeGetValue
    RedisModule_ModuleTypeSetValue
    RedisModule_IsIOError
    RedisModule_LoadStringBuffer
    RedisModule_SaveStringBuffer
    RedisModule_EmitAOF
    RedisModule_DigestAddStringBuffer
    RedisModule_DigestEndSequence
    RedisModule_DefragAlloc
    RedisModule_GetRandomBytes
}

/// The pointer of a function that not every server has, as an `Option`; to be read in an unsafe block.
macro_rules! optional {
    ($symbol:ident) => {{ redis_module::raw::$symbol }};
}

pub(super) use {api, optional};
