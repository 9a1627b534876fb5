//! Lines of words and `key=value`s, of requests and of the configuration.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::time;

/// The words of a line, of which each is taken once. What is left at the end was not understood.
#[derive(Debug)]
pub struct Keys<'a>(Vec<&'a str>);

impl<'a> Keys<'a> {
    /// The words of a line, behind its first one: that one, and these.
    pub fn of(line: &'a str) -> (&'a str, Self) {
        let mut words = line.split_ascii_whitespace();
        (words.next().unwrap_or_default(), Self(words.collect()))
    }

    /// The value of a key, if it is there.
    pub fn text(&mut self, key: &str) -> Option<&'a str> {
        let value = |word: &&'a str| word.strip_prefix(key)?.strip_prefix('=');
        let place = self.0.iter().position(|word| value(word).is_some())?;
        value(&self.0.remove(place))
    }

    /// Whether a word is there.
    pub fn word(&mut self, word: &str) -> bool {
        let place = self.0.iter().position(|other| *other == word);
        place.map(|place| self.0.remove(place)).is_some()
    }

    /// The value of a key that is a time.
    pub fn time(&mut self, key: &str) -> Result<Option<u64>, String> {
        self.parsed(
            key,
            time::parse,
            "a time such as 10ms or 250us, up to an hour",
        )
    }

    /// The value of a key that is a number.
    pub fn number(&mut self, key: &str) -> Result<Option<u32>, String> {
        let read = |text: &str| {
            text.parse()
                .ok()
                .filter(|number| *number <= i32::MAX as u32)
        };
        self.parsed(key, read, "a number")
    }

    fn parsed<T>(
        &mut self,
        key: &str,
        read: impl Fn(&str) -> Option<T>,
        what: &str,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        read(text)
            .map(Some)
            .ok_or_else(|| format!("{key} wants {what}"))
    }

    /// The next word that is not a key's.
    pub fn next_word(&mut self) -> Option<&'a str> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// An error if a word was not understood.
    pub fn end(&self) -> Result<(), String> {
        match self.0.first() {
            None => Ok(()),
            Some(word) => Err(format!("{word} is not known here, or is there twice")),
        }
    }
}

/// What is there, or an error that it is missing.
pub fn needed<T>(key: &str, value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| format!("{key} is missing"))
}

/// A name, which stands for a task in lines: letters, digits, dashes, dots and underlines.
pub fn name(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || text.len() > 32 || !text.bytes().all(fits) {
        return Err("a name has 1 to 32 letters, digits, dashes, dots or underlines".to_string());
    }
    Ok(text.to_string())
}
