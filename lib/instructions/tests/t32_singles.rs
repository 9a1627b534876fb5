//! Tests all loads and stores of one register in T32 with two halfwords against the manual's text
//! (DDI 0406C A6.3.7 to A6.3.10, A8.8.62 to A8.8.94 and A8.8.203 to A8.8.218).

use hanok_decode::aarch32::{ItState, Register, Registers};
use hanok_instructions::{Definition, decode_t32};

/// The fields that decide.
#[derive(Clone, Copy, Debug)]
struct Single {
    /// 0, 1 and 2 mean a byte, a halfword and a word.
    size: u32,
    signed: bool,
    load: bool,
    n: u32,
    t: u32,
    form: Form,
}

/// How the address is formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The base and twelve bits.
    Twelve(u32),
    /// The base less eight bits.
    Less(u32),
    /// The base and eight bits, pre- or post-indexed with write-back: P and U.
    Back(u32, u32),
    /// The base and a shifted register.
    Register(u32, u32),
    /// An encoding that is none of these.
    None(u32),
}

impl Single {
    fn word(self) -> u32 {
        let (up, low) = match self.form {
            Form::Twelve(bits) => (1, bits),
            Form::Less(bits) => (0, 0xc00 | bits),
            Form::Back(pu, bits) => (0, 0x900 | pu << 9 | bits),
            Form::Register(m, shift) => (0, shift << 4 | m),
            Form::None(bits) => (0, bits),
        };
        let high = 0xf800 | u32::from(self.signed) << 8 | up << 7 | self.size << 5;
        let high = high | u32::from(self.load) << 4 | self.n;
        high << 16 | self.t << 12 | low
    }

    /// What the manual says of it.
    fn definition(self) -> Definition {
        use Definition::{Defined, Undefined, Unpredictable};
        let exists = match (self.size, self.signed) {
            (0 | 1, _) => true,
            (2, signed) => !signed,
            _ => false,
        };
        if !exists || matches!(self.form, Form::None(_)) {
            return Undefined;
        }
        let back = matches!(self.form, Form::Back(..));
        // "if m IN {13,15} then UNPREDICTABLE"
        let index = matches!(self.form, Form::Register(13 | 15, _));
        // "if t == 13 || (t == 15 && W == '1') || (wback && n == t) then UNPREDICTABLE" of what is
        // less than a word; to t == 15 without W it is a preload, or a hint that does nothing.
        let target = match (self.load, self.size) {
            (true, 2) => false,
            (true, _) => self.t == 13 || self.t == 15 && back,
            // "if t == 15 || (wback && n == t)", and of less than a word "if t IN {13,15}"
            (false, 2) => self.t == 15,
            (false, _) => self.t == 13 || self.t == 15,
        };
        if index || target || back && self.n == self.t {
            Unpredictable
        } else {
            Defined
        }
    }

    fn is_hint(self) -> bool {
        let back = matches!(self.form, Form::Back(..));
        self.load && self.size < 2 && self.t == 15 && !back
    }

    fn reads(self) -> Registers {
        let stored = if self.load {
            Registers::NONE
        } else {
            register(self.t)
        };
        let index = match self.form {
            Form::Register(m, _) => register(m),
            _ => Registers::NONE,
        };
        register(self.n).with(stored).with(index)
    }

    fn writes(self) -> Registers {
        let loaded = if self.load && !self.is_hint() {
            register(self.t)
        } else {
            Registers::NONE
        };
        match self.form {
            Form::Back(..) => loaded.with(register(self.n)),
            _ => loaded,
        }
    }
}

fn register(number: u32) -> Registers {
    Register::from_bits(number as u8).set()
}

fn forms() -> Vec<Form> {
    let mut all = vec![Form::Twelve(0), Form::Twelve(0xfff), Form::Twelve(0xc40)];
    all.extend([Form::Less(0), Form::Less(0xff)]);
    for pu in 0..4 {
        all.extend([Form::Back(pu, 0), Form::Back(pu, 0xff)]);
    }
    for m in 0..16 {
        all.extend((0..4).map(|shift| Form::Register(m, shift)));
    }
    // The register's form has zeros from bit 6 to 11; P and U alike without W is none.
    all.extend([0x040, 0x080, 0x0c1, 0x100, 0x400, 0x7c0, 0x800, 0xa00].map(Form::None));
    all
}

#[test]
fn singles_are_what_the_manual_says() {
    let mut counts = [0; 3];
    for bits in 0..1 << 12u32 {
        let field = |at: u32, width: u32| bits >> at & ((1 << width) - 1);
        let (size, signed, load) = (field(0, 2), field(2, 1) == 1, field(3, 1) == 1);
        let (n, t) = (field(4, 4), field(8, 4));
        // From the PC these are literals, and a signed store is one of Advanced SIMD.
        if n == 15 || signed && !load {
            continue;
        }
        for form in forms() {
            let single = Single {
                size,
                signed,
                load,
                n,
                t,
                form,
            };
            let word = single.word();
            let found = decode_t32((word >> 16) as u16, word as u16, ItState::NONE);
            let wanted = single.definition();
            assert_eq!(found.definition, wanted, "{word:x} {single:?}");
            counts[wanted as usize] += 1;
            if wanted == Definition::Defined {
                assert_eq!(found.effects.reads, single.reads(), "{word:x} {single:?}");
                assert_eq!(found.effects.writes, single.writes(), "{word:x} {single:?}");
                let leaves = load && size == 2 && t == 15;
                assert_eq!(found.falls_through(), !leaves, "{word:x} {single:?}");
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 1_000), "{counts:?}");
}
