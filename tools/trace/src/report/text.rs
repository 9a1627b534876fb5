//! Numbers, times and tables in plain text.

/// The most characters of a name.
const NAME: usize = 24;

/// A name that fits in a table, without what a terminal would take for a command.
pub fn short(name: &str) -> String {
    shortened(name, NAME)
}

/// As [`short`], with at most so many characters.
pub fn shortened(name: &str, most: usize) -> String {
    let shown = name.chars().filter(|character| !character.is_control());
    let mut shown: Vec<_> = shown.take(most + 1).collect();
    if shown.len() > most {
        shown.truncate(most - 2);
        shown.extend(['.', '.']);
    }
    shown.into_iter().collect()
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Nanoseconds in a readable unit.
pub fn time(nanoseconds: u64) -> String {
    let value = nanoseconds as f64;
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.3} ms", value / 1e6),
        _ => format!("{:.3} s", value / 1e9),
    }
}

/// A time since the first record.
pub fn instant(nanoseconds: u64) -> String {
    format!("{:.6} s", nanoseconds as f64 / 1e9)
}

/// What part of a time another one is; of no time `-`.
pub fn share(part: u64, of: u64) -> String {
    match of {
        0 => "-".to_owned(),
        of => format!("{:.1} %", part as f64 / of as f64 * 100.0),
    }
}

/// A number and what it counts: `1 core`, `2,000 cores`.
pub fn counted(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {what}{s}", grouped(number))
}

/// A table: the first column begins at the left, and the others end at the right.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these heads of columns.
    pub fn new(heads: &[&str]) -> Self {
        let heads = heads.iter().map(|head| (*head).to_owned());
        Self {
            rows: vec![heads.collect()],
        }
    }

    /// A table without heads.
    pub fn headless() -> Self {
        Self { rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether a table with heads has nothing below them.
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// The table's lines, with this many spaces before each.
    pub fn written(&self, indent: usize) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
                line += &match index {
                    0 => format!("{cell:<width$}"),
                    _ => format!("  {cell:>width$}"),
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// Words in lines of at most so many columns, each with so many spaces before it. Words are parted at commas.
pub fn folded(words: &str, indent: usize, most: usize) -> String {
    let mut text = String::new();
    let mut line = String::new();
    for part in words.split_inclusive(", ") {
        let length = line.chars().count() + part.trim_end().chars().count();
        if !line.is_empty() && indent + length > most {
            text += &format!("{:indent$}{}\n", "", line.trim_end());
            line.clear();
        }
        line += part;
    }
    text + &format!("{:indent$}{}\n", "", line.trim_end())
}
