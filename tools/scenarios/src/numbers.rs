//! Numbers on a console, and the bounds that they have to be within.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The text before a number, and the least and the most that it may be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Numbers(BTreeMap<String, [f64; 2]>);

impl Numbers {
    /// Looks for each text in `words`: it must be there, and every number right behind it within
    /// the bounds.
    pub fn check(&self, words: &str) -> Result<()> {
        for (text, [least, most]) in &self.0 {
            ensure!(words.contains(text.as_str()), "nobody said {text:?}");
            for behind in words.split(text.as_str()).skip(1) {
                let number = number_at_start(behind)
                    .with_context(|| format!("no number comes behind {text:?}"))?;
                ensure!(
                    (*least..=*most).contains(&number),
                    "{text:?} says {number}, which is not within {least} and {most}"
                );
            }
        }
        Ok(())
    }
}

fn number_at_start(text: &str) -> Option<f64> {
    // A table puts numbers in columns.
    let text = text.trim_start_matches(' ');
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let digits = text.get(..end.unwrap_or(text.len()))?;
    // The full stop of a sentence does not belong to the number.
    digits.trim_end_matches('.').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Numbers {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn numbers_within_their_bounds_pass() {
        let wanted = numbers("'took ' = [10, 20.5]\n'and ' = [1, 1]");
        wanted
            .check("took 10 ns and 1.\ntook 20.5 ns, took    12.\n")
            .unwrap();
        numbers("").check("took 1 ns").unwrap();
    }

    #[test]
    fn everything_else_fails() {
        let wanted = numbers("'took ' = [10, 20]");
        let says = |words: &str| format!("{:#}", wanted.check(words).unwrap_err());
        assert_eq!(says("gave 12"), "nobody said \"took \"");
        assert_eq!(says("took long"), "no number comes behind \"took \"");
        assert_eq!(says("took -12"), "no number comes behind \"took \"");
        assert!(says("took 9.9 ns").contains("says 9.9, which is not within 10 and 20"));
        assert!(says("took 21").contains("says 21"));
        // One of several is enough.
        assert!(says("took 12, took 120").contains("says 120"));
    }
}
