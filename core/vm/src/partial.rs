//! Instructions that the hypervisor reads itself to do what they do with a device: one piece in each exit.
//!
//! All pieces in one exit would keep interrupts waiting. So the guest is resumed at the same
//! instruction until the last piece is done. An interrupt that the guest takes meanwhile does no
//! harm: an [`Activation`] identifies the execution of the instruction, by its address, the stack
//! and the device. If another such instruction executes in between, this one begins again, as the
//! architecture allows for an interrupted instruction with several accesses (DDI 0406C, A3.5.7; DDI
//! 0487, D1.3.6).
//!
//! After the last piece the instruction ends, which changes the program counter and the base. If there is work to do for a
//! shared device, it ends in a later exit, once nothing of that is left: the access itself is not made again.

use hanok_types::Ipa;

/// The largest number of pieces: an LDM may load all core registers.
pub(crate) const MAX_PIECES: usize = 16;

/// The values that a load to general registers has loaded, in the order of its pieces. The
/// registers are written at its end, since the base may be one of them.
pub(crate) type Values = [u64; MAX_PIECES];

/// One execution of an instruction with several pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Activation {
    pub pc: u64,
    pub pstate: u64,
    pub stack: u64,
    /// The address of the first byte.
    pub ipa: Ipa,
    pub load: bool,
}

/// The progress of an instruction with several pieces.
#[derive(Clone, Copy, Debug)]
pub struct Partial {
    of: Option<Activation>,
    done: u32,
    values: Values,
    /// The slot of a shared device for which work is left.
    left: Option<u8>,
}

impl Partial {
    /// No instruction is under way.
    pub(crate) const NONE: Self = Self {
        of: None,
        done: 0,
        values: [0; MAX_PIECES],
        left: None,
    };

    /// Whether this execution is under way.
    pub(crate) fn is(&self, activation: Activation) -> bool {
        self.of == Some(activation)
    }

    /// Begins this execution, with no piece done.
    pub(crate) fn begin(&mut self, activation: Activation) {
        self.of = Some(activation);
        self.done = 0;
        self.left = None;
    }

    /// The number of pieces that are done.
    pub(crate) fn done(&self) -> u32 {
        self.done
    }

    /// Counts a piece as done. `value` is what it loaded, if that goes to a register at the end.
    pub(crate) fn advance(&mut self, value: Option<u64>) {
        let place = self.values.get_mut(self.done as usize);
        if let (Some(place), Some(value)) = (place, value) {
            *place = value;
        }
        self.done += 1;
    }

    /// Keeps in mind that work is left for the shared device of this slot, if an instruction is under way.
    pub fn leave(&mut self, slot: u8) {
        self.left = self.of.map(|_| slot);
    }

    /// The slot of the shared device for which work is left; nothing is left afterwards.
    pub(crate) fn take_left(&mut self) -> Option<u8> {
        self.left.take()
    }

    /// Ends the execution. The answer is the loaded values.
    pub(crate) fn end(&mut self) -> Values {
        self.of = None;
        self.values
    }
}
