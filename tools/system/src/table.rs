//! Reads a TOML table key by key, so that every fault in it is found and not only the first, each
//! with its line. (serde's `deny_unknown_fields` stops at the first one.)

use crate::diagnostic::{Report, Words, nearest};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A value and its place in the file.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) span: Range<usize>,
}

impl<T> At<T> {
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> At<U> {
        At {
            value: change(self.value),
            span: self.span,
        }
    }
}

impl At<String> {
    /// Returns what `form` makes of the text; what it refuses goes to the report.
    pub(crate) fn judged<T>(
        self,
        report: &mut Report,
        form: impl FnOnce(String) -> Result<T, Words>,
    ) -> Option<At<T>> {
        let span = self.span;
        match form(self.value) {
            Ok(value) => Some(At { value, span }),
            Err(words) => {
                report.refuse(&span, words);
                None
            }
        }
    }
}

/// Parses `text` and passes the root table to `body`. A syntax error is the only diagnostic: what
/// was meant behind it is unknown.
pub(crate) fn document<T>(
    text: &str,
    report: &mut Report,
    body: impl FnOnce(&mut Reader<'_, '_>, &mut Report) -> Option<T>,
) -> Option<T> {
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let span = error.span().unwrap_or_default();
        let why = "the file does not follow TOML's grammar";
        let remedy = "compare with docs/describe-a-system.md";
        report.refuse(&span, Words::new(error.message(), why, remedy));
    }
    if !errors.is_empty() {
        return None;
    }
    let mut reader = Reader::new(root.get_ref(), root.span(), "the file");
    let value = body(&mut reader, report);
    reader.finish(report);
    value
}

/// A table that is being read.
pub(crate) struct Reader<'t, 'i> {
    table: &'t DeTable<'i>,
    pub(crate) span: Range<usize>,
    name: &'static str,
    known: Vec<&'static str>,
}

impl<'t, 'i> Reader<'t, 'i> {
    fn new(table: &'t DeTable<'i>, span: Range<usize>, name: &'static str) -> Self {
        Self {
            table,
            span,
            name,
            known: Vec::new(),
        }
    }

    /// The value of `key`, converted by `form`, which returns `None` for what is not `expected`.
    pub(crate) fn get<T>(
        &mut self,
        report: &mut Report,
        key: &'static str,
        expected: &str,
        form: impl FnOnce(&'t DeValue<'i>) -> Option<T>,
    ) -> Option<At<T>> {
        self.known.push(key);
        let found = self.table.get(key)?;
        let span = found.span();
        match form(found.get_ref()) {
            Some(value) => Some(At { value, span }),
            None => {
                let what = format!("the value of `{key}` is not {expected}");
                report.refuse(&span, Words::new(what, "", format!("write {expected}")));
                None
            }
        }
    }

    /// Whether the key is there, whatever its value.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// As [`Self::get`], and refuses a table without the key.
    pub(crate) fn require<T>(
        &mut self,
        report: &mut Report,
        key: &'static str,
        expected: &str,
        form: impl FnOnce(&'t DeValue<'i>) -> Option<T>,
    ) -> Option<At<T>> {
        if !self.table.contains_key(key) {
            let what = format!("`{key}` is missing in {}", self.name);
            let why = "it has no default";
            let remedy = format!("add `{key}` = {expected}");
            report.refuse(&self.span, Words::new(what, why, remedy));
        }
        self.get(report, key, expected, form)
    }

    /// Reads the table `key` by `body`; refuses its absence.
    pub(crate) fn table<T>(
        &mut self,
        report: &mut Report,
        key: &'static str,
        body: impl FnOnce(&mut Reader<'t, 'i>, &mut Report) -> T,
    ) -> Option<T> {
        let table = self.require(report, key, "a table", as_table)?;
        let mut reader = Reader::new(table.value, table.span, key);
        let value = body(&mut reader, report);
        reader.finish(report);
        Some(value)
    }

    /// As [`Self::table`], where the key may be missing.
    pub(crate) fn optional_table<T>(
        &mut self,
        report: &mut Report,
        key: &'static str,
        body: impl FnOnce(&mut Reader<'t, 'i>, &mut Report) -> T,
    ) -> Option<T> {
        if self.has(key) {
            self.table(report, key, body)
        } else {
            self.known.push(key);
            None
        }
    }

    /// Reads each item of the list `key`, which is `expected`: a word as it is, a table by `body`.
    pub(crate) fn words_or_tables<T>(
        &mut self,
        report: &mut Report,
        key: &'static str,
        expected: &str,
        word: impl Fn(String) -> T,
        mut body: impl FnMut(&mut Reader<'_, '_>, &mut Report) -> Option<T>,
    ) -> Vec<At<T>> {
        let items = self.get(report, key, expected, |value| {
            let DeValue::Array(items) = value else {
                return None;
            };
            let known = |item: &&toml::Spanned<DeValue<'_>>| {
                matches!(item.get_ref(), DeValue::Table(_)) || self::word(item.get_ref()).is_some()
            };
            items.iter().all(|item| known(&item)).then_some(items)
        });
        let items = items.into_iter().flat_map(|at| at.value);
        let read = |item: &'t toml::Spanned<DeValue<'i>>| {
            let value = match item.get_ref() {
                DeValue::Table(table) => {
                    let mut reader = Reader::new(table, item.span(), key);
                    let value = body(&mut reader, report);
                    reader.finish(report);
                    value
                }
                other => self::word(other).map(&word),
            };
            let span = item.span();
            value.map(|value| At { value, span })
        };
        items.filter_map(read).collect()
    }

    /// Reads each table of the array `key` by `body`; `None` where it is something else.
    pub(crate) fn tables<T>(
        &mut self,
        report: &mut Report,
        key: &'static str,
        mut body: impl FnMut(&mut Reader<'t, 'i>, &mut Report) -> T,
    ) -> Option<Vec<T>> {
        let missing = !self.table.contains_key(key);
        let expected = format!("a list of tables, each begun by [[{key}]]");
        let tables = self.get(report, key, &expected, tables);
        let read = |(table, span)| {
            let mut reader = Reader::new(table, span, key);
            let value = body(&mut reader, report);
            reader.finish(report);
            value
        };
        match tables {
            Some(tables) => Some(tables.value.into_iter().map(read).collect()),
            None => missing.then(Vec::new),
        }
    }

    /// Refuses every key that was not asked for.
    fn finish(self, report: &mut Report) {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if self.known.contains(&name) {
                continue;
            }
            let what = format!("unknown key `{name}` in {}", self.name);
            let why = format!("the keys here are {}", self.known.join(", "));
            let remedy = match nearest(name, self.known.iter().copied()) {
                Some(known) => format!("did you mean `{known}`?"),
                None => "remove it".to_owned(),
            };
            report.refuse(&key.span(), Words::new(what, why, remedy));
        }
    }
}

fn as_table<'t, 'i>(value: &'t DeValue<'i>) -> Option<&'t DeTable<'i>> {
    match value {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

fn tables<'t, 'i>(value: &'t DeValue<'i>) -> Option<Vec<(&'t DeTable<'i>, Range<usize>)>> {
    let DeValue::Array(array) = value else {
        return None;
    };
    let table =
        |item: &'t toml::Spanned<DeValue<'i>>| Some((as_table(item.get_ref())?, item.span()));
    array.iter().map(table).collect()
}

/// A string.
pub(crate) fn text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        _ => None,
    }
}

/// A string that is not empty.
pub(crate) fn word(value: &DeValue<'_>) -> Option<String> {
    text(value).filter(|text| !text.is_empty())
}

/// A whole number from zero.
pub(crate) fn number(value: &DeValue<'_>) -> Option<u64> {
    match value {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}

/// `true` or `false`.
pub(crate) fn truth(value: &DeValue<'_>) -> Option<bool> {
    match value {
        DeValue::Boolean(truth) => Some(*truth),
        _ => None,
    }
}

/// A time such as `"10ms"`, in microseconds.
pub(crate) fn time(value: &DeValue<'_>) -> Option<u64> {
    crate::time::parse(&text(value)?)
}

/// A time such as `"250us"`, in nanoseconds, of a schedule: zero is allowed here.
pub(crate) fn nanos(value: &DeValue<'_>) -> Option<u64> {
    crate::time::parse_nanos(&text(value)?)
}

/// A share from 0 to 100 percent, with up to three decimals, in thousandths of a percent: `"12.5 %"`.
pub(crate) fn percent(value: &DeValue<'_>) -> Option<u64> {
    let text = text(value)?;
    let number = text.strip_suffix('%')?.trim_end();
    let (whole, parts) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(parts) || parts.len() > 3 {
        return None;
    }
    let parts: u64 = format!("{parts:0<3}").parse().ok()?;
    let all = whole.parse::<u64>().ok()?.checked_mul(1000)? + parts;
    (1..=100_000).contains(&all).then_some(all)
}

/// A size such as `"512M"`.
pub(crate) fn size(value: &DeValue<'_>) -> Option<u64> {
    crate::size::parse(&text(value)?)
}

/// An array of which every item has the form `item`.
pub(crate) fn list<T>(
    value: &DeValue<'_>,
    item: impl Fn(&DeValue<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    match value {
        DeValue::Array(array) => array.iter().map(|value| item(value.get_ref())).collect(),
        _ => None,
    }
}

/// The expected form of a size, for messages.
pub(crate) const A_SIZE: &str = "a size such as \"512M\" or \"2G\"";

/// The expected form of a schedule's time, for messages.
pub(crate) const NANOS: &str = "a time such as \"800ns\", \"250us\", \"10ms\" or \"1s\"";

/// The expected form of a time, for messages.
pub(crate) const A_TIME: &str = "a time such as \"500us\", \"10ms\" or \"1s\"";
