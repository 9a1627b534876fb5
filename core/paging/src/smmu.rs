//! What an SMMUv3 reads and writes in memory (Arm IHI 0070): entries of the stream table, commands, events.
//!
//! A stream is the device that an access comes from. The hypervisor uses stage 2 alone: a stream either is kept from
//! all memory, or its accesses are translated by the stage 2 of the VM that has the device.

use hanok_hal::RefusedAccess;
use hanok_types::Hpa;

/// The 64-bit words of an entry of the stream table.
pub const STREAM_WORDS: usize = 8;
/// The 64-bit words of an event.
pub const EVENT_WORDS: usize = 4;

/// Word 0 of a stream whose accesses are refused, of which no event tells: V, and Config 0b000 (5.2).
pub const REFUSED: u64 = 1;
/// Word 0 of a stream whose accesses are translated by stage 2: V, and Config 0b110 (5.2).
pub const TRANSLATED: u64 = 1 | 0b110 << 1;

/// SHCFG: the shareability is the device's own (5.2, bits 109:108).
const OWN_SHAREABILITY: u64 = 0b01 << 44;
/// S2AA64: the tables of stage 2 have the format of VMSAv8-64 (5.2, bit 179).
const AARCH64: u64 = 1 << 51;
/// S2R: a refused access makes an event (5.2, bit 186).
const RECORDED: u64 = 1 << 58;
/// T0SZ, SL0, IRGN0, ORGN0, SH0, TG0 and PS of VTCR_EL2, which a stream's S2T0SZ to S2PS have in the same order (5.2,
/// bits 178:160).
const CONTROL: u64 = 0x7_ffff;

/// The words of a stream from word 1 on, by which it is translated: with the table at `root`, the settings of
/// VTCR_EL2, and a VMID, which is the SMMU's alone. The rest is zero.
pub const fn stage_2(vtcr: u64, root: Hpa, vmid: u16) -> [u64; 3] {
    let control = (vtcr & CONTROL) << 32 | AARCH64 | RECORDED;
    [OWN_SHAREABILITY, control | vmid as u64, root.get()]
}

/// A command queue in which all is said that must be: forget the stream table (CMD_CFGI_ALL), forget all translations
/// (CMD_TLBI_NSNH_ALL), and end when that is done and no access is under way by what was forgotten (CMD_SYNC, twice, so
/// that their number is a power of two; 4.3.2, 4.4.3, 4.7.3). Each command has two words.
pub const COMMANDS: [u64; 8] = [0x04, 31, 0x30, 0, 0x46, 0, 0x46, 0];
/// The base 2 logarithm of their number.
pub const COMMANDS_LOG2: u32 = 2;

/// The access that an event with these words tells of, where the streams of a bus begin with `first`. Only translation, address size, access and permission faults tell the address (7.3.12 to
/// 7.3.16).
pub const fn refused(words: [u64; EVENT_WORDS], first: u32) -> RefusedAccess {
    let [kind, flags, address, _] = words;
    let has_address = kind as u8 >> 2 == 0x10 >> 2;
    RefusedAccess {
        requester: ((kind >> 32) as u32).wrapping_sub(first),
        address: if has_address { address } else { 0 },
        // RnW, bit 99.
        write: flags >> 35 & 1 == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Geometry, PaRange, vtcr_el2};

    /// Each field by its place in IHI 0070, 5.2.
    #[test]
    fn a_stream_has_the_settings_of_its_vm() {
        let vtcr = vtcr_el2(&Geometry::BITS_40, PaRange::from_mmfr0(4));
        let [first, control, root] = stage_2(vtcr, Hpa::new(0x8_4567_2000), 0x103);
        let field = |from: u32, to: u32| control >> (from - 128) & ((1 << (to - from + 1)) - 1);
        assert_eq!(field(128, 143), 0x103, "S2VMID");
        assert_eq!(field(160, 165), 24, "S2T0SZ");
        assert_eq!(field(166, 167), 1, "S2SL0: level 1");
        assert_eq!((field(168, 169), field(170, 171)), (1, 1), "S2IR0, S2OR0");
        assert_eq!(field(172, 173), 3, "S2SH0");
        assert_eq!(field(174, 175), 0, "S2TG: 4 KiB");
        assert_eq!(field(176, 178), 4, "S2PS: 44 bits");
        assert_eq!(field(179, 179), 1, "S2AA64");
        assert_eq!(field(180, 185), 0, "S2ENDI to S2S");
        assert_eq!(field(186, 186), 1, "S2R");
        assert_eq!(field(187, 191), 0);
        assert_eq!(root, 0x8_4567_2000, "S2TTB");
        assert_eq!(first, 1 << (108 - 64), "SHCFG");
    }

    #[test]
    fn only_a_stream_of_a_vm_reaches_memory() {
        assert_eq!((REFUSED & 1, REFUSED >> 1), (1, 0b000));
        assert_eq!((TRANSLATED & 1, TRANSLATED >> 1), (1, 0b110));
    }

    #[test]
    fn the_commands_fill_their_queue() {
        assert_eq!(COMMANDS.len(), 2 << COMMANDS_LOG2);
        let codes: std::vec::Vec<u64> =
            COMMANDS.iter().step_by(2).map(|word| word & 0xff).collect();
        assert_eq!(codes, [0x04, 0x30, 0x46, 0x46]);
        // CFGI_STE_RANGE with a Range of 31 is CFGI_ALL.
        assert_eq!(COMMANDS[1], 31);
    }

    #[test]
    fn an_event_tells_who_did_what() {
        // F_TRANSLATION of stream 0x108, a read, and the same of a write.
        let words = [0x108_0000_0010, 1 << 35, 0x6000_0040, 0];
        let told = refused(words, 0x100);
        assert_eq!(
            (told.requester, told.address, told.write),
            (8, 0x6000_0040, false)
        );
        assert!(refused([words[0], 0, 0, 0], 0).write);
        // C_BAD_STREAMID has no address, F_PERMISSION has one.
        let told = refused([0x2_0000_0002, 0, 0xdead, 0], 0);
        assert_eq!((told.requester, told.address), (2, 0));
        assert_eq!(refused([0x13, 0, 0xdead, 0], 0).address, 0xdead);
        assert_eq!(refused([0x14, 0, 0xdead, 0], 0).address, 0);
    }
}
