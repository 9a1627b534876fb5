//! The emulated physical timer, and when its interrupt comes.

use super::requests::running;
use super::{read, write};
use hanok_decode::SysReg;
use hanok_types::platform;

const PHYSICAL_TIMER: u32 = platform::TIMER_PHYSICAL_IRQ.get();

#[test]
fn the_physical_timer_fires_at_its_deadline() {
    let mut vm = running(2);
    vm.regs[1].x[5] = 500;
    vm.handle(1, write(SysReg::CNTP_TVAL_EL0));
    assert_eq!(vm.guest(1).deadline(), None, "off still");
    vm.regs[1].x[5] = 1;
    vm.handle(1, write(SysReg::CNTP_CTL_EL0));
    assert!(vm.vcpus[1].rearm);
    assert_eq!(vm.guest(1).deadline(), Some(1500));
    assert_eq!(vm.guest(0).deadline(), None, "another's");

    vm.machine.now.set(1499);
    vm.guest(1).refresh();
    assert_eq!(
        (vm.shown(1), vm.guest(1).deadline()),
        (std::vec![], Some(1500))
    );
    vm.machine.now.set(1501);
    assert_eq!(
        vm.guest(1).deadline(),
        Some(1500),
        "it passed between the two"
    );
    vm.guest(1).refresh();
    assert_eq!(
        (vm.shown(1), vm.guest(1).deadline()),
        (std::vec![PHYSICAL_TIMER], None)
    );
    assert!(
        vm.machine.kicked().is_empty(),
        "a private interrupt concerns nobody else"
    );

    // Masked, the line falls.
    vm.regs[1].x[5] = 3;
    vm.handle(1, write(SysReg::CNTP_CTL_EL0));
    assert_eq!(vm.shown(1), []);
}

#[test]
fn a_physical_timer_that_reads_as_due_has_its_line_high() {
    let mut vm = running(1);
    vm.regs[0].x[5] = 5000;
    vm.handle(0, write(SysReg::CNTP_CVAL_EL0));
    vm.regs[0].x[5] = 1;
    vm.handle(0, write(SysReg::CNTP_CTL_EL0));
    vm.machine.now.set(4999);
    vm.handle(0, read(SysReg::CNTP_CTL_EL0));
    assert_eq!((vm.regs[0].x[5], vm.shown(0)), (1, std::vec![]));
    // Only the guest has read it since.
    vm.machine.now.set(5000);
    vm.handle(0, read(SysReg::CNTP_CTL_EL0));
    assert_eq!(
        (vm.regs[0].x[5], vm.shown(0)),
        (5, std::vec![PHYSICAL_TIMER])
    );
}
