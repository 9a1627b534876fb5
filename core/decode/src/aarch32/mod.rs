//! AArch32 instructions, A32 and T32: the sensitive ones, which a guest on a processor without
//! virtualization hardware must not run unchanged, and loads and stores.
//!
//! The backend `deprivileged` runs a guest's kernel in User mode. There an instruction of a kernel
//! may be undefined, which costs a trap; or it may silently do something else, which is a fault of
//! the guest that nobody sees; or it may be UNPREDICTABLE. So each such instruction is found and
//! rewritten before it runs: on a PC by a tool, or on the board as a page is first executed. Both
//! need the same answers, hence one decoder, which has an answer for every word, allocates nothing,
//! and has no state but that of the IT block. What a tool needs beyond that to follow code is in
//! `lib/instructions`.
//!
//! - [`sensitive_a32`] and [`sensitive_t32`]: is a word a sensitive instruction, which one is it,
//!   and what does it do in User mode?
//! - [`indirect`]: is a word another instruction that goes to a place that it does not name?
//! - [`load_store`]: what does a load or store transfer, and where to? Backends with virtualization
//!   hardware need that, too: for an access to a device that the syndrome does not describe.
//! - [`Encoding`]: the bits of an instruction, and their number.
//!
//! The architecture is ARMv7-A with all of its extensions (DDI 0406C). Nothing here depends on what
//! a certain CPU implements: if that decides, the answer says so ([`UserMode::Configured`]).
//!
//! Fields that the manual says "should be" zero or one do not decide which instruction a word is,
//! since CPUs differ in whether they check them. The answer says whether they have the values that
//! they should have ([`Sensitive::as_it_should_be`]), because a word in which they do not is more
//! often data than code.

mod condition;
mod encoding;
mod indirect;
mod load_store;
mod registers;
mod sensitive;
pub mod words;

pub use condition::{Condition, ItState};
pub use encoding::{Encoding, Isa, is_wide};
pub use indirect::{IndirectBranch, Target, indirect};
pub use load_store::{
    Addressing, Contents, Displacement, Exclusive, Lanes, LoadStore, Piece, Resolved, Single, Slot,
    StateTransfer, Structures, Swap, load_store,
};
pub use registers::{Register, Registers};
pub use sensitive::{
    Access, Banked, Block, ChangeState, Class, Coprocessor, DataOperation, Direction, Facility,
    Fields, Hint, Index, Operand, Operation, Pair, Preload, Return, ReturnFrom, Sensitive, Shift,
    ShiftKind, Status, Store, Transfer, Unprivileged, UserMode, sensitive, sensitive_a32,
    sensitive_t32,
};
