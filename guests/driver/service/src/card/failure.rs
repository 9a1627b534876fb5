//! Why a card did not do what it was to do.

/// Why something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The card does not answer, as if there were none.
    NoAnswer,
    /// Its data did not get here or there.
    Data,
    /// It does not want that: its status says so.
    Refused,
    /// It is none of the cards that this program knows.
    Unknown,
}

impl Failure {
    /// What a person reads.
    pub fn text(self) -> &'static str {
        match self {
            Self::NoAnswer => "there is no card, or it does not answer",
            Self::Data => "the card's data do not come or go as they must",
            Self::Refused => "the card reports an error",
            Self::Unknown => "the card is no SD memory card that this program knows",
        }
    }
}
