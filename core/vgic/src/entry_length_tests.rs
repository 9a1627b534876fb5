//! `entry_is_long` and `entry_is_brief` estimate the length of an entry from the interrupts that wait.

use crate::{Frame, Vgic};
use hanok_hal::fake::FakeListRegisters;
use hanok_types::{GicVersion, IntId, VcpuId, Width};

const V0: VcpuId = VcpuId::new(0);
const V1: VcpuId = VcpuId::new(1);

/// A controller whose SPIs are all of group 1, enabled, edge-triggered and routed to the first of two vCPUs. No
/// entry is due.
fn ready() -> Vgic {
    let mut vgic = Vgic::new(GicVersion::V3, 2, 5);
    let mut word = |offset, value| {
        vgic.write(Frame::Dist, offset, Width::Word, value);
    };
    word(0, 2);
    for n in 1..=8 {
        word(0x80 + 4 * n, u64::MAX);
        word(0x100 + 4 * n, u64::MAX);
        word(0xc00 + 8 * n, u64::MAX);
        word(0xc04 + 8 * n, u64::MAX);
    }
    let mut lrs = FakeListRegisters::new(4);
    vgic.enter(V0, &mut lrs);
    vgic.enter(V1, &mut lrs);
    vgic
}

fn pulse(vgic: &mut Vgic, ids: &[u32]) {
    for id in ids {
        vgic.pulse(None, IntId::new(*id));
    }
}

/// Whether the first vCPU's entry is brief, and whether it is long.
fn foretold(ids: &[u32]) -> (bool, bool) {
    let mut vgic = ready();
    pulse(&mut vgic, ids);
    assert!((vgic.entry_is_brief(V1), vgic.entry_is_long(V1)) == (true, false));
    (vgic.entry_is_brief(V0), vgic.entry_is_long(V0))
}

#[test]
fn an_entry_is_brief_with_two_interrupts_of_one_word() {
    assert_eq!(foretold(&[]), (true, false));
    assert_eq!(foretold(&[40]), (true, false));
    assert_eq!(foretold(&[40, 63]), (true, false));
    assert_eq!(foretold(&[40, 50, 63]), (false, false));
    assert_eq!(foretold(&[40, 64]), (false, false), "two words");
}

#[test]
fn an_entry_is_long_with_three_words() {
    assert_eq!(foretold(&[40, 70]), (false, false));
    assert_eq!(foretold(&[40, 70, 100]), (false, true));
    assert_eq!(foretold(&[40, 100, 270]), (false, true));
}

#[test]
fn after_an_entry_the_next_one_is_brief() {
    let mut vgic = ready();
    pulse(&mut vgic, &[40, 70, 100]);
    vgic.enter(V0, &mut FakeListRegisters::new(4));
    assert!(vgic.entry_is_brief(V0) && !vgic.entry_is_long(V0));
    assert!(!vgic.needs_entry(V0));
}

/// While interrupts wait for list registers, the next one has to be found anew, which takes long.
#[test]
fn no_entry_is_brief_while_some_wait() {
    let mut vgic = ready();
    pulse(&mut vgic, &[40, 41, 42, 43, 44]);
    vgic.enter(V0, &mut FakeListRegisters::new(4));
    pulse(&mut vgic, &[45]);
    assert!(!vgic.entry_is_brief(V0) && !vgic.entry_is_long(V0));
}
