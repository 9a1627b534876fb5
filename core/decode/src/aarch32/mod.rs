//! AArch32 instructions, A32 and T32: those that a guest without virtualization hardware must
//! not run as they are, and loads and stores.
//!
//! The backend `deprivileged` runs a guest's kernel in User mode. There an instruction of a
//! kernel may be undefined, which is a trap that costs; or do something else without a word,
//! which is a fault of the guest that nobody sees; or be UNPREDICTABLE. So each is found before
//! it runs, on a PC by a tool or on the board as a page is first executed, and rewritten. Both
//! need the same answers, hence one decoder: total, without allocation, and without a state but
//! the IT block's. What a tool needs beyond that, to follow code, is in `lib/instructions`.
//!
//! - [`sensitive_a32`] and [`sensitive_t32`]: is it one of those, which, and what does it do in
//!   User mode?
//! - [`load_store`]: what does a load or store move, and where to? That is asked with
//!   virtualization hardware, too: of an access to a device that the syndrome does not describe.
//! - [`Encoding`]: the bits, and how many they are.
//!
//! The architecture is ARMv7-A with all of its extensions (DDI 0406C); T32 is what the manual
//! of ARMv7 calls Thumb. Nothing here depends on what a certain CPU implements: where that
//! decides, the answer says so ([`UserMode::Configured`]).
//!
//! Fields that the manual says "should be" zero or one are not looked at, since CPUs differ in
//! whether they do; that they are as they should be is told apart
//! ([`Sensitive::as_it_should_be`]), because a word that looks like an instruction and is not
//! quite one is more often data.

mod condition;
mod encoding;
mod load_store;
mod registers;
mod sensitive;

pub use condition::{Condition, ItState};
pub use encoding::{Encoding, Isa, is_wide};
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
