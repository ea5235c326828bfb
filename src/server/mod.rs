//! The server, made safe: the only unsafe code of the module.
//!
//! Rules of this folder: every extern "C" function runs its body in the guard (`guard.rs`), so that
//! no panic ends the server; optional functions of the server are recognised by being there, never
//! by a version number; what the server owns is borrowed with a lifetime; texts for log and replies
//! are static.
//!
//! | what | where |
//! | --- | --- |
//! | [`Ctx`] | one call: `reply_*`, `replicate*`, `signal_modified`, `notify`, `is_*` |
//! | [`Args`], [`Arg`] | its arguments, borrowed; `crate::args::Cursor` reads them |
//! | [`Key`], [`KeyView`], [`Kind`] | a key opened for writing (exclusive) or looking |
//! | [`NativeType`], [`TypeSlot`], [`register_type`] | the data type behind a safe trait |
//! | [`now_us`] | the clock |
//! | [`Spec`], [`Handler`], [`create_command`], [`add_category`] | commands |
//! | [`BoolOption`], [`load_options`] | `limiter.*` options |
//! | [`InfoSource`], [`Info`], [`register_info`] | sections of INFO |
//! | [`log`], [`Failed`] | static log lines; why the module cannot load |
//! | [`random_bytes16`] | lease ids |
//!
//! A writing command, in this order:
//!
//! ```text
//! let name = args.key()?;                         parse everything first:
//! let mut cursor = Cursor::new(*args, 2); …       errors must leave nothing changed
//! let mut key = Key::<T>::open(ctx, name);        `ctx` stays borrowed until the key is closed
//! match key.kind() { Kind::… }                    decide
//! key.value_mut()  key.set_value(…)  key.delete() store
//! key.expire_ms()  key.set_expire_ms(…)           expire
//! key.replicate(c"RL.E", &blob);                  replicate
//! key.close();
//! ctx.signal_modified(name);
//! ctx.notify(Self::SPEC.name, name);              runs code of other modules
//! ctx.reply_ints(&[…]);                           nothing fallible from here on
//! ```
//!
//! Debug builds (only) read `RL_PANIC_AT` when the module loads: the callback of that name panics. Names:
//! `load`, any command (`rl.info`), `getkeys`, `rdb_load`, `rdb_save`, `aof_rewrite`, `digest`,
//! `free`, `mem_usage`, `free_effort`, `copy`, `defrag`, `info`, `config_get`, `config_set`.

// The C API's constants are wider than the integers it takes; all are small.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod api;
mod args;
mod clock;
mod command;
mod config;
mod context;
mod datatype;
mod guard;
mod info;
mod key;
mod load;
pub mod log;
mod random;
mod spec;

pub use args::{Arg, Args};
pub use clock::now_us;
pub use command::{
    Category, Handler, KeyPositions, add_category, create as create_command,
    create_if_free as create_command_if_free,
};
pub use config::{BoolOption, load as load_options};
pub use context::Ctx;
pub use datatype::{NativeType, TypeSlot, register as register_type};
pub use info::{Info, InfoSource, register as register_info};
pub use key::{Key, KeyView, Kind};
pub use load::{Failed, declare_options};
pub use random::bytes16 as random_bytes16;
pub use spec::{Access, ArgSpec, KeySpec, Spec};

/// Memory is the server's, so that `maxmemory` and INFO see it. Unit tests run without a server.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: redis_module::alloc::RedisAlloc = redis_module::alloc::RedisAlloc;
