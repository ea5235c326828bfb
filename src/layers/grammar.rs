//! The grammar under random token sequences: nothing panics, and whatever is accepted says the same
//! when it is printed again in one canonical form.

use super::{Call, Form, Layers, read_layers};
use crate::args::Cursor;
use crate::error::Error;
use crate::options::{self, Allowed, Options};
use proptest::prelude::*;
use redis_limiter_core::calendar::Anchor;
use redis_limiter_core::law::Charging;
use redis_limiter_core::limit::{Layer, MAX_LAYERS, Params};
use redis_limiter_core::units::{MAX_AMOUNT, Rate};
use redis_limiter_core::window::WindowMode;

type Token = Vec<u8>;

const FORMS: [Form; 3] = [Form::Take, Form::Peek, Form::Refund];

fn word(words: &'static [&'static str]) -> impl Strategy<Value = Token> {
    prop::sample::select(words).prop_map(|word| word.as_bytes().to_vec())
}

fn amount() -> impl Strategy<Value = Token> {
    let amount = prop_oneof![8 => 0..1000u64, 1 => Just(MAX_AMOUNT), 1 => any::<u64>()];
    amount.prop_map(|amount| amount.to_string().into_bytes())
}

fn duration() -> impl Strategy<Value = Token> {
    (prop_oneof![0..400u64, Just(16)], word(&["ms", "s", "m", "h", "d", "w", "", "x"]))
        .prop_map(|(count, unit)| [count.to_string().into_bytes(), unit].concat())
}

fn rate() -> impl Strategy<Value = Token> {
    word(&["50", "0.5", "300/1m", "300/m", "10/100ms", "1.000000/7d", "1/366d", "0", "1e9"])
}

fn name() -> impl Strategy<Value = Token> {
    prop_oneof![
        word(&["a", "reports", "AS", "BUCKET", "KEY", "0", ""]),
        prop::collection::vec(any::<u8>(), 0..4),
        Just(vec![b'n'; 128]),
        Just(vec![b'n'; 129]),
    ]
}

fn zone() -> impl Strategy<Value = Token> {
    word(&["UTC", "Europe/Berlin", "europe/berlin", "Asia/Gaza", "Mars/Base", ""])
}

fn anchor() -> impl Strategy<Value = Token> {
    word(&["1", "15", "31", "32", "mon", "SUN", "", "99999999999999999999"])
}

fn keyword(word: &'static str) -> impl Strategy<Value = Token> {
    prop_oneof![
        4 => Just(word.as_bytes().to_vec()),
        1 => Just(word.to_ascii_lowercase().into_bytes()),
    ]
}

/// An option with its value.
fn option() -> impl Strategy<Value = Vec<Token>> {
    let with = |word: &'static str, value: BoxedStrategy<Token>| {
        (keyword(word), value).prop_map(|(word, value)| vec![word, value]).boxed()
    };
    let alone = |word: &'static str| keyword(word).prop_map(|word| vec![word]).boxed();
    prop_oneof![
        3 => with("AS", name().boxed()),
        3 => with("COST", amount().boxed()),
        2 => with("LEAVE", amount().boxed()),
        1 => with("TZ", zone().boxed()),
        1 => with("ANCHOR", anchor().boxed()),
        2 => with("ID", name().boxed()),
        1 => with("AGE", prop_oneof![duration(), word(&["0", "00", "0s"])].boxed()),
        1 => with("MAXWAIT", duration().boxed()),
        1 => alone("SLIDING"),
        1 => alone("FIXED"),
        1 => alone("LOG"),
        1 => alone("FORCE"),
        1 => alone("UPTO"),
        1 => alone("NX"),
        1 => alone("DETAIL"),
    ]
}

fn options_of(words: &'static [&'static str]) -> impl Strategy<Value = Vec<Token>> {
    let fits = move |option: &Vec<Token>| {
        words.iter().any(|word| option[0].eq_ignore_ascii_case(word.as_bytes()))
    };
    prop::collection::vec(option().prop_filter("an option of this kind", fits), 0..4)
        .prop_map(|options| options.concat())
}

/// A layer that is mostly right.
fn layer() -> impl Strategy<Value = Vec<Token>> {
    let period = word(&["minute", "hour", "day", "WEEK", "month", "year", "decade"]);
    let start = |word, one: BoxedStrategy<Token>, other: BoxedStrategy<Token>, options| {
        (keyword(word), one, other, options_of(options))
            .prop_map(|(word, one, other, options)| [vec![word, one, other], options].concat())
            .boxed()
    };
    prop_oneof![
        start("BUCKET", rate().boxed(), amount().boxed(), &["AS", "COST", "LEAVE"]),
        start(
            "WINDOW",
            duration().boxed(),
            amount().boxed(),
            &["AS", "COST", "LEAVE", "SLIDING", "FIXED", "LOG"]
        ),
        start("QUOTA", period.boxed(), amount().boxed(), &["AS", "COST", "LEAVE", "TZ", "ANCHOR"]),
        start("LEASE", amount().boxed(), duration().boxed(), &["AS", "COST", "ID", "LEAVE"]),
    ]
}

#[derive(Clone, Debug)]
enum Mutation {
    Remove,
    Repeat,
    Swap(prop::sample::Index),
    Replace(Vec<Token>),
    Byte(prop::sample::Index, u8),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        Just(Mutation::Remove),
        Just(Mutation::Repeat),
        any::<prop::sample::Index>().prop_map(Mutation::Swap),
        option().prop_map(Mutation::Replace),
        (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Byte(at, byte)),
    ]
}

fn mutate(tokens: &mut Vec<Token>, at: prop::sample::Index, mutation: Mutation) {
    if tokens.is_empty() {
        return;
    }
    let at = at.index(tokens.len());
    match mutation {
        Mutation::Remove => drop(tokens.remove(at)),
        Mutation::Repeat => tokens.insert(at, tokens[at].clone()),
        Mutation::Swap(other) => {
            let other = other.index(tokens.len());
            tokens.swap(at, other);
        }
        Mutation::Replace(with) => drop(tokens.splice(at..=at, with)),
        Mutation::Byte(place, byte) if !tokens[at].is_empty() => {
            let place = place.index(tokens[at].len());
            tokens[at][place] = byte;
        }
        Mutation::Byte(_, byte) => tokens[at].push(byte),
    }
}

/// What follows the key of a call: mostly right, now and then changed in a few places.
fn call() -> impl Strategy<Value = Vec<Token>> {
    let mutations = prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::collection::vec((any::<prop::sample::Index>(), mutation()), 1..4),
    ];
    let layers = prop_oneof![9 => 1..5usize, 1 => 30..35usize]
        .prop_flat_map(|count| prop::collection::vec(layer(), count));
    (options_of(&["COST", "FORCE", "AGE", "DETAIL"]), layers, mutations).prop_map(
        |(options, layers, mutations)| {
            let mut tokens = [options, layers.concat()].concat();
            mutations.into_iter().for_each(|(at, mutation)| mutate(&mut tokens, at, mutation));
            tokens
        },
    )
}

fn refs(tokens: &[Token]) -> Vec<&[u8]> {
    tokens.iter().map(Vec::as_slice).collect()
}

fn parse<'a>(tokens: &'a [&'a [u8]], form: Form) -> Result<(Call, Vec<Layer<'a>>), Error> {
    let mut cursor = Cursor::new(tokens, 0);
    let call = Call::read(&mut cursor, form)?;
    let mut layers = Layers::new();
    read_layers(&mut cursor, form, &call, &mut layers)?;
    cursor.finish(Error::LAYER)?;
    Ok((call, layers.to_vec()))
}

fn meaning((call, layers): &(Call, Vec<Layer>)) -> String {
    format!("{} {} {} {} {layers:?}", call.cost, call.force, call.age_us, call.detail)
}

/// The call with nothing left to a default.
fn print((call, layers): &(Call, Vec<Layer>), form: Form, source: &[&[u8]]) -> Vec<Token> {
    let mut out = Printer(Vec::new());
    out.value("COST", call.cost);
    if call.force {
        out.word("FORCE");
    }
    if form == Form::Refund {
        out.pair("AGE", format!("{}ms", call.age_us / 1000));
    }
    if call.detail {
        out.word("DETAIL");
    }
    for layer in layers {
        out.layer(layer, source);
    }
    out.0
}

struct Printer(Vec<Token>);

impl Printer {
    fn word(&mut self, word: impl AsRef<[u8]>) {
        self.0.push(word.as_ref().to_vec());
    }

    fn pair(&mut self, word: &str, value: impl AsRef<[u8]>) {
        self.word(word);
        self.word(value);
    }

    fn value(&mut self, word: &str, value: u64) {
        self.pair(word, value.to_string());
    }

    fn layer(&mut self, layer: &Layer, source: &[&[u8]]) {
        self.params(&layer.params, source);
        if let Some(name) = layer.name {
            self.pair("AS", name);
        }
        self.value("COST", layer.ask.cost);
        if layer.ask.charging != Charging::Force {
            self.value("LEAVE", layer.ask.leave);
        }
    }

    /// A rate or an anchor has no text of its own: it is one of the tokens it was read from.
    fn params(&mut self, params: &Params, source: &[&[u8]]) {
        match params {
            Params::Bucket { rate, burst } => {
                let is_it = |token: &&&[u8]| Rate::parse(token) == Some(*rate);
                self.pair("BUCKET", source.iter().find(is_it).unwrap());
                self.word(burst.to_string());
            }
            Params::Window { mode, length_ms, limit } => {
                self.pair("WINDOW", format!("{length_ms}ms"));
                self.word(limit.to_string());
                self.word(match mode {
                    WindowMode::Sliding => "SLIDING",
                    WindowMode::Fixed => "FIXED",
                    WindowMode::Log => "LOG",
                });
            }
            Params::Quota { period, zone, anchor, limit } => {
                self.pair("QUOTA", period.name());
                self.word(limit.to_string());
                if period.has_zone() {
                    self.pair("TZ", zone.name());
                }
                if *anchor != Anchor::FIRST {
                    let is_it = |token: &&&[u8]| Anchor::parse(*period, token) == Some(*anchor);
                    self.pair("ANCHOR", source.iter().find(is_it).unwrap());
                }
            }
            Params::Lease { limit, ttl_ms, id, nx } => {
                assert!(!nx, "no layer takes NX");
                self.value("LEASE", *limit);
                self.word(format!("{ttl_ms}ms"));
                if let Some(id) = id {
                    self.pair("ID", id);
                }
            }
        }
    }
}

fn check(tokens: &[Token]) {
    let tokens = refs(tokens);
    for form in FORMS {
        let parsed = match parse(&tokens, form) {
            Ok(parsed) => parsed,
            Err(error) => {
                assert!(error.text().to_bytes().starts_with(b"ERR "));
                continue;
            }
        };
        let (call, layers) = &parsed;
        assert!((1..=MAX_LAYERS).contains(&layers.len()));
        assert!(!call.force || form == Form::Take);
        for layer in layers {
            assert!(layer.ask.cost.max(layer.ask.leave).max(layer.capacity()) <= MAX_AMOUNT);
        }
        let mut again = print(&parsed, form, &tokens);
        let canonical = refs(&again);
        let reparsed = parse(&canonical, form).map(|parsed| meaning(&parsed));
        assert_eq!(reparsed, Ok(meaning(&parsed)), "{canonical:?}");
        // Nothing may be left over.
        again.push(b"\xff".to_vec());
        assert!(parse(&refs(&again), form).is_err());
    }
}

/// Every option of the commands on one limit, whose cost stands before them.
const EVERYTHING: Allowed = Allowed {
    charging: true,
    maxwait: true,
    cost: false,
    leave: true,
    mode: true,
    calendar: true,
    id: true,
    nx: true,
};

/// What the arguments of a command on one limit say.
fn single(tokens: &[&[u8]]) -> Result<String, Error> {
    let mut cursor = Cursor::new(tokens, 0);
    let cost = options::cost(&mut cursor, Error::COST)?;
    let options = Options::read(&mut cursor, EVERYTHING)?;
    cursor.finish(Error::BUCKET_SYNTAX)?;
    let Options { name, mode, zone, anchor, id, nx, .. } = options;
    let ask = options.ask(cost)?;
    let texts = [name, zone, anchor, id];
    Ok(format!("{ask:?} {mode:?} {texts:?} {nx}"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn any_call_is_refused_or_says_the_same_again(tokens in call()) {
        check(&tokens);
    }

    #[test]
    fn loose_tokens(tokens in prop::collection::vec(prop_oneof![
        4 => option(),
        2 => word(&["BUCKET", "window", "QUOTA", "LEASE", "KEY"]).prop_map(|token| vec![token]),
        2 => prop_oneof![amount(), duration(), rate(), name()].prop_map(|token| vec![token]),
        1 => layer(),
    ], 0..24)) {
        check(&tokens.concat());
    }

    /// The order of options does not matter, nor does the case of their names.
    #[test]
    fn options_in_any_order(
        cost in prop::option::of(amount()),
        options in prop::collection::vec(option(), 0..6).prop_shuffle(),
    ) {
        let said = |options: &[Vec<Token>]| {
            let tokens = [cost.clone().into_iter().collect(), options.concat()].concat();
            single(&refs(&tokens))
        };
        let first = said(&options);
        let mut turned = options;
        turned.reverse();
        turned.iter_mut().for_each(|option| option[0].make_ascii_lowercase());
        match (first, said(&turned)) {
            (Ok(first), turned) => prop_assert_eq!(Ok(first), turned),
            (Err(_), turned) => prop_assert!(turned.is_err()),
        }
    }
}
