//! What a firmware has: the flash for its variables (JESD68.01, JEP137B), and fw_cfg (QEMU's docs/specs/fw_cfg). They
//! pass where the machine has neither.

use crate::case::{Case, Outcome, case};
use crate::machine::Machine;
use crate::mmio::{read8, read16, read32, read64, write8, write16, write32, write64};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("flash-query", 1, |machine| with_flash(machine, flash_query)),
    case("flash-id", 1, |machine| with_flash(machine, flash_id)),
    case("flash-status", 1, |machine| {
        with_flash(machine, flash_status)
    }),
    case("flash-program", 1, |machine| {
        with_flash(machine, flash_program)
    }),
    case("flash-buffer", 1, |machine| {
        with_flash(machine, flash_buffer)
    }),
    case("flash-erase", 1, |machine| with_flash(machine, flash_erase)),
    case("flash-lock", 1, |machine| with_flash(machine, flash_lock)),
    case("flash-array", 1, |machine| with_flash(machine, flash_array)),
    case("fw-cfg-items", 1, fw_cfg_items),
    case("fw-cfg-widths", 1, fw_cfg_widths),
];

const BANK: u64 = 0x0400_0000;
/// A sector that nothing else uses, of those in which a VM stores.
const SECTOR: u64 = BANK + 0xc_0000;
const READY: u32 = 0x0080_0080;
const ERASED: u32 = u32::MAX;

fn with_flash(machine: &Machine, run: fn() -> Outcome) -> Outcome {
    // QEMU's node has both banks, the first one first.
    let there = |start| machine.devices.iter().any(|area| area.start == start);
    if !there(BANK) && !there(0) {
        return Ok(());
    }
    let outcome = run();
    command(0xff);
    outcome
}

fn command(command: u32) {
    write32(SECTOR, command * 0x1_0001);
}

fn erase() {
    command(0x20);
    command(0xd0);
    command(0xff);
}

fn program(at: u64, value: u32) {
    write32(at, 0x0040_0040);
    write32(at, value);
    command(0xff);
}

fn flash_query() -> Outcome {
    command(0x98);
    let known = [
        (0x10, 'Q' as u32),
        (0x11, 'R' as u32),
        (0x12, 'Y' as u32),
        (0x13, 1),
        (0x14, 0),
        (0x15, 0x31),
        (0x16, 0),
        (0x1b, 0x45),
        (0x1c, 0x55),
        (0x1f, 7),
        (0x20, 7),
        (0x21, 10),
        (0x22, 0),
        (0x23, 4),
        (0x24, 4),
        (0x25, 4),
        (0x27, 25),
        (0x28, 2),
        (0x2a, 11),
        (0x2b, 0),
        (0x2c, 1),
        (0x2d, 0xff),
        (0x2e, 0),
        (0x2f, 0),
        (0x30, 2),
        (0x31, 'P' as u32),
        (0x32, 'R' as u32),
        (0x33, 'I' as u32),
        (0x34, '1' as u32),
        (0x35, '0' as u32),
        (0x36, 0),
        (0x3e, 0),
        (0x3f, 1),
        (0x40, 0),
        (0x52, 0),
        (0x100, 0),
        (0, 0),
        (0xf, 0),
    ];
    for (index, value) in known {
        check_eq!(read32(BANK + 4 * index), value * 0x1_0001, "{index:#x}");
    }
    check_eq!(read16(BANK + 0x42), 'Q' as u16, "half a word");
    check_eq!(read8(BANK + 0x41), b'Q', "a byte");
    check_eq!(read64(BANK + 0x40), 0x0052_0052_0051_0051, "two words");
    // Only the end of the query ends it.
    command(0x70);
    check_eq!(read32(BANK + 0x40), 0x0051_0051, "after another command");
    command(0xff);
    check!(read32(BANK + 0x40) != 0x0051_0051, "after the end");
    Ok(())
}

fn flash_id() -> Outcome {
    command(0x90);
    check_eq!(read32(BANK), 0x0089_0089, "manufacturer");
    check_eq!(read32(BANK + 4), 0x0018_0018, "device");
    check_eq!(read32(BANK + 8), 0, "lock");
    check_eq!(read32(BANK + 0x400), 0x0089_0089, "256 words on");
    Ok(())
}

fn flash_status() -> Outcome {
    erase();
    command(0x70);
    check_eq!(read32(SECTOR), READY, "after erasing");
    check_eq!(read16(SECTOR + 2), 0x80, "half a word");
    check_eq!(read8(SECTOR + 3), 0x80, "a byte");
    command(0x50);
    check_eq!(read32(SECTOR), ERASED, "clearing shows the array");
    command(0x70);
    check_eq!(read32(SECTOR), 0, "cleared");
    command(0xe8);
    check_eq!(read32(SECTOR), READY, "room in the buffer");
    // One word more than the number, and the confirmation.
    [1, 0, 0, 0xd0].into_iter().for_each(command);
    Ok(())
}

fn flash_program() -> Outcome {
    erase();
    write32(SECTOR + 8, 0x0040_0040);
    write32(SECTOR + 8, 0x1234_5678);
    check_eq!(read32(SECTOR), READY, "status");
    command(0xff);
    check_eq!(read32(SECTOR + 8), 0x1234_5678, "a word");
    check_eq!(
        (read32(SECTOR + 4), read32(SECTOR + 12)),
        (ERASED, ERASED),
        "beside it"
    );
    write32(SECTOR + 8, 0x0010_0010);
    write8(SECTOR + 9, 0xab);
    command(0xff);
    check_eq!(read32(SECTOR + 8), 0x1234_ab78, "a byte");
    write32(SECTOR + 8, 0x0010_0010);
    write16(SECTOR + 10, 0x9876);
    command(0xff);
    check_eq!(read32(SECTOR + 8), 0x9876_ab78, "half a word");
    // The command is the lower word.
    write64(SECTOR + 16, 0xfeed_f00d_0000_0040);
    command(0xff);
    check_eq!(read64(SECTOR + 16), 0xfeed_f00d_ffff_ffff, "a double word");
    Ok(())
}

fn flash_buffer() -> Outcome {
    erase();
    write32(SECTOR + 0x20, 0x00e8_00e8);
    write32(SECTOR + 0x20, 0x0002_0002);
    for word in 0..3 {
        write32(SECTOR + 0x20 + 4 * u64::from(word), 0x1111_0000 + word);
        check_eq!(read32(SECTOR), READY, "status");
    }
    write32(SECTOR + 0x20, 0x00d0_00d0);
    check_eq!(read32(SECTOR), READY, "status at the end");
    command(0xff);
    for word in 0..3 {
        check_eq!(
            read32(SECTOR + 0x20 + 4 * u64::from(word)),
            0x1111_0000 + word,
            "word {word}"
        );
    }
    check_eq!(
        (read32(SECTOR + 0x1c), read32(SECTOR + 0x2c)),
        (ERASED, ERASED),
        "beside them"
    );
    Ok(())
}

fn flash_erase() -> Outcome {
    erase();
    let places = [0, 0x3fc, 0x400, 0x1_0000, 0x3_fffc];
    for at in places {
        program(SECTOR + at, at as u32);
        check_eq!(read32(SECTOR + at), at as u32, "{at:#x}");
    }
    // The sector before keeps what it has.
    let before = SECTOR - 4;
    write32(before, 0x0020_0020);
    write32(before, 0x00d0_00d0);
    program(before, 0x5555_aaaa);
    write32(SECTOR + 0x1_0004, 0x0020_0020);
    write32(SECTOR + 0x1_0004, 0x00d0_00d0);
    check_eq!(read32(SECTOR), READY, "status");
    command(0xff);
    for at in places {
        check_eq!(read32(SECTOR + at), ERASED, "{at:#x}");
    }
    check_eq!(read32(before), 0x5555_aaaa, "before it");
    Ok(())
}

fn flash_lock() -> Outcome {
    for what in [0x01, 0xd0] {
        command(0x50);
        command(0x60);
        command(what);
        check_eq!(read32(SECTOR), READY, "{what:#x}");
    }
    erase();
    command(0x60);
    command(0x55);
    check_eq!(read32(SECTOR), ERASED, "neither");
    Ok(())
}

/// What is no command, or ends one, leads back to the array.
fn flash_array() -> Outcome {
    erase();
    program(SECTOR, 0x0102_0304);
    for word in [0x00, 0xf0, 0xff, 0x12, 0xd0] {
        command(0x70);
        command(word);
        check_eq!(read32(SECTOR), 0x0102_0304, "{word:#x}");
    }
    check_eq!(read8(SECTOR + 2), 2, "a byte");
    check_eq!(read16(SECTOR + 2), 0x0102, "half a word");
    check_eq!(read64(SECTOR), 0xffff_ffff_0102_0304, "a double word");
    [0xe8, 1, 0, 0, 0x77].into_iter().for_each(command);
    check!(read32(SECTOR) != READY, "a buffer that is not confirmed");
    Ok(())
}

const FW_CFG: u64 = platform::FW_CFG.get();

fn has_fw_cfg(machine: &Machine) -> bool {
    machine.devices.iter().any(|area| area.start == FW_CFG)
}

fn select(item: u16) {
    write16(FW_CFG + 8, item.swap_bytes());
}

fn fw_cfg_items(machine: &Machine) -> Outcome {
    if !has_fw_cfg(machine) {
        return Ok(());
    }
    select(0);
    let signature = [(); 6].map(|()| read8(FW_CFG));
    check_eq!(signature, *b"QEMU\0\0", "signature");
    select(1);
    check_eq!(read32(FW_CFG) & 1, 1, "the interface by registers");
    check_eq!(read32(FW_CFG), 0, "behind its end");
    // The number of files, big-endian.
    select(0x19);
    let files = read32(FW_CFG).swap_bytes();
    check!(files < 64, "{files} files");
    select(0x3fff);
    check_eq!(read32(FW_CFG), 0, "no item");
    // Data is not written.
    select(0x4000);
    write32(FW_CFG, 0);
    select(0);
    check_eq!(
        read32(FW_CFG),
        u32::from_le_bytes(*b"QEMU"),
        "after a write"
    );
    Ok(())
}

fn fw_cfg_widths(machine: &Machine) -> Outcome {
    if !has_fw_cfg(machine) {
        return Ok(());
    }
    select(0);
    check_eq!(read16(FW_CFG), u16::from_le_bytes(*b"QE"), "the first half");
    check_eq!(read16(FW_CFG), u16::from_le_bytes(*b"MU"), "the second one");
    // AArch32 has no such access to a device.
    if cfg!(target_arch = "aarch64") {
        select(0);
        let double = u64::from_le_bytes(*b"QEMU\0\0\0\0");
        check_eq!(read64(FW_CFG), double, "a double word");
    }
    Ok(())
}
