//! Instructions that move several registers to or from a device: one piece in each exit.
//!
//! All pieces together would keep interrupts waiting: the guest is resumed at the same instruction until
//! the last one is done. An interrupt that it takes meanwhile does no harm: how far it is, is known by
//! the instruction, the stack and the device ([`Activation`]); what another one has in between makes
//! it begin anew, as the architecture lets an interrupted instruction of several accesses do (DDI 0406C,
//! A3.5.7; DDI 0487, D1.3.6).

use hanok_types::Ipa;

/// The most pieces: an LDM may load all core registers.
pub(crate) const MAX_PIECES: usize = 16;

/// What a load to general registers has loaded, in the order of its pieces. They are filled at its
/// end, as the base may be one of them.
pub(crate) type Values = [u64; MAX_PIECES];

/// Which execution of an instruction with several pieces it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Activation {
    pub pc: u64,
    pub pstate: u64,
    pub stack: u64,
    /// Of the first byte.
    pub ipa: Ipa,
    pub load: bool,
}

/// How far an instruction with several pieces is.
#[derive(Clone, Copy, Debug)]
pub struct Partial {
    of: Option<Activation>,
    done: u32,
    values: Values,
}

impl Partial {
    /// None is under way.
    pub(crate) const NONE: Self = Self {
        of: None,
        done: 0,
        values: [0; MAX_PIECES],
    };

    /// Whether it is this one that is under way.
    pub(crate) fn is(&self, activation: Activation) -> bool {
        self.of == Some(activation)
    }

    /// This one is, and nothing of it is done.
    pub(crate) fn begin(&mut self, activation: Activation) {
        self.of = Some(activation);
        self.done = 0;
    }

    /// How many pieces are done.
    pub(crate) fn done(&self) -> u32 {
        self.done
    }

    /// One more is; what it loaded, where that goes to a register at the end.
    pub(crate) fn advance(&mut self, value: Option<u64>) {
        let place = self.values.get_mut(self.done as usize);
        if let (Some(place), Some(value)) = (place, value) {
            *place = value;
        }
        self.done += 1;
    }

    /// None is under way any more; what was loaded.
    pub(crate) fn end(&mut self) -> Values {
        self.of = None;
        self.values
    }
}
