//! The interrupt controller that the tree names. Only one interrupt of it is used, which is private
//! to the CPU.

mod v2;
mod v3;

use crate::mmio::Registers;
use crate::state::Once;
use crate::tree::GicNode;

/// From this number on, an acknowledged number means that no interrupt is pending.
const SPECIAL: u32 = 1020;
/// The priority of all interrupts.
const PRIORITY: u32 = 0xa0;

enum Gic {
    V2(v2::Gic),
    V3(v3::Gic),
}

static GIC: Once<Gic> = Once::new();

/// Turns the controller on, with all private interrupts off.
pub fn install(node: &GicNode) {
    GIC.set(match *node {
        GicNode::V2 { distributor, cpu } => Gic::V2(v2::Gic::new(distributor, cpu)),
        GicNode::V3 {
            distributor,
            redistributors,
        } => Gic::V3(v3::Gic::new(distributor, &redistributors)),
    });
}

fn gic() -> &'static Gic {
    match GIC.get() {
        Some(gic) => gic,
        None => panic!("no interrupt controller"),
    }
}

/// The controller's name.
pub fn name() -> &'static str {
    match gic() {
        Gic::V2(_) => "GICv2",
        Gic::V3(_) => "GICv3",
    }
}

/// Enables interrupt `id`, one that is private to the CPU.
pub fn enable(id: u32) {
    match gic() {
        Gic::V2(gic) => gic.enable(id),
        Gic::V3(gic) => gic.enable(id),
    }
}

/// Takes the most urgent pending interrupt.
pub fn acknowledge() -> u32 {
    match gic() {
        Gic::V2(gic) => gic.acknowledge(),
        Gic::V3(_) => v3::acknowledge(),
    }
}

/// Ends the interrupt that [`acknowledge`] gave, if it is one.
pub fn end(id: u32) {
    // GICv2 has the number of the sender of an SGI above it.
    if id & 0x3ff >= SPECIAL {
        return;
    }
    match gic() {
        Gic::V2(gic) => gic.end(id),
        Gic::V3(_) => v3::end(id),
    }
}

/// Sets up the banked registers of the private interrupts, which are alike in GICv2's distributor
/// and GICv3's redistributor: all disabled, none pending, one priority.
fn quiet_private(frame: &Registers) {
    const ICENABLER: usize = 0x180;
    const ICPENDR: usize = 0x280;
    const ICACTIVER: usize = 0x380;
    const IPRIORITYR: usize = 0x400;
    for row in [ICENABLER, ICPENDR, ICACTIVER] {
        frame.write(row, u32::MAX);
    }
    for word in 0..8 {
        frame.write(IPRIORITYR + word * 4, PRIORITY * 0x0101_0101);
    }
}

/// Enables a private interrupt in these registers.
fn enable_private(frame: &Registers, id: u32) {
    const ISENABLER: usize = 0x100;
    assert!(id < 32, "interrupt {id} is not private to a CPU");
    frame.write(ISENABLER, 1 << id);
}
