//! A place in a file, from which its parts are taken one by one.

use super::ReadError;

/// What is left of the file, and where that is.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    file: &'a [u8],
    /// The offset of what is taken next.
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(file: &'a [u8]) -> Self {
        Self { file, at: 0 }
    }

    /// The next `count` bytes, which are called `what`.
    pub fn take(&mut self, count: u64, what: &'static str) -> Result<&'a [u8], ReadError> {
        let cut_off = ReadError::CutOff {
            at: self.at,
            what,
            end: self.file.len(),
        };
        let rest = self.file.get(self.at..).unwrap_or_default();
        let taken = usize::try_from(count)
            .ok()
            .and_then(|count| rest.get(..count));
        let taken = taken.ok_or(cut_off)?;
        self.at += taken.len();
        Ok(taken)
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8, ReadError> {
        self.number(1, what).map(|number| number as u8)
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, ReadError> {
        self.number(2, what).map(|number| number as u16)
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, ReadError> {
        self.number(4, what).map(|number| number as u32)
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64, ReadError> {
        self.number(8, what)
    }

    fn number(&mut self, bytes: u64, what: &'static str) -> Result<u64, ReadError> {
        self.take(bytes, what).map(unsigned)
    }

    /// Bytes until a zero, which is taken, too.
    pub fn string(&mut self, what: &'static str) -> Result<String, ReadError> {
        let rest = self.file.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == 0);
        // Without a zero the string goes on behind the file's end.
        let length = length.unwrap_or(rest.len());
        let bytes = self.take(length as u64 + 1, what)?;
        Ok(text(bytes))
    }
}

/// The number in these bytes, of which there are eight at the most.
pub fn unsigned(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(number)
}

/// Text up to the first zero.
pub fn text(bytes: &[u8]) -> String {
    let length = bytes.iter().position(|byte| *byte == 0);
    let bytes = bytes
        .get(..length.unwrap_or(bytes.len()))
        .unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}
