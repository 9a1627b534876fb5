//! How a file describes its events: the text of a format as tracefs has it.

use super::cursor::{text, unsigned};

/// A kind of event.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// The system that it belongs to.
    pub system: String,
    /// See `system`.
    pub name: String,
    /// Its number in events.
    pub id: u16,
    fields: Vec<Field>,
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    name: String,
    offset: usize,
    size: usize,
    is_signed: bool,
    /// It has the place and the length of its value.
    is_place: bool,
}

impl Field {
    /// The field of a line such as `field:char comm[16]; offset:8; size:16; signed:0;`.
    pub fn parsed(line: &str) -> Option<Self> {
        let mut field = Self {
            name: String::new(),
            offset: usize::MAX,
            size: 0,
            is_signed: false,
            is_place: false,
        };
        for part in line.split(';') {
            let Some((key, value)) = part.trim().split_once(':') else {
                continue;
            };
            let value = value.trim();
            match key {
                "field" => {
                    field.is_place = value.starts_with("__data_loc");
                    let (_, name) = value.rsplit_once([' ', '*'])?;
                    field.name = name.split('[').next()?.to_owned();
                }
                "offset" => field.offset = value.parse().ok()?,
                "size" => field.size = value.parse().ok()?,
                "signed" => field.is_signed = value == "1",
                _ => {}
            }
        }
        (field.offset != usize::MAX && !field.name.is_empty()).then_some(field)
    }

    /// What it is called, where it begins, and how many bytes it has.
    pub fn place(&self) -> (&str, usize, usize) {
        (&self.name, self.offset, self.size)
    }

    fn bytes<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        payload.get(self.offset..self.offset.checked_add(self.size)?)
    }
}

impl Description {
    /// The description in this text, if it is one.
    pub fn parsed(system: &str, described: &str) -> Option<Self> {
        let mut description = Self {
            system: system.to_owned(),
            ..Self::default()
        };
        let mut id = None;
        for line in described.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("name:") {
                description.name = name.trim().to_owned();
            } else if let Some(number) = line.strip_prefix("ID:") {
                id = number.trim().parse().ok();
            } else if line.starts_with("field") {
                description.fields.extend(Field::parsed(line));
            } else if line.starts_with("print fmt:") {
                break;
            }
        }
        description.id = id?;
        (!description.name.is_empty()).then_some(description)
    }

    fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// A number, with the bits of a negative one above its own.
    pub fn number(&self, payload: &[u8], name: &str) -> Option<u64> {
        let field = self.field(name)?;
        let bytes = field.bytes(payload)?;
        let bits = 8 * bytes.len() as u32;
        let unused = 64_u32.checked_sub(bits).filter(|unused| *unused < 64)?;
        let number = unsigned(bytes);
        Some(if field.is_signed {
            ((number << unused) as i64 >> unused) as u64
        } else {
            number
        })
    }

    /// Text: of a field of so many characters, or of one that says where they are.
    pub fn text(&self, payload: &[u8], name: &str) -> Option<String> {
        let field = self.field(name)?;
        let bytes = field.bytes(payload)?;
        if !field.is_place {
            return Some(text(bytes));
        }
        let place = unsigned(bytes);
        let (offset, length) = (place as usize & 0xffff, place as usize >> 16 & 0xffff);
        payload.get(offset..offset + length).map(text)
    }
}
