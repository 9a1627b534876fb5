//! Unpacks LZO1X. Its format is described in Documentation/staging/lzo.rst of Linux.
//!
//! This decoder is our own because every library at hand panics on damaged data or is under another
//! licence.
//!
//! A byte says what comes next: literals, or a match (how long it is, and how far back). The lowest
//! two bits of a match are the number of literals that follow it. What the smallest byte values
//! mean depends on that number, which is the decoder's state.

/// How many literals the last instruction copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// None.
    None,
    /// One to three, as the low bits of a match say.
    Few,
    /// Four or more: a run of literals.
    Run,
}

struct Stream<'a> {
    packed: &'a [u8],
    content: Vec<u8>,
    most: usize,
}

/// Unpacks `packed`, whose content has `len` bytes; `None` where it is damaged.
pub fn unpack(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut stream = Stream {
        packed,
        content: Vec::with_capacity(len.min(1 << 20)),
        most: len,
    };
    let mut state = stream.first()?;
    while let Some(next) = stream.instruction(state)? {
        state = next;
    }
    (stream.content.len() == len).then_some(stream.content)
}

impl Stream<'_> {
    fn byte(&mut self) -> Option<usize> {
        let (first, rest) = self.packed.split_first()?;
        self.packed = rest;
        Some(usize::from(*first))
    }

    /// Decodes the first byte: above 17 it is a number of literals.
    fn first(&mut self) -> Option<State> {
        match usize::from(*self.packed.first()?) {
            // 17 begins the format's version with run lengths, which lzop does not write.
            17 => None,
            first @ 18.. => {
                self.byte()?;
                self.literals(first - 17)?;
                Some(if first < 21 { State::Few } else { State::Run })
            }
            _ => Some(State::None),
        }
    }

    /// Carries one instruction out. Returns the state after it; the inner `None` is the stream's
    /// end.
    fn instruction(&mut self, state: State) -> Option<Option<State>> {
        let code = self.byte()?;
        match code {
            0..=15 if state == State::None => {
                let len = self.length(code, 15)? + 3;
                self.literals(len)?;
                Some(Some(State::Run))
            }
            0..=15 => {
                let (len, from) = if state == State::Run {
                    (3, 2049)
                } else {
                    (2, 1)
                };
                let distance = (self.byte()? << 2) + (code >> 2) + from;
                self.matched(len, distance, code).map(Some)
            }
            16..=31 => {
                let len = self.length(code & 7, 7)? + 2;
                let pair = self.pair()?;
                match ((code & 8) << 11) + (pair >> 2) {
                    0 => Some(None),
                    far => self.matched(len, 16384 + far, pair).map(Some),
                }
            }
            32..=63 => {
                let len = self.length(code & 31, 31)? + 2;
                let pair = self.pair()?;
                self.matched(len, (pair >> 2) + 1, pair).map(Some)
            }
            _ => {
                let len = if code < 128 {
                    3 + (code >> 5 & 1)
                } else {
                    5 + (code >> 5 & 3)
                };
                let distance = (self.byte()? << 3) + (code >> 2 & 7) + 1;
                self.matched(len, distance, code).map(Some)
            }
        }
    }

    /// Reads a length. Zero in the instruction's own bits means that more bytes of the length
    /// follow.
    fn length(&mut self, short: usize, full: usize) -> Option<usize> {
        if short != 0 {
            return Some(short);
        }
        let zeros = self.packed.iter().position(|byte| *byte != 0)?;
        self.packed = self.packed.get(zeros..)?;
        let last = self.byte()?;
        zeros.checked_mul(255)?.checked_add(full + last)
    }

    /// Reads a 16-bit number, the low byte first.
    fn pair(&mut self) -> Option<usize> {
        Some(self.byte()? | self.byte()? << 8)
    }

    fn space(&self, len: usize) -> Option<()> {
        (self.content.len().checked_add(len)? <= self.most).then_some(())
    }

    fn literals(&mut self, len: usize) -> Option<()> {
        self.space(len)?;
        let (literals, rest) = self.packed.split_at_checked(len)?;
        self.content.extend_from_slice(literals);
        self.packed = rest;
        Some(())
    }

    /// Copies `len` bytes from `distance` back, then as many literals as the low bits of `code`
    /// count. The copied range may overlap its own end.
    fn matched(&mut self, len: usize, distance: usize, code: usize) -> Option<State> {
        self.space(len)?;
        let start = self.content.len().checked_sub(distance)?;
        for at in start..start + len {
            let byte = *self.content.get(at)?;
            self.content.push(byte);
        }
        let few = code & 3;
        self.literals(few)?;
        Some(if few == 0 { State::None } else { State::Few })
    }
}
