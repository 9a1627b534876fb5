//! The hypervisor's flat binary, and what an image's binary is told in it.
//!
//! It begins with the header of an arm64 Linux Image (Documentation/arch/arm64/booting.rst) or of a 32-bit zImage
//! (Documentation/arch/arm/booting.rst). Behind the header is the information block.

use crate::bytes::{u32_at, u64_at};
use crate::diagnostic::Words;
use hanok_config::sum;
use hanok_types::PAGE_SIZE;

/// The two headers: offset and value of the magic number, offset of the size, and the size's number
/// of bytes.
const HEADERS: [Header; 2] = [
    Header {
        magic: (56, b"ARM\x64"),
        size: (16, 8),
    },
    Header {
        magic: (36, b"\x18\x28\x6f\x01"),
        size: (44, 4),
    },
];
const INFO_MAGIC: usize = 64;
const SUM: usize = 72;
/// The checksum covers everything from this offset to the binary's end.
const SUMMED: usize = 80;
const PAYLOAD_OFFSET: usize = 80;
const PAYLOAD_LEN: usize = 88;
const CONSOLE: usize = 96;
const SYSTEM_SUM: usize = 104;
const KEY: usize = 112;
const AT_PL1: usize = 144;
const INFO_END: usize = 152;

/// Random bytes that only this image has. They are one of the sources of its guests' random
/// numbers; zeros where they are not to be.
pub type BuildKey = [u8; 32];

/// The header of a kernel's format.
struct Header {
    magic: (usize, &'static [u8]),
    size: (usize, usize),
}

/// A binary whose header and information block are sound.
pub(crate) struct Binary<'a> {
    bytes: &'a [u8],
    header: &'static Header,
    memory: u64,
}

/// What an image's binary is told.
pub(crate) struct Told<'a> {
    /// The size in bytes of what follows the binary's memory.
    pub(crate) payload_len: u64,
    /// The physical address of the board's PL011.
    pub(crate) console: u64,
    /// [`sum`] of the system's tree.
    pub(crate) system_sum: u64,
    pub(crate) key: &'a BuildKey,
    /// Whether it is to run at PL1, also on CPUs that have Hyp mode.
    pub(crate) at_pl1: bool,
}

impl<'a> Binary<'a> {
    /// Checks the binary.
    pub(crate) fn of(hypervisor: &'a [u8]) -> Result<Self, Words> {
        let remedy = "build the hypervisor again, and pass its flat binary";
        let magic = |at: usize, magic: &[u8]| {
            hypervisor
                .get(at..)
                .is_some_and(|rest| rest.starts_with(magic))
        };
        let whole = hypervisor.len() >= INFO_END && magic(INFO_MAGIC, b"HANOKIMG");
        let header = HEADERS
            .iter()
            .find(|header| whole && magic(header.magic.0, header.magic.1));
        let Some(header) = header else {
            let why = "it lacks the Image header or the information block behind it";
            return Err(Words::new(
                "this is not the hypervisor's binary",
                why,
                remedy,
            ));
        };
        let size = match header.size {
            (at, 4) => u32_at(hypervisor, at).map_or(0, u64::from),
            (at, _) => u64_at(hypervisor, at).unwrap_or(0),
        };
        if size < hypervisor.len() as u64 || size > 1 << 30 {
            let why = format!("its header claims {size:#x} bytes of memory");
            return Err(Words::new(
                "the hypervisor's binary is damaged",
                why,
                remedy,
            ));
        }
        Ok(Self {
            bytes: hypervisor,
            header,
            memory: size.next_multiple_of(PAGE_SIZE),
        })
    }

    /// The bytes of memory that the binary needs, a multiple of a page.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// The binary and the memory behind it, with these words in it.
    pub(crate) fn told(&self, told: &Told<'_>) -> Vec<u8> {
        let mut head = self.bytes.to_vec();
        head.resize(self.memory as usize, 0);
        let (at, bytes) = self.header.size;
        let total = self.memory + told.payload_len;
        head[at..at + bytes].copy_from_slice(&total.to_le_bytes()[..bytes]);
        let fields = [
            (PAYLOAD_OFFSET, self.memory),
            (PAYLOAD_LEN, told.payload_len),
            (CONSOLE, told.console),
            (SYSTEM_SUM, told.system_sum),
            (AT_PL1, told.at_pl1.into()),
        ];
        for (at, value) in fields {
            head[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        head[KEY..AT_PL1].copy_from_slice(told.key);
        let whole = sum(&head[SUMMED..self.bytes.len()]);
        head[SUM..SUMMED].copy_from_slice(&whole.to_le_bytes());
        head
    }
}
