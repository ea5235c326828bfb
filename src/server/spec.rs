//! What the server is told of a command: COMMAND INFO, COMMAND DOCS, ACL and key positions.

use std::ffi::CStr;

/// All about one command. Built in a const, next to the command.
#[derive(Clone, Copy)]
pub struct Spec {
    /// Its name in lower case, as the servers show their own (also for its keyspace event).
    pub name: &'static CStr,
    /// Flags of CreateCommand, such as `write fast`. The server refuses words it does not know.
    pub flags: &'static CStr,
    /// ACL categories of the server's own, such as `write fast`. Flags alone set none.
    pub acl: &'static CStr,
    /// Where its keys are.
    pub keys: KeySpec,
    /// How many arguments with the name; −n for at least n.
    pub arity: i32,
    /// One line.
    pub summary: &'static CStr,
    /// The version of the module that introduced it.
    pub since: &'static CStr,
    /// Its cost.
    pub complexity: &'static CStr,
    /// Hints for clients, such as `nondeterministic_output`, or empty.
    pub tips: &'static CStr,
    /// Its arguments.
    pub args: &'static [ArgSpec],
}

/// What a command does to its keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Looks at them (`RO`, `ACCESS`).
    Read,
    /// Looks at them and changes them (`RW`, `ACCESS`, `UPDATE`).
    Write,
}

/// Where the keys of a command are.
#[derive(Clone, Copy)]
pub enum KeySpec {
    /// Nowhere.
    None,
    /// The first argument.
    First(Access),
    /// One after each `keyword`; the command says where. Its flags must hold `getkeys-api`.
    After {
        /// What the command does to them.
        access: Access,
        /// The word before each key.
        keyword: &'static CStr,
    },
}

/// What an argument is.
#[derive(Clone, Copy)]
pub enum ArgKind {
    /// Any bytes.
    Text,
    /// An integer.
    Integer,
    /// A key.
    Key,
    /// Its token alone.
    Token,
    /// One of these.
    OneOf(&'static [ArgSpec]),
    /// All of these, in this order.
    Block(&'static [ArgSpec]),
}

/// One argument in COMMAND DOCS.
#[derive(Clone, Copy)]
pub struct ArgSpec {
    /// Its name.
    pub name: &'static CStr,
    /// What it is.
    pub kind: ArgKind,
    /// The keyword before it.
    pub token: Option<&'static CStr>,
    /// Whether it may be missing.
    pub optional: bool,
    /// Whether it may come more than once.
    pub multiple: bool,
    /// Whether its token is repeated then, too.
    pub multiple_token: bool,
}

impl ArgSpec {
    const fn new(name: &'static CStr, kind: ArgKind) -> Self {
        Self { name, kind, token: None, optional: false, multiple: false, multiple_token: false }
    }

    /// A key.
    #[must_use]
    pub const fn key(name: &'static CStr) -> Self {
        Self::new(name, ArgKind::Key)
    }

    /// Any bytes.
    #[must_use]
    pub const fn text(name: &'static CStr) -> Self {
        Self::new(name, ArgKind::Text)
    }

    /// An integer.
    #[must_use]
    pub const fn integer(name: &'static CStr) -> Self {
        Self::new(name, ArgKind::Integer)
    }

    /// A keyword alone.
    #[must_use]
    pub const fn flag(name: &'static CStr, token: &'static CStr) -> Self {
        Self::new(name, ArgKind::Token).after(token)
    }

    /// One of `choices`.
    #[must_use]
    pub const fn one_of(name: &'static CStr, choices: &'static [Self]) -> Self {
        Self::new(name, ArgKind::OneOf(choices))
    }

    /// All of `parts`.
    #[must_use]
    pub const fn block(name: &'static CStr, parts: &'static [Self]) -> Self {
        Self::new(name, ArgKind::Block(parts))
    }

    /// The same after the keyword `token`.
    #[must_use]
    pub const fn after(self, token: &'static CStr) -> Self {
        Self { token: Some(token), ..self }
    }

    /// The same, and it may be missing.
    #[must_use]
    pub const fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// The same, and more of them may follow.
    #[must_use]
    pub const fn multiple(self) -> Self {
        Self { multiple: true, ..self }
    }

    /// The same, and more of them may follow, each after its keyword.
    #[must_use]
    pub const fn multiple_token(self) -> Self {
        Self { multiple: true, multiple_token: true, ..self }
    }
}
