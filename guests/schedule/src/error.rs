//! Why a call was not carried out.

use core::fmt;

use crate::transport::Answer;
use hanok_abi::schedule::{refusal, status};
use hanok_sched::admission;

/// The result of a call.
pub type Result<T> = core::result::Result<T, Error>;

/// NOT_SUPPORTED, by which an unknown call is answered (DEN 0028, 5).
const NOT_SUPPORTED: i32 = -1;

/// Why a call was not carried out. Whatever it is, nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Nothing below knows the call.
    Absent,
    /// The other side speaks another version, whose number this is.
    Version(u32),
    /// An argument is not valid.
    Invalid,
    /// The vCPU has no budget, or the system's description does not let it ask for so much.
    NotAllowed,
    /// Deadlines would be missed.
    Refused(Refusal),
    /// The question is taken in so many nanoseconds, if it is asked again then: the vCPU asks too often, another vCPU of
    /// its core asks, or an earlier change has not taken effect yet.
    Later(u64),
    /// No budget was found with which the guest's own tasks ([`crate::Tasks`]) keep their deadlines. The hypervisor
    /// was not asked.
    Unschedulable(admission::Refusal),
    /// A status that this version does not know.
    Unknown(i32),
}

/// By what it is known that deadlines would be missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// More than the whole CPU would be promised.
    Overload,
    /// A deadline would be missed.
    Late,
    /// A task cannot keep its deadline even alone.
    Hopeless,
    /// Nothing is proven for this kind of server.
    Unproven,
    /// It could not be decided with the work that is allowed.
    Undecided,
    /// It would hold, but nothing is proven of the way there.
    Transition,
    /// A reason that this version does not know.
    Unknown(u64),
}

impl Refusal {
    fn of(value: u64) -> Self {
        match u32::try_from(value) {
            Ok(refusal::OVERLOAD) => Self::Overload,
            Ok(refusal::LATE) => Self::Late,
            Ok(refusal::HOPELESS) => Self::Hopeless,
            Ok(refusal::UNPROVEN) => Self::Unproven,
            Ok(refusal::UNDECIDED) => Self::Undecided,
            Ok(refusal::TRANSITION) => Self::Transition,
            _ => Self::Unknown(value),
        }
    }
}

impl Answer {
    /// The value, if the answer is yes.
    pub fn value(self) -> Result<u64> {
        Err(match self.status {
            status::DONE => return Ok(self.value),
            NOT_SUPPORTED => Error::Absent,
            status::INVALID => Error::Invalid,
            status::NOT_ALLOWED => Error::NotAllowed,
            status::REFUSED => Error::Refused(Refusal::of(self.value)),
            status::LATER => Error::Later(self.value),
            other => Error::Unknown(other),
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => out.write_str("no hypervisor answers: this is no VM of Hanok"),
            Self::Version(version) => {
                write!(out, "the hypervisor has version {version:#x} of the calls")
            }
            Self::Invalid => out.write_str("an argument is not valid"),
            Self::NotAllowed => {
                out.write_str("the system's description does not let this vCPU ask for it")
            }
            Self::Refused(refusal) => write!(out, "{refusal}"),
            Self::Later(after) => write!(out, "not yet; ask again in {after} ns"),
            Self::Unschedulable(why) => write!(out, "the vCPU's own tasks: {why}"),
            Self::Unknown(status) => write!(out, "the hypervisor answered {status}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Overload => "more than the whole CPU would be promised",
            Self::Late => "a deadline would be missed",
            Self::Hopeless => "a task cannot keep its deadline even alone",
            Self::Unproven => "nothing is proven for this kind of server",
            Self::Undecided => "it could not be decided in the time that such questions may take",
            Self::Transition => "it would hold, but nothing is proven of the way there",
            Self::Unknown(reason) => return write!(out, "refused for reason {reason}"),
        })
    }
}

impl core::error::Error for Error {}
