//! How a guest takes part in the scheduling of its own vCPUs.
//!
//! A vCPU asks about itself alone: each function concerns the vCPU that calls it. So a program of a guest
//! with several vCPUs makes its calls from a thread that is bound to the vCPU that it means.
//!
//! There are two ways to call, with the same functions, arguments and answers:
//!
//! - By HVC, from a guest's kernel: `FUNCTION` in W0, arguments from X1 on, the status in W0, and a value of
//!   64 bits in W1 (low half) and W2 (high half).
//! - By the registers of a device at [`DEVICE`], which the guest's tree names as `compatible =
//!   "hanok,schedule"`, from a program that maps them: arguments and answers have registers
//!   ([`register`]), each vCPU its own, and a store of a function's number to [`register::CALL`] is the call.
//!
//! Times are in nanoseconds. A call with HVC by a guest in AArch32 has arguments of 32 bits, and so no time
//! above 4.29 s.
//!
//! A question takes long ([`ASK`]): it is answered in pieces, in the calling vCPU's own time. Each call makes one
//! piece, and answers [`status::PENDING`] until the answer is there: the same call is made again. Other arguments than
//! before begin another question.
//!
//! The hypervisor knows interfaces, and no tasks: a guest finds the interface that its tasks need
//! (`hanok_sched::admission::least_budget`), and asks for it.

/// The address of the device in each VM, and its size in bytes.
pub const DEVICE: (u64, u64) = (0x090c_0000, 0x1000);

/// Answers [`VERSION`] in W1, and what the calling vCPU has in W2 ([`feature`]).
pub const FEATURES: u32 = 0xc600_0010;
/// Answers the value of an item ([`item`]), whose number is the argument.
pub const READ: u32 = 0xc600_0011;
/// Asks for another interface: period, budget, and deadline (0: the period) are the arguments. The answer is
/// a [`status`]. If it is yes, the value is the instant, in nanoseconds of the board's counter, at which the
/// interface takes effect: the end of one of the vCPU's periods.
pub const ASK: u32 = 0xc600_0012;
/// Gives the rest of this period's budget up, and answers 0 when the next period has begun.
pub const WAIT: u32 = 0xc600_0015;

/// The major version in the upper 16 bits, and the minor one.
pub const VERSION: u32 = 0x0001_0000;
/// The registers of the device, by their offsets, for each vCPU its own. All are of 32 bits; a pair holds the low half
/// first. An access of 64 bits is one of each half, the lower one first; narrower ones, and those that are not aligned
/// to 32 bits, read as zero and do nothing.
pub mod register {
    /// Reads [`MAGIC`].
    pub const ID: u64 = 0x00;
    /// A store of a function's number calls it; reads the last one.
    pub const CALL: u64 = 0x04;
    /// The four arguments: 16 + 8 n is the low half of the n-th, counted from 0.
    pub const ARGUMENTS: u64 = 0x10;
    /// The status of the last call.
    pub const STATUS: u64 = 0x30;
    /// The value of the last call.
    pub const VALUE: u64 = 0x38;
    /// What [`ID`] reads: `hksc`.
    pub const MAGIC: u32 = u32::from_le_bytes(*b"hksc");
}

/// What [`FEATURES`] answers in W2, one bit each.
pub mod feature {
    /// The vCPU's budget is enforced.
    pub const ENFORCED: u32 = 1 << 0;
    /// The vCPU may ask for another interface.
    pub const ASKS: u32 = 1 << 1;
}

/// What [`READ`] answers the value of. Times are in nanoseconds.
pub mod item {
    /// The period of the interface that the vCPU has.
    pub const PERIOD: u32 = 0;
    /// Its budget.
    pub const BUDGET: u32 = 1;
    /// Its deadline.
    pub const DEADLINE: u32 = 2;
    /// What is left of this period's budget.
    pub const LEFT: u32 = 3;
    /// The CPU time that the vCPU has used since the board was started.
    pub const USED: u32 = 4;
    /// How much of that was beyond its budgets, in time that others left over.
    pub const EXTRA: u32 = 5;
    /// How often the budget was used up while the vCPU had work.
    pub const THROTTLED: u32 = 6;
    /// The time for which the vCPU had work and did not run.
    pub const STOLEN: u32 = 7;
    /// The largest share of its CPU that the vCPU may ask for, in parts of 65,536; 0 if it may not ask.
    pub const LIMIT: u32 = 8;
    /// The shortest period that it may ask for.
    pub const SHORTEST_PERIOD: u32 = 9;
}

/// The answers of calls, in W0.
pub mod status {
    /// Done, or yes.
    pub const DONE: i32 = 0;
    /// There is no such function.
    pub const NOT_SUPPORTED: i32 = -1;
    /// An argument is not valid.
    pub const INVALID: i32 = -2;
    /// The vCPU has no budget, or the description does not let it ask for so much.
    pub const NOT_ALLOWED: i32 = -3;
    /// Deadlines would be missed; the value says how it is known ([`super::refusal`]).
    pub const REFUSED: i32 = -4;
    /// The answer is not there yet: make the same call again.
    pub const PENDING: i32 = -6;
    /// Make the same call again in as many nanoseconds as the value says: the vCPU asks too often, an earlier change of it or
    /// of its neighbours has not taken effect yet, or another vCPU of the core asks, or is to ask first. Whoever asks again
    /// then has its turn, whatever the others do.
    pub const LATER: i32 = -5;
}

/// The reasons of a refusal: the value that comes with [`status::REFUSED`].
pub mod refusal {
    /// More than the whole CPU would be promised.
    pub const OVERLOAD: u32 = 1;
    /// A deadline would be missed.
    pub const LATE: u32 = 2;
    /// A task cannot keep its deadline even alone, or the budget is below 2 us: it could be over before the vCPU has executed
    /// an instruction.
    pub const HOPELESS: u32 = 3;
    /// Nothing is proven for this kind of server.
    pub const UNPROVEN: u32 = 4;
    /// It could not be decided with the work that is allowed.
    pub const UNDECIDED: u32 = 5;
    /// It would hold, but nothing is proven of the way there.
    pub const TRANSITION: u32 = 7;
}
