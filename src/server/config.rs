//! Options of the module: `limiter.<name>` in redis.conf and CONFIG, `<name> <value>` (or
//! `limiter.<name> <value>`) as arguments of loadmodule, which win.

use super::api::api;
use super::args::Args;
use super::context::{Ctx, int};
use super::guard::guard;
use super::load::Failed;
use redis_module::raw::{self, RedisModuleString};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// An option that is `yes` or `no`: a static.
pub struct BoolOption {
    name: &'static CStr,
    default: bool,
    /// Only redis.conf and loadmodule can set it.
    at_load_only: bool,
    value: AtomicBool,
}

impl BoolOption {
    /// An option that CONFIG SET can change.
    #[must_use]
    pub const fn new(name: &'static CStr, default: bool) -> Self {
        Self { name, default, at_load_only: false, value: AtomicBool::new(default) }
    }

    /// An option that is read when the module loads.
    #[must_use]
    pub const fn at_load_only(name: &'static CStr, default: bool) -> Self {
        Self { name, default, at_load_only: true, value: AtomicBool::new(default) }
    }

    /// Its value.
    #[must_use]
    pub fn get(&self) -> bool {
        self.value.load(Ordering::Relaxed)
    }

    fn set(&self, value: bool) {
        self.value.store(value, Ordering::Relaxed);
    }
}

/// Registers `options` and gives them their values. Once, while the module loads; without it the
/// server does not start.
pub fn load(
    ctx: &mut Ctx<'_>,
    options: &'static [&'static BoolOption],
    args: &Args<'_>,
) -> Result<(), Failed> {
    let given =
        parse(options, (0..args.len()).filter_map(|at| args.get(at)).map(|arg| arg.bytes()))?;
    for option in options {
        register(ctx, option)?;
    }
    // SAFETY: the context is that of OnLoad.
    let answer = unsafe { api!(RedisModule_LoadConfigs)(ctx.as_raw()) };
    Failed::unless(answer, c"a limiter option in redis.conf is not valid")?;
    for (option, value) in given {
        option.set(value);
    }
    Ok(())
}

/// The arguments of loadmodule: pairs of an option and its value.
fn parse<'a>(
    options: &[&'static BoolOption],
    mut args: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<(&'static BoolOption, bool)>, Failed> {
    let mut given = Vec::new();
    while let Some(name) = args.next() {
        let name = name.strip_prefix(b"limiter.").unwrap_or(name);
        let option = options
            .iter()
            .find(|option| option.name.to_bytes().eq_ignore_ascii_case(name))
            .ok_or(Failed::because(c"an argument of loadmodule names no option of the limiter"))?;
        let value = args
            .next()
            .and_then(parse_bool)
            .ok_or(Failed::about(c"an argument of loadmodule must be yes or no: ", option.name))?;
        given.push((*option, value));
    }
    Ok(given)
}

fn parse_bool(text: &[u8]) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case(b"yes") => Some(true),
        _ if text.eq_ignore_ascii_case(b"no") => Some(false),
        _ => None,
    }
}

fn register(ctx: &mut Ctx<'_>, option: &'static BoolOption) -> Result<(), Failed> {
    let flags = if option.at_load_only {
        raw::REDISMODULE_CONFIG_IMMUTABLE
    } else {
        raw::REDISMODULE_CONFIG_DEFAULT
    };
    // SAFETY: the context is that of OnLoad; the option is a static, as are the functions.
    let answer = unsafe {
        api!(RedisModule_RegisterBoolConfig)(
            ctx.as_raw(),
            option.name.as_ptr(),
            c_int::from(option.default),
            flags,
            Some(get),
            Some(set),
            None,
            ptr_of(option),
        )
    };
    Failed::unless(answer, c"cannot register an option")
}

fn ptr_of(option: &'static BoolOption) -> *mut c_void {
    std::ptr::from_ref(option).cast_mut().cast()
}

unsafe extern "C" fn get(_name: *const c_char, option: *mut c_void) -> c_int {
    // SAFETY: what we registered: a static.
    guard(c"config_get", 0, || c_int::from(unsafe { &*option.cast::<BoolOption>() }.get()))
}

unsafe extern "C" fn set(
    _name: *const c_char,
    value: c_int,
    option: *mut c_void,
    _error: *mut *mut RedisModuleString,
) -> c_int {
    guard(c"config_set", int(raw::REDISMODULE_ERR as u32), || {
        // SAFETY: what we registered: a static.
        unsafe { &*option.cast::<BoolOption>() }.set(value != 0);
        int(raw::REDISMODULE_OK as u32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    static FIRST: BoolOption = BoolOption::new(c"first", true);
    static SECOND: BoolOption = BoolOption::at_load_only(c"second", false);

    fn parsed(args: &[&[u8]]) -> Option<Vec<(&'static CStr, bool)>> {
        let given = parse(&[&FIRST, &SECOND], args.iter().copied()).ok()?;
        Some(given.iter().map(|(option, value)| (option.name, *value)).collect())
    }

    #[test]
    fn arguments_of_loadmodule() {
        assert_eq!(parsed(&[]), Some(vec![]));
        assert_eq!(
            parsed(&[b"second", b"yes", b"limiter.first", b"NO"]),
            Some(vec![(c"second", true), (c"first", false)])
        );
        for bad in [
            &[&b"third"[..], b"yes"][..],
            &[b"first"],
            &[b"first", b"1"],
            &[b"first", b"", b"second", b"no"],
            &[b"limiter.", b"yes"],
            &[b""],
            &[b"\xff\0"],
        ] {
            assert_eq!(parsed(bad), None, "{bad:?}");
        }
    }
}
