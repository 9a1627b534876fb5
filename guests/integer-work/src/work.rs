//! The work: what programs of integers and strings do most.
//!
//! Nothing of it may be computed beforehand by the compiler, so values go through `black_box`, and functions are not
//! inlined where a call is a part of the work. Indices are masked, so that no check can fail.

use core::hint::black_box;

/// What a record is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Order,
    Parcel,
    Invoice,
    Letter,
    Note,
}

/// What is copied as a whole: 48 bytes and a link.
#[derive(Clone, Copy)]
struct Record {
    next: usize,
    kind: Kind,
    amount: i32,
    name: [u8; NAME],
}

/// The length of a string.
const NAME: usize = 30;
/// The number of records, a power of two.
const RECORDS: usize = 4;
/// The length of a row of the array, a power of two.
const ROW: usize = 64;

/// What a program keeps between its rounds.
pub struct State {
    records: [Record; RECORDS],
    names: [[u8; NAME]; 2],
    table: [[i32; ROW]; ROW],
    total: u32,
}

impl State {
    /// As it is before the first round.
    pub fn new() -> Self {
        let record = |next| Record {
            next,
            kind: Kind::Order,
            amount: 40,
            name: *b"A record among several of them",
        };
        Self {
            records: [record(1), record(2), record(3), record(0)],
            names: [
                *b"Two strings, which are alike 1",
                *b"Two strings, which are alike 2",
            ],
            table: [[7; ROW]; ROW],
            total: 0,
        }
    }

    /// One round.
    pub fn round(&mut self, number: u32) {
        let number = black_box(number);
        let (mut low, mut high) = (2, 3);
        let mut name = self.names[0];
        name[NAME - 1] = b'0' + (number & 7) as u8;
        let kind = if are_in_order(&name, &self.names[1]) {
            Kind::Parcel
        } else {
            Kind::Invoice
        };
        while low < high {
            high = scaled(low, high);
            low += 1;
        }
        fill(&mut self.table, (number as usize) & (ROW - 1), low, high);
        self.post((number as usize) & (RECORDS - 1), kind);
        let mut letter = b'A';
        while letter <= second(&name) {
            if kind == chosen(letter, b'C') {
                self.names[1] = name;
                low = number as i32;
            }
            letter += 1;
        }
        let product = low.wrapping_mul(high.wrapping_add(5));
        let parts = (product / (black_box(low & 15) + 3), product % 7);
        self.total = self
            .total
            .wrapping_add(parts.0 as u32)
            .wrapping_add(parts.1 as u32);
    }

    /// What the rounds came to, so that none of them may be left out.
    pub fn sum(&self) -> u32 {
        let amounts = self.records.iter().map(|record| record.amount as u32);
        let row = self.table[ROW / 2].iter().map(|number| *number as u32);
        let letters = self.records.iter().flat_map(|record| record.name);
        let all = amounts.chain(row).chain(letters.map(u32::from));
        all.fold(self.total, u32::wrapping_add)
    }

    /// Copies a record to the next one, and changes both.
    #[inline(never)]
    fn post(&mut self, at: usize, kind: Kind) {
        let next = self.records[at & (RECORDS - 1)].next & (RECORDS - 1);
        let copied = self.records[at & (RECORDS - 1)];
        self.records[next] = black_box(copied);
        self.records[next].next = (next + 1) & (RECORDS - 1);
        let record = &mut self.records[at & (RECORDS - 1)];
        record.amount = 5;
        record.kind = following(kind);
        let (kind, amount) = (record.kind, record.amount);
        let next = &mut self.records[next];
        next.amount = if kind == Kind::Order {
            scaled(6, next.amount)
        } else {
            amount + 1
        };
    }
}

/// The kind that comes after `kind`.
#[inline(never)]
fn following(kind: Kind) -> Kind {
    match black_box(kind) {
        Kind::Order => Kind::Parcel,
        Kind::Parcel => Kind::Letter,
        Kind::Invoice => Kind::Note,
        Kind::Letter => Kind::Invoice,
        Kind::Note => Kind::Order,
    }
}

/// A small function of two numbers.
#[inline(never)]
fn scaled(first: i32, second: i32) -> i32 {
    let first = black_box(first) + 2;
    5 * second.wrapping_add(first) - 9
}

/// Writes around a place of the table, and reads there.
#[inline(never)]
fn fill(table: &mut [[i32; ROW]; ROW], at: usize, low: i32, high: i32) {
    let at = at & (ROW - 1);
    let after = (at + 1) & (ROW - 1);
    let row = &mut table[at];
    row[at] = high;
    row[after] = row[at].wrapping_add(low);
    row[(at + 30) & (ROW - 1)] = at as i32;
    for column in at..at + 2 {
        table[after][column & (ROW - 1)] = table[at][column & (ROW - 1)].wrapping_sub(1);
    }
}

/// Which of two kinds a letter stands for.
#[inline(never)]
fn chosen(letter: u8, other: u8) -> Kind {
    if black_box(letter) == other {
        Kind::Order
    } else {
        Kind::Parcel
    }
}

/// A letter after the first one, which a name decides.
#[inline(never)]
fn second(name: &[u8; NAME]) -> u8 {
    b'B' + (black_box(name)[NAME - 1] & 1)
}

/// Whether `first` comes before `second`, letter by letter.
#[inline(never)]
fn are_in_order(first: &[u8; NAME], second: &[u8; NAME]) -> bool {
    let (first, second) = (black_box(first), black_box(second));
    for (one, other) in first.iter().zip(second) {
        if one != other {
            return one < other;
        }
    }
    false
}
