//! Keys of the person at the terminal. All go to the board, Ctrl-C too, except those after Ctrl-A,
//! as with QEMU and screen. The board has a key of its own, Ctrl-].

/// What a key asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// To send these keys to the board.
    Send(Vec<u8>),
    /// To end the run.
    Quit,
    /// To show the keys.
    Help,
}

/// What `Ctrl-A h` shows: with a hypervisor's `prompt` or without, and whether the run belongs to
/// another process (`visits`).
pub fn help(prompt: bool, visits: bool) -> String {
    let prompt = if prompt {
        "Ctrl-]    Hanok's prompt: other VMs, pause, restart; help lists all\n\
            Ctrl-] Ctrl-]  send Ctrl-] to the guest\n"
    } else {
        ""
    };
    let end = if visits {
        "go away: the run goes on"
    } else {
        "end the run"
    };
    format!(
        "{prompt}Ctrl-A x  {end}\n\
        Ctrl-A h  this help\n\
        Ctrl-A Ctrl-A  send Ctrl-A to the guest\n\
        All other keys, Ctrl-C too, go to the guest."
    )
}

const CTRL_A: u8 = 0x01;

/// Tells commands from keys for the guest. Bytes may be split at any point.
#[derive(Debug, Default)]
pub struct Keys {
    prefixed: bool,
}

impl Keys {
    /// What `bytes` ask for, in order.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Action> {
        let mut actions = Vec::new();
        for &byte in bytes {
            match self.step(byte) {
                Some(Action::Send(key)) => match actions.last_mut() {
                    Some(Action::Send(all)) => all.extend(key),
                    _ => actions.push(Action::Send(key)),
                },
                Some(action) => actions.push(action),
                None => {}
            }
        }
        actions
    }

    fn step(&mut self, byte: u8) -> Option<Action> {
        if std::mem::take(&mut self.prefixed) {
            return match byte {
                b'x' | b'X' => Some(Action::Quit),
                b'h' | b'H' | b'?' => Some(Action::Help),
                CTRL_A => Some(Action::Send(vec![CTRL_A])),
                _ => None,
            };
        }
        self.prefixed = byte == CTRL_A;
        (byte != CTRL_A).then(|| Action::Send(vec![byte]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_keys() {
        let mut keys = Keys::default();
        assert_eq!(
            keys.feed(b"ab\x03\x1d"),
            [Action::Send(b"ab\x03\x1d".to_vec())]
        );
        assert_eq!(keys.feed(b"x\x01"), [Action::Send(b"x".to_vec())]);
        assert_eq!(
            keys.feed(b"hy"),
            [Action::Help, Action::Send(b"y".to_vec())]
        );
        assert_eq!(keys.feed(b"\x01\x01"), [Action::Send(vec![1])]);
        assert_eq!(keys.feed(b"\x01q"), []);
        assert_eq!(keys.feed(b"\x01x"), [Action::Quit]);
    }
}
