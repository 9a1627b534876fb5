//! A reset, field by field, against a controller that is new.

use crate::Vgic;
use crate::bank::Bank;
use crate::bank::SPI_BANKS;
use crate::lr::Lr;
use crate::senders::Senders;
use crate::state::{Cpu, MAX_LRS};
use crate::urgency::{Heads, Urgency};
use hanok_types::{GicVersion, IntId, VcpuId, VcpuSet};
use std::format;

const VCPUS: usize = 3;

/// A bank in which no field but `sourced`, which never changes, has its initial value.
fn spoilt(sourced: u32) -> Bank {
    let mut priorities = Bank::spis().priorities;
    for bit in 0..32 {
        priorities.set(bit, 0xff);
    }
    Bank {
        enabled: 0x1234,
        group1: 5,
        edge: 9,
        latch: 1 << 3,
        line: 0x80,
        active: 7,
        forced: 3,
        listed: 1,
        shown: 2,
        soft: 4,
        hardware: 1 << 9,
        hardware_listed: 1 << 10,
        unpend: 8,
        deactivate: 16,
        activate: 32,
        released: 1 << 11,
        priorities,
        physical: [50; 32],
        sourced,
    }
}

fn spoilt_cpu(sourced: u32) -> Cpu {
    let mut senders = Senders::new();
    senders.add_all(!0, VcpuId::new(1));
    Cpu {
        private: spoilt(sourced),
        senders,
        routed: [3; SPI_BANKS],
        homed: [4; SPI_BANKS],
        lr: [Lr::from_bits(!0); MAX_LRS],
        used: 5,
        attention: false,
        words: 6,
        heads: Heads::new(),
        heads_changed: true,
        acknowledged: 7,
        forced: 9,
        refold: true,
        relatched: true,
        overflow: true,
        next: Urgency::FIRST,
        npie: true,
        stuck: true,
        reports: true,
        discard: false,
        asleep: false,
        hardware_slot: 3,
    }
}

#[test]
fn after_a_reset_a_controller_is_as_new_but_for_lines_and_what_is_released() {
    for version in [GicVersion::V3, GicVersion::V2] {
        let fresh = Vgic::new(version, VCPUS, 5);
        let mut vgic = Vgic::new(version, VCPUS, 5);
        let sourced = Bank::private(version).sourced;
        let cpus = vgic.cpus.iter_mut().take(VCPUS);
        cpus.for_each(|cpu| *cpu = spoilt_cpu(sourced));
        vgic.spis.iter_mut().for_each(|bank| *bank = spoilt(0));
        vgic.any = [!0; SPI_BANKS];
        vgic.reset();
        // Interrupts that are pending or listed with a physical one, or whose physical one was released before.
        let released = 0b111 << 9;
        assert!(vgic.spis.iter().all(|bank| bank.released == released));
        assert_eq!(vgic.cpus[2].private.released, released);
        assert_eq!(vgic.take_released(VcpuId::new(1)), Some(IntId::new(50)));
        vgic.forget_released();
        for vcpu in VcpuSet::first(VCPUS).iter() {
            assert_eq!(vgic.take_released(vcpu), None);
        }
        let private = vgic.cpus.iter_mut().take(VCPUS).map(|cpu| &mut cpu.private);
        for bank in private.chain(&mut vgic.spis) {
            assert_eq!((bank.line, bank.physical), (0x80, [50; 32]));
            (bank.line, bank.physical) = (0, [0; 32]);
        }
        assert_eq!(format!("{vgic:#?}"), format!("{fresh:#?}"));
    }
}
