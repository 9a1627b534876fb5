//! Messages of 9P2000.L: little-endian numbers, and texts with their length before them (Linux: include/net/9p/9p.h,
//! Documentation/filesystems/9p.rst; the protocol's manual: intro(5) of Plan 9).

use rustix::io::Errno;

/// Types of requests; an answer's is one more.
pub mod kind {
    pub const ERROR: u8 = 7;
    pub const STATFS: u8 = 8;
    pub const OPEN: u8 = 12;
    pub const CREATE: u8 = 14;
    pub const SYMLINK: u8 = 16;
    pub const MKNOD: u8 = 18;
    pub const READLINK: u8 = 22;
    pub const GETATTR: u8 = 24;
    pub const SETATTR: u8 = 26;
    pub const READDIR: u8 = 40;
    pub const FSYNC: u8 = 50;
    pub const LOCK: u8 = 52;
    pub const GETLOCK: u8 = 54;
    pub const LINK: u8 = 70;
    pub const MKDIR: u8 = 72;
    pub const RENAME: u8 = 74;
    pub const UNLINK: u8 = 76;
    pub const VERSION: u8 = 100;
    pub const ATTACH: u8 = 104;
    pub const FLUSH: u8 = 108;
    pub const WALK: u8 = 110;
    pub const READ: u8 = 116;
    pub const WRITE: u8 = 118;
    pub const CLUNK: u8 = 120;
    pub const REMOVE: u8 = 122;
}

/// The bytes of a message before its content: size, type, tag.
pub const HEADER: usize = 7;

/// What is left of a request. A request that ends too early is EINVAL.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A byte.
    pub fn byte(&mut self) -> Result<u8, Errno> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A number of 16 bits.
    pub fn half(&mut self) -> Result<u16, Errno> {
        self.array().map(u16::from_le_bytes)
    }

    /// A number of 32 bits.
    pub fn word(&mut self) -> Result<u32, Errno> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number of 64 bits.
    pub fn long(&mut self) -> Result<u64, Errno> {
        self.array().map(u64::from_le_bytes)
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Errno> {
        let (first, rest) = self.0.split_at_checked(count).ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(first)
    }

    /// A text, which may be anything.
    pub fn text(&mut self) -> Result<&'a [u8], Errno> {
        let count = self.half()?;
        self.bytes(count.into())
    }

    /// The name of a file in a directory: one part of a path, and neither the directory itself nor the one above.
    pub fn name(&mut self) -> Result<&'a [u8], Errno> {
        let name = self.text()?;
        let plain = !name.is_empty() && !name.contains(&b'/') && !name.contains(&0);
        match name {
            b"." | b".." => Err(Errno::INVAL),
            _ if name.len() > 255 => Err(Errno::NAMETOOLONG),
            _ if plain => Ok(name),
            _ => Err(Errno::INVAL),
        }
    }
}

/// An answer, as it is made.
#[derive(Debug, Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// Adds a byte.
    pub fn byte(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    /// Adds a number of 16 bits.
    pub fn half(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Adds a number of 32 bits.
    pub fn word(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Adds a number of 64 bits.
    pub fn long(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds a text of 65,535 bytes at the most, with its length before it.
    pub fn text(&mut self, text: &[u8]) -> &mut Self {
        let count = u16::try_from(text.len()).unwrap_or(u16::MAX);
        self.half(count);
        self.bytes(text.get(..count.into()).unwrap_or_default())
    }
}

/// The whole answer of this type.
pub fn message(kind: u8, tag: u16, content: &[u8]) -> Vec<u8> {
    let mut all = Writer::default();
    let size = (HEADER + content.len()) as u32;
    all.word(size).byte(kind).half(tag).bytes(content);
    all.0
}
