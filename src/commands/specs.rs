//! Arguments that several commands have, as COMMAND DOCS shows them.

use crate::server::ArgSpec;

/// `key`
pub const KEY: ArgSpec = ArgSpec::key(c"key");
/// `rate`
pub const RATE: ArgSpec = ArgSpec::text(c"rate");
/// `burst`
pub const BURST: ArgSpec = ArgSpec::integer(c"burst");
/// `window`
pub const WINDOW: ArgSpec = ArgSpec::text(c"window");
/// `limit`
pub const LIMIT: ArgSpec = ArgSpec::integer(c"limit");
/// `ttl`
pub const TTL: ArgSpec = ArgSpec::text(c"ttl");
/// `[cost]`
pub const COST: ArgSpec = ArgSpec::integer(c"cost").optional();
/// `[SLIDING | FIXED | LOG]`
pub const MODE: ArgSpec = ArgSpec::one_of(
    c"mode",
    &[
        ArgSpec::flag(c"sliding", c"SLIDING"),
        ArgSpec::flag(c"fixed", c"FIXED"),
        ArgSpec::flag(c"log", c"LOG"),
    ],
)
.optional();
/// `minute | hour | day | week | month | year`
pub const PERIOD: ArgSpec = ArgSpec::one_of(
    c"period",
    &[
        ArgSpec::flag(c"minute", c"MINUTE"),
        ArgSpec::flag(c"hour", c"HOUR"),
        ArgSpec::flag(c"day", c"DAY"),
        ArgSpec::flag(c"week", c"WEEK"),
        ArgSpec::flag(c"month", c"MONTH"),
        ArgSpec::flag(c"year", c"YEAR"),
    ],
);
/// `[TZ zone]`
pub const ZONE: ArgSpec = ArgSpec::text(c"zone").after(c"TZ").optional();
/// `[ANCHOR n]`
pub const ANCHOR: ArgSpec = ArgSpec::text(c"anchor").after(c"ANCHOR").optional();
/// `[AS name]`
pub const NAME: ArgSpec = ArgSpec::text(c"name").after(c"AS").optional();
/// `[LEAVE n]`
pub const LEAVE: ArgSpec = ArgSpec::integer(c"leave").after(c"LEAVE").optional();
/// `[ID id]`
pub const ID: ArgSpec = ArgSpec::text(c"id").after(c"ID").optional();
/// `FORCE`
pub const FORCE: ArgSpec = ArgSpec::flag(c"force", c"FORCE");
/// `UPTO`
pub const UPTO: ArgSpec = ArgSpec::flag(c"upto", c"UPTO");
/// `[FORCE | UPTO]`
pub const CHARGING: ArgSpec = ArgSpec::one_of(c"charging", &[FORCE, UPTO]).optional();
/// `[DETAIL]`
pub const DETAIL: ArgSpec = ArgSpec::flag(c"detail", c"DETAIL").optional();
/// `[COST n]`
pub const CALL_COST: ArgSpec = ArgSpec::integer(c"cost").after(c"COST").optional();
/// `[AGE duration]`
pub const AGE: ArgSpec = ArgSpec::text(c"age").after(c"AGE").optional();

/// `layer [layer …]`
pub const LAYERS: ArgSpec = ArgSpec::block(
    c"layer",
    &[
        ArgSpec::one_of(
            c"limit",
            &[
                ArgSpec::block(c"bucket", &[RATE, BURST]).after(c"BUCKET"),
                ArgSpec::block(c"window", &[WINDOW, LIMIT, MODE]).after(c"WINDOW"),
                ArgSpec::block(c"quota", &[PERIOD, LIMIT, ZONE, ANCHOR]).after(c"QUOTA"),
                ArgSpec::block(c"lease", &[LIMIT, TTL, ID]).after(c"LEASE"),
            ],
        ),
        NAME,
        CALL_COST,
        LEAVE,
    ],
)
.multiple();

/// `KEY key layer [layer …] [KEY key layer …] …`
pub const KEYED_LAYERS: ArgSpec =
    ArgSpec::block(c"keyed-layers", &[KEY, LAYERS]).after(c"KEY").multiple_token();
