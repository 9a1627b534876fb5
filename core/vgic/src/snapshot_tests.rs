//! [`Vgic::snapshot`] names the vCPU and the senders of each interrupt.

use crate::{Frame, Lr, LrState, Vgic};
use hanok_hal::ListRegisters;
use hanok_hal::fake::FakeListRegisters;
use hanok_types::{GicVersion, IntId, VcpuId, Width};

const V0: VcpuId = VcpuId::new(0);
const SPI: IntId = IntId::new(33);

fn set(vgic: &mut Vgic, vcpu: u8, offset: u64, value: u64) {
    vgic.write(Frame::V2(VcpuId::new(vcpu)), offset, Width::Word, value);
}

/// A GICv2 of three vCPUs that forwards group 0, with the SPI enabled and routed to the first vCPU.
fn ready() -> Vgic {
    let mut vgic = Vgic::new(GicVersion::V2, 3, 5);
    set(&mut vgic, 0, 0, 1);
    set(&mut vgic, 0, 0x104, 0b10);
    set(&mut vgic, 0, 0x820, 0b1 << 8);
    vgic
}

/// Two vCPUs send SGI 3 to the first by GICD_SGIR.
#[test]
fn a_snapshot_names_the_senders_of_an_sgi() {
    let mut vgic = ready();
    set(&mut vgic, 1, 0xf00, 1 << 16 | 3);
    set(&mut vgic, 2, 0xf00, 1 << 16 | 3);
    vgic.set_level(None, SPI, true);
    let senders = |id: u32| {
        let mut all = vgic.snapshot().filter(|one| one.id == IntId::new(id));
        all.next().map(|one| (one.vcpu, one.senders))
    };
    assert_eq!(senders(3), Some((Some(V0), 0b110)));
    assert_eq!(senders(SPI.get()).map(|(_, senders)| senders), Some(0));
}

/// The vCPU that has acknowledged an interrupt keeps it, although it is routed elsewhere and declared active.
#[test]
fn an_active_interrupt_stays_its_vcpu_s_when_declared_active() {
    let mut vgic = ready();
    let mut lrs = FakeListRegisters::new(4);
    vgic.set_level(None, SPI, true);
    vgic.enter(V0, &mut lrs);
    let taken = Lr::from_bits(lrs.read(0)).with_state(LrState::Active);
    assert_eq!(taken.virtual_id(), SPI.get());
    lrs.lr[0] = taken.into_bits();
    // The vCPU leaves, and the interrupt is routed to the second one.
    vgic.leave(V0, &mut lrs);
    set(&mut vgic, 0, 0x820, 0b10 << 8);
    set(&mut vgic, 0, 0x304, 0b10);
    let whose = vgic.snapshot().find(|one| one.id == SPI);
    assert_eq!(whose.map(|one| one.vcpu), Some(Some(V0)));
}
