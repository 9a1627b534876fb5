//! Passwords. None is a default: whoever makes an image says one, or reads a random one once.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

/// What is chosen on the command line, which everybody on the PC can read: so never the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A random one, printed once.
    Random,
    /// None: nobody logs in with a password.
    Locked,
    /// The first line of a file.
    File(PathBuf),
}

impl Choice {
    /// Parses `random`, `locked` or `file:PATH`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("file:")) {
            ("random", _) => Ok(Self::Random),
            ("locked", _) => Ok(Self::Locked),
            (_, Some(path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err("it is random, locked or file:PATH, such as file:password.txt".to_owned()),
        }
    }
}

/// A hash as crypt(5) has it.
pub fn hash(text: &str) -> Result<String, String> {
    let sound = |c: char| c.is_ascii_graphic() && !":*!\\'\"".contains(c);
    (text.starts_with('$') && text.matches('$').count() >= 3 && text.chars().all(sound))
        .then(|| text.to_owned())
        .ok_or_else(|| "a hash is such as $y$j9T$SALT$HASH; `mkpasswd` makes one".to_owned())
}

/// What the installation does with a password.
#[derive(Debug, PartialEq, Eq)]
pub struct Password {
    /// `plain`, `hash` or `locked`.
    pub kind: &'static str,
    /// The password, or its hash.
    pub text: String,
    /// Whether it is to be printed.
    pub random: bool,
}

impl Password {
    /// The password of a choice, or of a hash.
    pub fn of(choice: &Choice, hash: Option<&str>) -> Result<Self> {
        let (kind, text, random) = match (hash, choice) {
            (Some(hash), _) => ("hash", hash.to_owned(), false),
            (None, Choice::Locked) => ("locked", String::new(), false),
            (None, Choice::Random) => ("plain", random()?, true),
            (None, Choice::File(path)) => ("plain", of_file(path)?, false),
        };
        Ok(Self { kind, text, random })
    }
}

fn of_file(path: &PathBuf) -> Result<String> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the password in {}", path.display()))?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        bail!(
            "the first line of {} is empty: write the password there",
            path.display()
        );
    }
    ensure!(
        !line.chars().any(char::is_control) && line.len() <= 256,
        "the first line of {} is no password: it has control characters, or more than 256 bytes",
        path.display()
    );
    Ok(line.to_owned())
}

/// Without letters and digits that look alike.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// A random password of 80 bits.
fn random() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random bytes: {error}"))?;
    let letter = |byte: &u8| char::from(LETTERS[usize::from(byte % 32)]);
    Ok(bytes.iter().map(letter).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ones_are_long_and_unlike() {
        let make = || Password::of(&Choice::Random, None).unwrap();
        let (a, b) = (make(), make());
        assert!(a.random && a.text.len() == 16 && a.text != b.text);
    }

    #[test]
    fn a_file_s_first_line_is_the_password() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        fs::write(&path, "se:cret\nmore\n").unwrap();
        let choice = Choice::parse(&format!("file:{}", path.display())).unwrap();
        let password = Password::of(&choice, None).unwrap();
        assert_eq!(
            (password.kind, password.text.as_str()),
            ("plain", "se:cret")
        );
        for bad in ["", "\nx", "a\tb"] {
            fs::write(&path, bad).unwrap();
            assert!(Password::of(&choice, None).is_err(), "{bad:?}");
        }
    }
}
