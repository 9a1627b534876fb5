//! Events, and the trait of what reads all of them.

use crate::Cause;
use hanok_abi::trace::{Kind, class};
use hanok_types::{Deadline, IntId, VcpuId, VmId};

/// The vCPU that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The vCPU's VM.
    pub vm: VmId,
    /// The vCPU's id in its VM.
    pub vcpu: VcpuId,
}

/// Something that happened on the pCPU that records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The guest was left by a synchronous exception.
    Exit {
        /// ESR_EL2, or HSR.
        syndrome: u64,
        /// The address of the instruction that made the exit.
        pc: u64,
    },
    /// The guest was left, or the pCPU was woken, by a physical interrupt.
    Interrupt(IntId),
    /// An exit for this cause has been handled. The vCPU goes on, now or at its next turn.
    Handled(Cause),
    /// The hypervisor's instructions since the last event of this kind were executed for that exit.
    /// It follows [`Self::Handled`] if the CPU counts the hypervisor's own instructions.
    Spent {
        /// The cause of the exit.
        cause: Cause,
        /// The number of instructions.
        instructions: u32,
    },
    /// The vCPU's state was put into the pCPU.
    SwitchIn,
    /// The vCPU's state was taken out of the pCPU.
    SwitchOut,
    /// The vCPU has work from now on.
    Wake,
    /// The vCPU has no work any more.
    Block,
    /// The vCPU was started in its VM.
    Start,
    /// The vCPU left its VM: it was turned off, or the VM ended.
    Stop,
    /// The policy was asked, and the vCPU is to run.
    Decision {
        /// The instant at which the policy is to be asked again.
        until: Deadline,
    },
    /// The policy was asked, and no vCPU is to run.
    Idle,
    /// The policy was asked, and no vCPU is to run, but one without work spends its budget.
    Spends,
}

impl Event {
    /// The class of events to which it belongs; none for those that the trap entry records by itself.
    #[inline(always)]
    pub const fn class(&self) -> u32 {
        match self {
            Self::Exit { .. } | Self::Handled(_) | Self::Spent { .. } => 0,
            Self::Interrupt(_) => class::INTERRUPTS,
            Self::SwitchIn | Self::SwitchOut | Self::Decision { .. } => class::SWITCHES,
            // Without these, a wake after them would be none, and what follows an exit would be the hypervisor's time.
            Self::Idle | Self::Spends => class::SWITCHES | class::WAKES | class::EXITS,
            Self::Wake => class::WAKES,
            Self::Block => class::WAKES | class::SWITCHES,
            Self::Start | Self::Stop => class::LIFE,
        }
    }

    /// Whether a trap entry that records exits records this, too ([`hanok_hal::Backend::RECORDS_ENTRIES`]).
    #[inline(always)]
    pub const fn is_of_entries(&self) -> bool {
        matches!(
            self,
            Self::SwitchIn | Self::SwitchOut | Self::Decision { .. } | Self::Wake | Self::Block
        )
    }

    /// The kind of its record, and the record's first word of its own.
    pub(crate) fn recorded_as(&self) -> Option<(Kind, u64)> {
        Some(match self {
            Self::Exit { .. } | Self::Handled(_) | Self::Spent { .. } => return None,
            Self::Interrupt(id) => (Kind::Interrupt, id.get().into()),
            Self::SwitchIn => (Kind::SwitchIn, 0),
            Self::SwitchOut => (Kind::SwitchOut, u64::MAX),
            Self::Wake => (Kind::Wake, 0),
            Self::Block => (Kind::Block, 0),
            Self::Start => (Kind::Start, 0),
            Self::Stop => (Kind::Stop, 0),
            Self::Decision { until } => (Kind::Decision, until.ticks().unwrap_or(u64::MAX)),
            Self::Idle => (Kind::Idle, 0),
            Self::Spends => (Kind::Spends, 0),
        })
    }
}

/// A reader of all events. An implementation that does nothing costs nothing, since all callers are
/// inlined.
pub trait Sink {
    /// Records `event`, which has just happened on the pCPU that calls. `source` is the vCPU that
    /// the event is about, if there is one.
    fn record(&self, source: Option<Source>, event: Event);
}

/// The fake backend stores all events.
#[cfg(any(test, feature = "fake"))]
impl<L: hanok_hal::fake::FakeLists> Sink for hanok_hal::fake::FakeBackend<L> {
    fn record(&self, source: Option<Source>, event: Event) {
        self.note(std::boxed::Box::new((self.this_cpu(), source, event)));
    }
}

/// All events that the fake backend recorded since the last call, oldest first, each with the index
/// of the CPU that recorded it.
#[cfg(any(test, feature = "fake"))]
pub fn recorded<L>(
    backend: &hanok_hal::fake::FakeBackend<L>,
) -> std::vec::Vec<(usize, Option<Source>, Event)> {
    let notes = backend.take_notes().into_iter();
    let events = notes.filter_map(|note| note.downcast().ok());
    events.map(|event| *event).collect()
}
