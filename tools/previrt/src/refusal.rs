//! Why a file is not scanned or patched.
//!
//! A file that is passed on unpatched by mistake becomes a guest that goes wrong without a
//! word, so whatever is not understood is refused, with the reason and what to do about it.

use thiserror::Error;

/// A file is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}: {why}; {remedy}")]
pub struct Refusal {
    /// What is wrong.
    pub what: String,
    /// The rule that it breaks, or how it shows.
    pub why: String,
    /// What would mend it.
    pub remedy: String,
}

impl Refusal {
    /// A refusal of these words.
    pub fn new(what: impl Into<String>, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            why: why.into(),
            remedy: remedy.into(),
        }
    }

    /// The file is damaged, as `why` shows.
    pub fn damaged(why: impl Into<String>) -> Self {
        Self::new("this file is damaged", why, "download or build it again")
    }
}

/// What may be refused.
pub type Result<T> = std::result::Result<T, Refusal>;
