//! The reasons why a file is not scanned or patched.
//!
//! A file that is passed on unpatched by mistake becomes a guest that silently goes wrong. So a
//! file that is not fully understood is refused, with the reason and a remedy.

use thiserror::Error;

/// Why a file is refused, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}: {why}; {remedy}")]
pub struct Refusal {
    /// What is wrong.
    pub what: String,
    /// The rule that the file breaks, or how the fault shows.
    pub why: String,
    /// What would mend it.
    pub remedy: String,
}

impl Refusal {
    /// A refusal with these words.
    pub fn new(what: impl Into<String>, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            why: why.into(),
            remedy: remedy.into(),
        }
    }

    /// A refusal of a damaged file; `why` says how the damage shows.
    pub fn damaged(why: impl Into<String>) -> Self {
        Self::new("this file is damaged", why, "download or build it again")
    }
}

/// A result whose error is a [`Refusal`].
pub type Result<T> = std::result::Result<T, Refusal>;
