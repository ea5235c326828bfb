//! Commands: the function the server calls, and telling the server about it.

use super::api::{api, optional};
use super::args::Args;
use super::context::{Ctx, int};
use super::guard::guard;
use super::load::Failed;
use super::log;
use super::spec::{Access, ArgKind, ArgSpec, KeySpec, Spec};
use crate::error::Error;
use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};
use std::ffi::{CStr, CString, c_int};
use std::ptr;

/// What runs when a command is called.
pub trait Handler {
    /// What the server is told of it.
    const SPEC: Spec;

    /// Runs the command and replies. If it panics, it must not have replied before.
    fn answer(ctx: &mut Ctx<'_>, args: &Args<'_>);

    /// Finds the keys of a call, for [`KeySpec::After`]. The call may be malformed.
    fn find_keys(_args: &Args<'_>, _found: &mut KeyPositions<'_>) {}
}

/// Where the keys of a call are, as the server asks before it runs it.
pub struct KeyPositions<'a> {
    ctx: &'a Ctx<'a>,
    len: usize,
    flags: c_int,
}

impl KeyPositions<'_> {
    /// Argument `index` is a key. One that does not exist is ignored: the server would believe it.
    pub fn add(&mut self, index: usize) {
        if let Some(position) =
            c_int::try_from(index).ok().filter(|_| (1..self.len).contains(&index))
        {
            // SAFETY: the context is that of a key position request.
            unsafe {
                api!(RedisModule_KeyAtPosWithFlags)(self.ctx.as_raw(), position, self.flags);
            }
        }
    }
}

/// # Safety
/// Only for the server.
unsafe extern "C" fn call<H: Handler>(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: context and arguments live until this function returns, and are used only here.
    let (mut ctx, args) = unsafe { (Ctx::from_raw(ctx), Args::from_raw(argv, argc)) };
    if let KeySpec::After { access, .. } = H::SPEC.keys
        && is_keys_request(&ctx)
    {
        let flags = int(key_flags(access));
        let mut found = KeyPositions { ctx: &ctx, len: args.len(), flags };
        guard(c"getkeys", (), || H::find_keys(&args, &mut found));
        return raw::REDISMODULE_OK as c_int;
    }
    let answered = guard(H::SPEC.name, false, || {
        H::answer(&mut ctx, &args);
        true
    });
    if !answered {
        ctx.reply_error(Error::INTERNAL);
    }
    raw::REDISMODULE_OK as c_int
}

fn is_keys_request(ctx: &Ctx<'_>) -> bool {
    // SAFETY: the context lives.
    unsafe { api!(RedisModule_IsKeysPositionRequest)(ctx.as_raw()) != 0 }
}

const fn key_flags(access: Access) -> u32 {
    match access {
        Access::Read => raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
        Access::Write => {
            raw::REDISMODULE_CMD_KEY_RW
                | raw::REDISMODULE_CMD_KEY_ACCESS
                | raw::REDISMODULE_CMD_KEY_UPDATE
        }
    }
}

/// The ACL category of our own, if the server lets modules have one.
#[derive(Clone, Copy)]
pub struct Category(Option<&'static CStr>);

impl Category {
    /// For commands that are not in it.
    pub const NONE: Self = Self(None);
}

/// Adds an ACL category. Only while the module loads, before its commands.
pub fn add_category(ctx: &mut Ctx<'_>, name: &'static CStr) -> Category {
    // A server that has unloaded the module (Redis 8, after a wrong MODULE LOADEX) keeps its category:
    // EBUSY.
    // SAFETY: the function table is only read; the context is that of OnLoad. errno is this thread's.
    let added = unsafe {
        optional!(RedisModule_AddACLCategory).map(|add| {
            *libc::__errno_location() = 0;
            add(ctx.as_raw(), name.as_ptr()) == raw::REDISMODULE_OK as c_int
                || *libc::__errno_location() == libc::EBUSY
        })
    };
    if added == Some(false) {
        log::warning_about(c"the server refuses the ACL category ", name);
    }
    Category(added.filter(|&done| done).map(|_| name))
}

/// Creates the command of `H`, in the ACL categories that it names and in `category`. Only while the
/// module loads. Fails if the name is taken.
pub fn create<H: Handler>(ctx: &mut Ctx<'_>, category: Category) -> Result<(), Failed> {
    let created = create_if_free::<H>(ctx, category)?;
    if created { Ok(()) } else { Err(Failed::about(c"the server refuses ", H::SPEC.name)) }
}

/// As [`create`]; answers `false` if the name is taken.
pub fn create_if_free<H: Handler>(ctx: &mut Ctx<'_>, category: Category) -> Result<bool, Failed> {
    let spec = &H::SPEC;
    let (name, flags) = (spec.name.as_ptr(), spec.flags.as_ptr());
    // SAFETY: the context is that of OnLoad; all texts end in NUL and are copied. Key positions
    // follow with the command's info.
    let command = unsafe {
        let created =
            api!(RedisModule_CreateCommand)(ctx.as_raw(), name, Some(call::<H>), flags, 0, 0, 0);
        if created != raw::REDISMODULE_OK as c_int {
            return Ok(false);
        }
        api!(RedisModule_GetCommand)(ctx.as_raw(), name)
    };
    set_info(command, spec)?;
    set_categories(command, spec, category)?;
    Ok(true)
}

fn set_categories(
    command: *mut raw::RedisModuleCommand,
    spec: &Spec,
    category: Category,
) -> Result<(), Failed> {
    // SAFETY: the function table is only read.
    let Some(set) = (unsafe { optional!(RedisModule_SetCommandACLCategories) }) else {
        return Ok(());
    };
    let mut names = spec.acl.to_bytes().to_vec();
    if let Some(own) = category.0 {
        names.push(b' ');
        names.extend_from_slice(own.to_bytes());
    }
    let refused = Failed::about(c"the server refuses the ACL categories of ", spec.name);
    let names = CString::new(names).map_err(|_| refused)?;
    // SAFETY: the command was just created; the text ends in NUL and is copied.
    let answer = unsafe { set(command, names.as_ptr()) };
    Failed::unless(answer, c"").map_err(|_| refused)
}

/// The sizes of the structs below, by which the server walks through them. The header's own constant
/// is a C static that bindings cannot reach.
static INFO_VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

fn set_info(command: *mut raw::RedisModuleCommand, spec: &Spec) -> Result<(), Failed> {
    let mut keys = key_specs(spec.keys);
    let mut arena = Vec::new();
    let info = raw::RedisModuleCommandInfo {
        version: &raw const INFO_VERSION,
        summary: spec.summary.as_ptr(),
        complexity: spec.complexity.as_ptr(),
        since: spec.since.as_ptr(),
        history: ptr::null_mut(),
        tips: if spec.tips.is_empty() { ptr::null() } else { spec.tips.as_ptr() },
        arity: spec.arity,
        key_specs: keys.as_mut_ptr(),
        args: args(spec.args, &mut arena),
    };
    // SAFETY: the command was just created; everything in `info` lives and is copied.
    let answer = unsafe { api!(RedisModule_SetCommandInfo)(command, &raw const info) };
    Failed::unless(answer, c"")
        .map_err(|_| Failed::about(c"the server refuses the description of ", spec.name))
}

/// The key specs, and the empty one that ends them.
fn key_specs(keys: KeySpec) -> Vec<raw::RedisModuleCommandKeySpec> {
    let mut specs = Vec::new();
    match keys {
        KeySpec::First(access) => {
            let mut spec = one_key(key_flags(access));
            spec.begin_search_type =
                raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
            spec.bs.index.pos = 1;
            specs.push(spec);
        }
        KeySpec::After { access, keyword } => {
            // More may follow, so the server asks the command.
            let mut spec = one_key(key_flags(access) | raw::REDISMODULE_CMD_KEY_INCOMPLETE);
            spec.begin_search_type =
                raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD;
            spec.bs.keyword.keyword = keyword.as_ptr();
            spec.bs.keyword.startfrom = 1;
            specs.push(spec);
        }
    }
    specs.push(no_key());
    specs
}

fn one_key(flags: u32) -> raw::RedisModuleCommandKeySpec {
    let mut spec = no_key();
    spec.flags = u64::from(flags);
    spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    spec.fk.range.lastkey = 0;
    spec.fk.range.keystep = 1;
    spec.fk.range.limit = 0;
    spec
}

fn no_key() -> raw::RedisModuleCommandKeySpec {
    // SAFETY: a C struct of numbers and pointers, for which all zero means "none".
    unsafe { std::mem::zeroed() }
}

type ArgList = Vec<raw::RedisModuleCommandArg>;

/// The arguments and the empty one that ends them, kept alive in `arena`. Null for none.
fn args(specs: &[ArgSpec], arena: &mut Vec<ArgList>) -> *mut raw::RedisModuleCommandArg {
    if specs.is_empty() {
        return ptr::null_mut();
    }
    let mut list: ArgList = specs.iter().map(|spec| arg(spec, arena)).collect();
    // SAFETY: a C struct of numbers and pointers, for which all zero means "none".
    list.push(unsafe { std::mem::zeroed() });
    let start = list.as_mut_ptr();
    // Moving the list does not move its elements.
    arena.push(list);
    start
}

fn arg(spec: &ArgSpec, arena: &mut Vec<ArgList>) -> raw::RedisModuleCommandArg {
    let (kind, parts): (_, &[ArgSpec]) = match spec.kind {
        ArgKind::Text => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING, &[]),
        ArgKind::Integer => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER, &[]),
        ArgKind::Key => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY, &[]),
        ArgKind::Token => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN, &[]),
        ArgKind::OneOf(choices) => {
            (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF, choices)
        }
        ArgKind::Block(parts) => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK, parts),
    };
    let flag = |set: bool, bit: u32| if set { int(bit) } else { 0 };
    raw::RedisModuleCommandArg {
        name: spec.name.as_ptr(),
        type_: kind,
        key_spec_index: if matches!(spec.kind, ArgKind::Key) { 0 } else { -1 },
        token: spec.token.map_or(ptr::null(), CStr::as_ptr),
        summary: ptr::null(),
        since: ptr::null(),
        flags: flag(spec.optional, raw::REDISMODULE_CMD_ARG_OPTIONAL)
            | flag(spec.multiple, raw::REDISMODULE_CMD_ARG_MULTIPLE)
            | flag(spec.multiple_token, raw::REDISMODULE_CMD_ARG_MULTIPLE_TOKEN),
        deprecated_since: ptr::null(),
        subargs: args(parts, arena),
        display_text: ptr::null(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_specs_end_with_an_empty_one() {
        let first = key_specs(KeySpec::First(Access::Read));
        assert_eq!((first.len(), first[0].flags), (2, 1 | 16));
        let after = key_specs(KeySpec::After { access: Access::Write, keyword: c"KEY" });
        assert_eq!((after.len(), after[0].flags), (2, 2 | 16 | 32 | 512));
        assert_eq!(after[1].begin_search_type, 0);
    }

    #[test]
    fn nested_arguments_stay_in_place_and_end_with_an_empty_one() {
        const PARTS: &[ArgSpec] = &[ArgSpec::integer(c"limit"), ArgSpec::flag(c"log", c"LOG")];
        const ARGS: &[ArgSpec] = &[
            ArgSpec::key(c"key"),
            ArgSpec::block(c"layer", PARTS).multiple(),
            ArgSpec::text(c"name").after(c"AS").optional(),
        ];
        let mut arena = Vec::new();
        let list = args(ARGS, &mut arena);
        // SAFETY: both lists live in the arena and have as many elements as their specs, plus one.
        let (list, parts) = unsafe {
            let list = std::slice::from_raw_parts(list, ARGS.len() + 1);
            (list, std::slice::from_raw_parts(list[1].subargs, PARTS.len() + 1))
        };
        let indexes: Vec<_> = list.iter().map(|arg| arg.key_spec_index).collect();
        assert_eq!(indexes, [0, -1, -1, 0]);
        assert_eq!(list.iter().map(|arg| arg.flags).collect::<Vec<_>>(), [0, 2, 1, 0]);
        assert!(list[3].name.is_null() && parts[2].name.is_null());
        assert_eq!(parts[1].token, c"LOG".as_ptr());
        assert_eq!(args(&[], &mut arena), ptr::null_mut());
    }
}
