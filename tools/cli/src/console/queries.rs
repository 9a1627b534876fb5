//! Questions that a guest's shell asks its terminal.
//!
//! Busybox asks for the cursor's place (ESC [ 6 n, ECMA-48 DSR) at each prompt. A terminal
//! whose keys do not go to the guest would answer to whoever reads them next, the user's own
//! shell; so the question is not shown there. What goes to a file stays as it came.

const QUESTION: &[u8] = b"\x1b[6n";

/// Takes the questions out of a stream that comes in pieces.
#[derive(Debug, Default)]
pub struct Queries {
    /// How much of a question the former piece ended with.
    begun: usize,
}

impl Queries {
    /// `bytes` without questions. The beginning of one is held back until it is known to be
    /// none.
    pub fn without(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut shown = Vec::with_capacity(bytes.len());
        for byte in bytes {
            if *byte != QUESTION[self.begun] {
                shown.extend(&QUESTION[..std::mem::take(&mut self.begun)]);
            }
            if *byte == QUESTION[self.begun] {
                self.begun = (self.begun + 1) % QUESTION.len();
            } else {
                shown.push(*byte);
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_question_is_left_out() {
        let stream = b"a\x1b[6nb\x1b[1mc\x1b\x1b[6n\x1b[";
        for cut in 0..stream.len() {
            let mut queries = Queries::default();
            let mut shown = queries.without(&stream[..cut]);
            shown.extend(queries.without(&stream[cut..]));
            assert_eq!(shown, b"ab\x1b[1mc\x1b", "cut at {cut}");
        }
    }
}
