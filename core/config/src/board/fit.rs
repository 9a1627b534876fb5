//! Whether a system fits the board that it runs on: what can only be seen with both.

use super::{BoardTree, Gic};
use crate::check::Fault;
use crate::model::SystemView;
use hanok_types::{Address, GicVersion, Hpa, IntId, PAGE_SIZE, Span};

impl BoardTree<'_> {
    /// Which interrupt controller the board has, or its VMs where it has no GIC.
    pub fn gic_version(&self) -> GicVersion {
        match self.gic {
            Gic::V2 { .. } => GicVersion::V2,
            Gic::V3 { .. } => GicVersion::V3,
            // Its VMs get a GICv2, as all do whose GIC is emulated.
            #[cfg(feature = "allwinner")]
            Gic::Allwinner(_) => GicVersion::V2,
        }
    }

    /// What of the hypervisor's own lies in the pages of `span`, in words; `None` if a VM
    /// may be given it.
    pub fn owner(&self, span: &Span<Hpa>) -> Option<&'static str> {
        self.first_that(|own| pages(own).is_none_or(|own| own.overlaps(span)))
    }

    /// As [`Self::owner`], of the bytes of `span` alone and not of their pages.
    #[cfg(feature = "write")]
    pub(super) fn owner_of_bytes(&self, span: &Span<Hpa>) -> Option<&'static str> {
        self.first_that(|own| own.overlaps(span))
    }

    /// In words, the first range of the hypervisor's own that is `taken`.
    fn first_that(&self, taken: impl Fn(&Span<Hpa>) -> bool) -> Option<&'static str> {
        if self.ram.iter().chain(&self.reserved).any(&taken) {
            return Some("memory");
        }
        if self.gic_spans().any(|own| taken(&own)) {
            return Some("the interrupt controller");
        }
        let console = self.console.map(|console| console.registers);
        if console.is_some_and(|own| taken(&own)) {
            return Some("the console");
        }
        self.rtc.filter(taken).map(|_| "the clock")
    }

    /// Whether the hypervisor needs this interrupt itself.
    pub fn owns_line(&self, line: IntId) -> bool {
        let console = self.console.and_then(|console| console.interrupt);
        [console, self.gic.maintenance()].contains(&Some(line))
    }

    fn gic_spans(&self) -> impl Iterator<Item = Span<Hpa>> {
        let (first, redistributors, second, third) = match &self.gic {
            Gic::V3 {
                distributor,
                redistributors,
                ..
            } => (distributor, redistributors.as_slice(), None, None),
            Gic::V2 {
                distributor,
                cpu,
                virtualization,
                ..
            } => (
                distributor,
                core::slice::from_ref(cpu),
                virtualization.map(|both| both.0),
                virtualization.map(|both| both.1),
            ),
            #[cfg(feature = "allwinner")]
            Gic::Allwinner(registers) => (registers, &[][..], None, None),
        };
        let first = core::iter::once(*first);
        first
            .chain(redistributors.iter().copied())
            .chain(second)
            .chain(third)
    }

    /// Whether `system` fits this board: its interrupt controller and cores are there, and
    /// no device that a VM is given is the hypervisor's own.
    pub fn check(&self, system: &SystemView<'_>) -> Result<(), Fault> {
        let (gic, of_board) = (system.gic, self.gic_version());
        if gic != of_board {
            return Err(Fault::OtherGic {
                system: gic,
                board: of_board,
            });
        }
        let (needed, most) = (system.cpus_needed(), self.cpus.len());
        if needed > most {
            return Err(Fault::TooFewCpus { needed, most });
        }
        for (vm, config) in system.vms.iter().enumerate() {
            for (device, given) in config.devices.iter().enumerate() {
                let mut spans = given.registers.iter().map(|range| range.host_span());
                let mut lines = given.interrupts.iter();
                if spans.any(|span| span.is_none_or(|span| self.owner(&span).is_some()))
                    || lines.any(|line| self.owns_line(line.board))
                {
                    return Err(Fault::OwnDevice { vm, device });
                }
            }
        }
        Ok(())
    }
}

/// The whole pages that hold `span`; `None` past the top.
fn pages(span: &Span<Hpa>) -> Option<Span<Hpa>> {
    let start = span.start().align_down(PAGE_SIZE);
    let end = span.end().align_up(PAGE_SIZE)?;
    Span::new(start, end.get().checked_sub(start.get())?)
}
