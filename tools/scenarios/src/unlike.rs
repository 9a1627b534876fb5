//! What the consoles say that must be another one each time: seeds, in each VM and each boot.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The texts before what must be another one each time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Unlike(Vec<String>);

/// What followed them so far.
pub type Told = BTreeSet<(String, String)>;

impl Unlike {
    /// Looks for each text in `words`: it must be there, and what is behind it up to the end of its
    /// line neither empty nor in `told`, where it is put.
    pub fn check(&self, words: &str, told: &mut Told) -> Result<()> {
        for text in &self.0 {
            ensure!(words.contains(text.as_str()), "nobody said {text:?}");
            for behind in words.split(text.as_str()).skip(1) {
                let value = behind.lines().next().unwrap_or_default().trim();
                let value = Some(value).filter(|value| !value.is_empty());
                let value = value.with_context(|| format!("nothing comes behind {text:?}"))?;
                ensure!(
                    told.insert((text.clone(), value.to_owned())),
                    "{text:?} comes twice with {value:?}"
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_one_each_time_passes_and_nothing_else() {
        let unlike = Unlike(vec!["key ".to_owned(), "seed ".to_owned()]);
        let mut told = Told::new();
        let mut says = |words: &str| match unlike.check(words, &mut told) {
            Ok(()) => String::new(),
            Err(error) => format!("{error:#}"),
        };
        assert_eq!(says("key 1\nkey 2\r\nseed 1\n"), "");
        // The next boot, of another console.
        assert_eq!(says("seed 2\nkey 3\n"), "");
        assert_eq!(says("key 4\n"), "nobody said \"seed \"");
        assert_eq!(says("key 5\nseed 2\n"), "\"seed \" comes twice with \"2\"");
        assert_eq!(says("key 6\nkey 6\r\n"), "\"key \" comes twice with \"6\"");
        assert_eq!(says("key \nseed 3\n"), "nothing comes behind \"key \"");
    }
}
