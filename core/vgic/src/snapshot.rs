//! The state of every interrupt that is not idle, for a dump.

use crate::bank::SPI_BANKS;
use crate::bank::bits;
use crate::state::{InterruptPlace, Vgic, spi_index};
use hanok_types::{IntId, VcpuId};

/// The state of one interrupt, as of the last fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The interrupt's id.
    pub id: IntId,
    /// The vCPU of a private interrupt; for an SPI, the vCPU that has it in a list register or will
    /// get it.
    pub vcpu: Option<VcpuId>,
    /// Whether the guest has enabled it.
    pub enabled: bool,
    /// Whether it is pending.
    pub pending: bool,
    /// Whether it is active.
    pub active: bool,
    /// Whether its line is high.
    pub line: bool,
    /// Whether it is edge-triggered.
    pub edge: bool,
    /// Whether it is in a list register.
    pub listed: bool,
    /// Whether it is in group 1.
    pub group1: bool,
    /// Its priority; lower is more urgent.
    pub priority: u8,
    /// For an SGI of a GICv2, the vCPUs that sent what is pending, one bit each; otherwise zero.
    pub senders: u8,
}

impl Vgic {
    /// Every interrupt that is pending, active or listed, or whose line is high.
    pub fn snapshot(&self) -> impl Iterator<Item = Snapshot> {
        let private = (0..self.vcpus).map(|cpu| InterruptPlace { cpu, word: 0 });
        let spis = (1..=SPI_BANKS).map(|word| InterruptPlace { cpu: 0, word });
        private.chain(spis).flat_map(move |place| {
            let busy = self.bank(place).map_or(0, |bank| bank.busy());
            bits(busy).filter_map(move |bit| self.of_interrupt(place, bit))
        })
    }

    fn of_interrupt(&self, place: InterruptPlace, bit: u32) -> Option<Snapshot> {
        let bank = self.bank(place)?;
        let is = |word: u32| word >> bit & 1 != 0;
        let vcpu = if spi_index(place, bit).is_none() || is(bank.listed | bank.active) {
            Some(self.home_of(place, bit))
        } else {
            self.target_of(place, bit)
        };
        Some(Snapshot {
            id: IntId::new(place.word as u32 * 32 + bit),
            vcpu: vcpu.map(|cpu| VcpuId::new(cpu as u8)),
            enabled: is(bank.enabled),
            pending: is(bank.pending()),
            active: is(bank.active),
            line: is(bank.line),
            edge: is(bank.edge),
            listed: is(bank.listed),
            group1: is(bank.group1),
            priority: bank.priority(bit),
            senders: self.senders_of(place, bit),
        })
    }
}
