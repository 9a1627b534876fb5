//! A good request for each kind of device, and whether its answer is right.

use super::memory::{ANSWER, AREA, DATA, HEADER};
use super::transport::{CONFIG, Device, reads, writes};
use crate::mmio::{read8, write8};
use hanok_types::PAGE_SIZE;

/// The kinds (virtio 1.2, 5).
pub const NETWORK: u32 = 1;
pub const BLOCK: u32 = 2;
pub const CONSOLE: u32 = 3;
pub const ENTROPY: u32 = 4;
pub const DIRECTORY: u32 = 9;
pub const GPU: u32 = 16;
pub const INPUT: u32 = 18;
pub const VSOCK: u32 = 19;

/// What a request's state is before the device has written it.
pub const UNTOUCHED: u8 = 0xff;
/// What a disk says of a request that it has carried out (virtio 1.2, 5.2.6).
pub const DONE: u8 = 0;
/// The bytes of a disk's sector, and of the header of its requests.
pub const SECTOR: u32 = 512;
pub const DISK_HEADER: u32 = 16;
/// How often a connection is asked for whose answer finds no buffer.
const TRIES: u32 = 3;
/// What a disk's request asks for.
pub const IN: u32 = 0;
pub const OUT: u32 = 1;

/// The outcome of a request.
pub type Outcome = Result<(), &'static str>;

/// An error if it is so.
pub fn wrong_if(is_so: bool, why: &'static str) -> Outcome {
    if is_so { Err(why) } else { Ok(()) }
}

impl Device {
    /// Makes a good request, and checks its answer. Nothing is under way.
    pub fn serves(&mut self) -> Outcome {
        match self.kind {
            NETWORK => self.sends_frame(),
            BLOCK => self.reads_sector(),
            CONSOLE => self.sends_line(),
            ENTROPY => self.gives_bytes(),
            DIRECTORY => self.says_version(),
            GPU => self.says_size(),
            INPUT => self.says_name(),
            VSOCK => self.refuses_connection(),
            _ => Err("a device of no known kind"),
        }
    }

    fn gives_bytes(&mut self) -> Outcome {
        AREA.fill(DATA, 16, 0);
        self.submit(0, &[writes(DATA, 16)]);
        match self.wait(0).ok_or("no random bytes")? {
            (_, 16) if (0..4).any(|word| AREA.word(DATA + 4 * word) != 0) => Ok(()),
            _ => Err("other random bytes than were asked for"),
        }
    }

    fn reads_sector(&mut self) -> Outcome {
        match self.transfer(IN, 0)? {
            DONE => Ok(()),
            _ => Err("the disk has an error"),
        }
    }

    /// Reads or writes a sector, from or to the page of data. The answer is the request's state.
    pub fn transfer(&mut self, what: u32, sector: u32) -> Result<u8, &'static str> {
        self.ask_disk(what, sector);
        self.wait(0).ok_or("no answer of the disk")?;
        Ok(AREA.byte(ANSWER))
    }

    /// Asks for that, and does not wait.
    pub fn ask_disk(&mut self, what: u32, sector: u32) {
        disk_header(what, sector);
        let data = if what == IN {
            writes(DATA, SECTOR)
        } else {
            reads(DATA, SECTOR)
        };
        self.submit(0, &[reads(HEADER, DISK_HEADER), data, writes(ANSWER, 1)]);
    }

    /// A frame for nobody, with this interface's own address as its sender's.
    fn sends_frame(&mut self) -> Outcome {
        AREA.fill(HEADER, 72, 0);
        AREA.put_bytes(HEADER + 12, &[0x02, 0, 0, 0xff, 0xff, 0xff]);
        for at in [0, 2, 4] {
            let pair = [0, 1].map(|byte| read8(self.at + CONFIG + at + byte));
            AREA.put_bytes(HEADER + 18 + at, &pair);
        }
        AREA.put_bytes(HEADER + 24, &[0x08, 0x00]);
        self.submit(1, &[reads(HEADER, 72)]);
        self.wait(1).map(drop).ok_or("the frame was not sent")
    }

    fn sends_line(&mut self) -> Outcome {
        AREA.put_bytes(HEADER, b"here\n\n");
        self.submit(1, &[reads(HEADER, 5)]);
        self.wait(1).map(drop).ok_or("the line was not sent")
    }

    /// Tversion of 9P2000.L; its answer is Rversion (101).
    fn says_version(&mut self) -> Outcome {
        AREA.put_bytes(
            HEADER,
            b"\x15\0\0\0\x64\xff\xff\0\x20\0\0\x08\x009P2000.L\0",
        );
        AREA.fill(ANSWER, 32, 0);
        self.submit(0, &[reads(HEADER, 21), writes(ANSWER, 32)]);
        self.wait(0).ok_or("no answer of the directory")?;
        match AREA.byte(ANSWER + 4) {
            101 => Ok(()),
            _ => Err("the directory has an error"),
        }
    }

    /// VIRTIO_GPU_CMD_GET_DISPLAY_INFO; its answer is VIRTIO_GPU_RESP_OK_DISPLAY_INFO.
    fn says_size(&mut self) -> Outcome {
        AREA.fill(HEADER, 24, 0);
        AREA.fill(ANSWER, 408, 0);
        AREA.put(HEADER, 0x100, 4);
        self.submit(0, &[reads(HEADER, 24), writes(ANSWER, 408)]);
        self.wait(0).ok_or("no answer of the display")?;
        match AREA.word(ANSWER) {
            0x1101 => Ok(()),
            _ => Err("the display has an error"),
        }
    }

    /// VIRTIO_INPUT_CFG_ID_NAME has a size.
    fn says_name(&mut self) -> Outcome {
        let has_name = || {
            write8(self.at + CONFIG + 1, 0);
            write8(self.at + CONFIG, 1);
            read8(self.at + CONFIG + 2) != 0
        };
        wrong_if(!super::wait(has_name), "the keyboard has no name")
    }

    /// A connection with a CID that nobody has is answered by a reset (op 3).
    fn refuses_connection(&mut self) -> Outcome {
        for _ in 0..TRIES {
            AREA.fill(DATA, PAGE_SIZE, 0);
            self.submit(0, &[writes(DATA, 4096)]);
            self.connect();
            self.wait(1).ok_or("the packet was not sent")?;
            let (_, written) = self.wait(0).ok_or("nobody refuses the connection")?;
            match AREA.get(DATA + 30) {
                3 => return Ok(()),
                // The driver VM has seen an earlier reset late, and gives back what it has, whoever's it is.
                0 if written == 0 => {}
                _ => return Err("the connection is not refused"),
            }
        }
        Err("all buffers come back empty")
    }

    /// Asks for a connection with a CID that nobody has.
    pub fn connect(&mut self) {
        AREA.fill(HEADER, 44, 0);
        let low = [0, 1].map(|byte| read8(self.at + CONFIG + byte));
        AREA.put_bytes(HEADER, &low);
        AREA.put(HEADER + 8, 999, 8);
        AREA.put(HEADER + 16, 7, 4);
        AREA.put(HEADER + 20, 9, 4);
        AREA.put(HEADER + 28, 1 | 1 << 16, 4);
        AREA.put(HEADER + 36, 4096, 4);
        self.submit(1, &[reads(HEADER, 44)]);
    }
}

/// Writes the header of a disk's request, whose state is not known yet.
pub fn disk_header(what: u32, sector: u32) {
    AREA.put(HEADER, what.into(), 8);
    AREA.put(HEADER + 8, sector.into(), 8);
    AREA.fill(ANSWER, 2, UNTOUCHED);
}
