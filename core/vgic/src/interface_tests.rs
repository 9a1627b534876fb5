//! The rules of the CPU interface, as the architecture says them.

use crate::interface_registers::Group::{One, Zero};
use crate::interface_registers::InterfaceRegister::{self, *};
use crate::{
    Frame, GuestInterface, InterruptInput, MAX_LRS, SoftwareInterface, SoftwareInterfaceState, Vgic,
};
use hanok_types::{GicVersion, IntId, VcpuId, Width};

const V0: VcpuId = VcpuId::new(0);
const NONE: u32 = 1023;
const VERSIONS: [GicVersion; 2] = [GicVersion::V2, GicVersion::V3];

/// A vCPU with its interface enabled, and SPIs 32 to 63 edge-triggered, enabled and routed to it.
struct Guest {
    vgic: Vgic,
    interface: SoftwareInterface,
}

impl Guest {
    /// The SPIs are of this group.
    fn new(version: GicVersion, group1: bool) -> Self {
        let mut guest = Self {
            vgic: Vgic::new(version, 1, 5),
            interface: SoftwareInterface::new(version),
        };
        guest.dist(0, 3);
        guest.dist(0x084, if group1 { u32::MAX } else { 0 });
        guest.dist(0x104, u32::MAX);
        guest.dist(0xc08, u32::MAX);
        guest.dist(0xc0c, u32::MAX);
        guest.write(PriorityMask, 0xff);
        match version {
            GicVersion::V2 => guest.write(Control, 3),
            GicVersion::V3 => {
                guest.write(GroupEnable(Zero), 1);
                guest.write(GroupEnable(One), 1);
            }
        }
        guest
    }

    fn dist(&mut self, offset: u64, value: u32) {
        let frame = Frame::distributor(self.vgic.version(), V0);
        let _ = self.vgic.write(frame, offset, Width::Word, value.into());
        let _ = self.interface.refresh(&mut self.vgic, V0);
    }

    fn pend(&mut self, id: u32, priority: u8) {
        let frame = Frame::distributor(self.vgic.version(), V0);
        let offset = 0x400 + u64::from(id);
        let _ = self.vgic.write(frame, offset, Width::Byte, priority.into());
        let _ = self.vgic.pulse(None, IntId::new(id));
        let _ = self.interface.refresh(&mut self.vgic, V0);
    }

    fn read(&mut self, register: InterfaceRegister) -> u32 {
        self.interface
            .read_register(register, &mut self.vgic, V0)
            .unwrap()
            .value
    }

    fn write(&mut self, register: InterfaceRegister, value: u32) {
        let _ = self
            .interface
            .write_register(register, value, &mut self.vgic, V0)
            .unwrap();
    }

    fn is_active(&mut self, id: u32) -> bool {
        let _ = self.vgic.fold(V0, &mut self.interface);
        self.vgic
            .snapshot()
            .any(|one| one.id == IntId::new(id) && one.active)
    }
}

/// IHI 0048B, 4.4.2; IHI 0069H, ICC_PMR_EL1: an interrupt is signalled if its priority is less than the
/// mask. The register of the highest pending interrupt does not depend on the mask.
#[test]
fn the_mask_withholds_what_is_not_more_urgent() {
    for version in VERSIONS {
        let mut guest = Guest::new(version, false);
        guest.pend(40, 0x80);
        for (mask, signalled) in [(0, false), (0x78, false), (0x80, false), (0x88, true)] {
            guest.write(PriorityMask, mask);
            assert_eq!(guest.read(PriorityMask), mask);
            assert_eq!(
                guest.interface.signals(),
                signalled.then_some(Zero),
                "{mask:#x}"
            );
            assert_eq!(guest.read(HighestPending(Zero)), 40);
        }
        guest.write(PriorityMask, 0x80);
        assert_eq!(guest.read(Acknowledge(Zero)), NONE);
        // Bits that are not implemented.
        guest.write(PriorityMask, 0xff);
        assert_eq!(guest.read(PriorityMask), 0xf8);
        assert_eq!(guest.read(Acknowledge(Zero)), 40);
        assert_eq!(guest.read(HighestPending(Zero)), NONE);
    }
}

/// IHI 0069H, 4.8.3: only a more urgent group priority preempts, which is bits 7 to `low` of it; group
/// 1's binary point counts one more.
#[test]
fn the_binary_point_says_what_preempts() {
    for version in VERSIONS {
        for (group1, group) in [(false, Zero), (true, One)] {
            for (low, differing) in (3..=7u32).flat_map(|low| (4..=7).map(move |bit| (low, bit))) {
                let mut guest = Guest::new(version, group1);
                let point = low - u32::from(!group1);
                guest.write(BinaryPoint(group), point);
                assert_eq!(guest.read(BinaryPoint(group)), point);
                guest.pend(40, 0xf0);
                assert_eq!(guest.read(Acknowledge(group)), 40);
                guest.pend(41, 0xf0 ^ 1 << differing);
                let preempts = low <= differing;
                assert_eq!(guest.interface.signals().is_some(), preempts, "{low}");
                let taken = if preempts { 41 } else { NONE };
                assert_eq!(guest.read(Acknowledge(group)), taken, "{low} {differing}");
            }
        }
    }
}

/// IHI 0048B, 4.4.4, 4.4.7 and 4.4.11: GICC_IAR says that an interrupt is of group 1, and acknowledges it only
/// with AckCtl; GICC_AIAR acknowledges only these.
#[test]
fn a_gicv2_s_registers_are_each_of_a_group() {
    let mut guest = Guest::new(GicVersion::V2, true);
    guest.pend(40, 0x80);
    assert_eq!(guest.read(Acknowledge(Zero)), 1022);
    assert_eq!(guest.read(HighestPending(Zero)), 1022);
    assert_eq!(guest.read(HighestPending(One)), 40);
    guest.write(Control, 0b111);
    assert_eq!(guest.read(HighestPending(Zero)), 40);
    assert_eq!(guest.read(Acknowledge(Zero)), 40);
    let mut guest = Guest::new(GicVersion::V2, false);
    guest.pend(40, 0x80);
    assert_eq!(guest.read(Acknowledge(One)), NONE);
    assert_eq!(guest.read(Acknowledge(Zero)), 40);
}

/// IHI 0069H, ICC_IAR0_EL1 and ICC_IAR1_EL1.
#[test]
fn a_gicv3_s_registers_are_each_of_a_group() {
    for (group1, own, other) in [(false, Zero, One), (true, One, Zero)] {
        let mut guest = Guest::new(GicVersion::V3, group1);
        guest.pend(40, 0x80);
        assert_eq!(guest.read(Acknowledge(other)), NONE);
        assert_eq!(guest.read(HighestPending(other)), NONE);
        guest.write(GroupEnable(own), 0);
        assert_eq!(guest.read(Acknowledge(own)), NONE, "disabled");
        guest.write(GroupEnable(own), 1);
        assert_eq!(guest.read(Acknowledge(own)), 40);
        assert_eq!(guest.read(ActivePriorities(own)), 1 << (0x80 >> 3));
        assert_eq!(guest.read(ActivePriorities(other)), 0);
        // A write to the other group's register ends nothing.
        guest.write(End(other), 40);
        assert_eq!(guest.read(RunningPriority), 0x80);
        guest.write(End(own), 40);
        assert_eq!(guest.read(RunningPriority), 0xff);
        assert!(!guest.is_active(40));
    }
}

/// IHI 0048B, 3.2.1: with EOImode the end only drops the priority, and GICC_DIR deactivates.
#[test]
fn an_end_may_leave_the_deactivation_to_another_register() {
    for version in VERSIONS {
        let mut guest = Guest::new(version, false);
        guest.pend(40, 0x80);
        assert_eq!(guest.read(Acknowledge(Zero)), 40);
        guest.write(Deactivate, 40);
        assert!(guest.is_active(40), "EOImode is off");
        let on = match version {
            GicVersion::V2 => 3 | 1 << 9,
            GicVersion::V3 => 1 << 1,
        };
        guest.write(Control, on);
        guest.write(End(Zero), 40);
        assert_eq!(guest.read(RunningPriority), 0xff);
        assert!(guest.is_active(40));
        guest.write(Deactivate, 40);
        assert!(!guest.is_active(40));
    }
}

/// An end without an active interrupt, and an end of a special id, change nothing.
#[test]
fn an_end_of_nothing_is_ignored() {
    for version in VERSIONS {
        let mut guest = Guest::new(version, false);
        guest.write(End(Zero), 40);
        guest.pend(40, 0x80);
        assert_eq!(guest.read(Acknowledge(Zero)), 40);
        for id in 1020..1024 {
            guest.write(End(Zero), id);
            assert_eq!(guest.read(RunningPriority), 0x80);
        }
        // The priority drops, whatever id is written (IHI 0069H, ICC_EOIR0_EL1).
        guest.write(End(Zero), 41);
        assert_eq!(guest.read(RunningPriority), 0xff);
        assert!(guest.is_active(40));
    }
}

/// IHI 0048B, 4.4.5: the end of an SGI names its sender.
#[test]
fn a_gicv2_s_sgi_ends_for_its_sender_alone() {
    let mut guest = Guest {
        vgic: Vgic::new(GicVersion::V2, 2, 5),
        interface: SoftwareInterface::new(GicVersion::V2),
    };
    guest.dist(0, 3);
    guest.write(PriorityMask, 0xff);
    guest.write(Control, 1);
    let from = Frame::V2(VcpuId::new(1));
    let _ = guest.vgic.write(from, 0xf00, Width::Word, 1 << 16 | 5);
    let _ = guest.interface.refresh(&mut guest.vgic, V0);
    assert_eq!(guest.read(Acknowledge(Zero)), 1 << 10 | 5);
    guest.write(End(Zero), 5);
    assert!(guest.is_active(5));
    guest.write(ActivePriorities(Zero), 1);
    guest.write(End(Zero), 1 << 10 | 5);
    assert!(!guest.is_active(5));
}

/// The answer to the end names the physical interrupt behind the virtual one.
#[test]
fn a_physical_interrupt_is_deactivated_with_its_virtual_one() {
    let mut guest = Guest::new(GicVersion::V3, false);
    let _ = guest
        .vgic
        .inject_hardware(V0, IntId::new(40), IntId::new(99));
    let _ = guest.interface.refresh(&mut guest.vgic, V0);
    assert_eq!(guest.read(Acknowledge(Zero)), 40);
    let access = guest
        .interface
        .write_register(End(Zero), 40, &mut guest.vgic, V0)
        .unwrap();
    assert_eq!(access.deactivated, Some(IntId::new(99)));
}

/// More interrupts than there are list registers are acknowledged in the order of urgency, and none is lost.
#[test]
fn many_are_taken_in_their_order() {
    for version in VERSIONS {
        let mut guest = Guest::new(version, false);
        for id in 32..64u32 {
            guest.pend(id, (id * 72 % 240) as u8 & 0xf8);
        }
        let mut last = 0;
        for _ in 32..64 {
            let id = guest.read(Acknowledge(Zero));
            assert!((32..64).contains(&id), "{id}");
            let running = guest.read(RunningPriority);
            assert!(running >= last, "{running:#x} after {last:#x}");
            last = running;
            guest.write(End(Zero), id);
        }
        assert_eq!(guest.read(Acknowledge(Zero)), NONE);
    }
}

/// Registers keep their implemented bits, and no others.
#[test]
fn registers_read_as_written() {
    let mut guest = Guest::new(GicVersion::V2, false);
    guest.write(Control, u32::MAX);
    assert_eq!(guest.read(Control), 0x21f);
    guest.write(ActivePriorities(One), 5);
    assert_eq!(guest.read(ActivePriorities(One)), 0);
    guest.write(BinaryPoint(One), 0);
    assert_eq!(
        (guest.read(BinaryPoint(Zero)), guest.read(BinaryPoint(One))),
        (2, 3)
    );
    assert_eq!(guest.read(Identification), 0x2_043b);
    let mut guest = Guest::new(GicVersion::V3, false);
    guest.write(Control, u32::MAX);
    assert_eq!(guest.read(Control), 0x403);
    guest.write(BinaryPoint(Zero), 4);
    guest.write(BinaryPoint(One), 7);
    assert_eq!(guest.read(BinaryPoint(One)), 5, "group 0's, and one");
    assert_eq!(MAX_LRS, hanok_hal::ListRegisters::count(&guest.interface));
}

/// IHI 0048B, table 4-2.
#[test]
fn the_frame_has_the_registers_of_the_manual() {
    let there = (0..0x2000).filter(|at| InterfaceRegister::of_frame(*at).is_some());
    let offsets = [
        0, 4, 8, 0xc, 0x10, 0x14, 0x18, 0x1c, 0x20, 0x24, 0x28, 0xd0, 0xe0, 0xfc, 0x1000,
    ];
    assert!(there.eq(offsets));
}

/// IHI 0048B, 4.4.1 (FIQEn); IHI 0069H, 4.6.2: only the most urgent interrupt is signalled, at one input.
#[test]
fn group_zero_may_be_signalled_as_fiq() {
    let (irq, fiq) = (Some(InterruptInput::Irq), Some(InterruptInput::Fiq));
    for (version, control, input) in [
        (GicVersion::V2, 0b0011, irq),
        (GicVersion::V2, 0b1011, fiq),
        (GicVersion::V3, 0, fiq),
    ] {
        for (group1, input) in [(false, input), (true, irq)] {
            let mut guest = Guest::new(version, group1);
            guest.write(Control, control);
            assert_eq!(guest.interface.input(), None);
            guest.pend(40, 0x80);
            assert_eq!(guest.interface.input(), input, "{control:#b}");
            guest.write(PriorityMask, 0x80);
            assert_eq!(guest.interface.input(), None, "masked");
        }
    }
}

/// A vCPU finds its masks and its active priorities again, on whatever pCPU; the one that it left masks all.
#[test]
fn the_state_moves_with_the_vcpu() {
    let mut guest = Guest::new(GicVersion::V2, false);
    guest.write(BinaryPoint(Zero), 4);
    guest.pend(40, 0x80);
    assert_eq!(guest.read(Acknowledge(Zero)), 40);
    guest.pend(41, 0x40);
    let mut state = SoftwareInterfaceState::default();
    let _ = guest.vgic.leave(V0, &mut guest.interface);
    guest.interface.save(&mut state);
    assert_eq!(guest.interface.input(), None);
    for (register, value) in [(Control, 0), (PriorityMask, 0), (BinaryPoint(Zero), 2)] {
        assert_eq!(guest.read(register), value);
    }
    guest.interface = SoftwareInterface::new(GicVersion::V2);
    guest.interface.load(&state);
    let _ = guest.interface.refresh(&mut guest.vgic, V0);
    assert_eq!(guest.read(RunningPriority), 0x80);
    assert_eq!(guest.read(BinaryPoint(Zero)), 4);
    assert_eq!(guest.read(Acknowledge(Zero)), 41);
    guest.write(End(Zero), 41);
    guest.write(End(Zero), 40);
    assert!(!guest.is_active(40));
    guest.interface.stop();
    assert_eq!(guest.read(Control), 0);
}
