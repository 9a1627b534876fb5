//! A look at every interrupt that is not idle, for a debugger or a panic's report.

use crate::bank::SPI_BANKS;
use crate::bank::bits;
use crate::state::{InterruptPlace, Vgic, spi_index};
use hanok_types::{IntId, VcpuId};

/// One interrupt, as of the last fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Which.
    pub id: IntId,
    /// Whose if private; of an SPI the one that has it in a list register or will get it.
    pub vcpu: Option<VcpuId>,
    /// Enabled by the guest.
    pub enabled: bool,
    /// Pending.
    pub pending: bool,
    /// Active.
    pub active: bool,
    /// The line is high.
    pub line: bool,
    /// Edge-triggered.
    pub edge: bool,
    /// In a list register.
    pub listed: bool,
    /// Of group 1.
    pub group1: bool,
    /// Priority.
    pub priority: u8,
    /// Of a GICv2's SGI the vCPUs that sent what is pending, a bit each; zero otherwise.
    pub senders: u8,
}

impl Vgic {
    /// Every interrupt that is pending, active, listed, or whose line is high.
    pub fn snapshot(&self) -> impl Iterator<Item = Snapshot> {
        let private = (0..self.vcpus).map(|cpu| InterruptPlace { cpu, word: 0 });
        let spis = (1..=SPI_BANKS).map(|word| InterruptPlace { cpu: 0, word });
        private.chain(spis).flat_map(move |place| {
            let busy = self.bank(place).map_or(0, |bank| bank.busy());
            bits(busy).filter_map(move |bit| self.look(place, bit))
        })
    }

    fn look(&self, place: InterruptPlace, bit: u32) -> Option<Snapshot> {
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
