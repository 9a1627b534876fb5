//! The fields in which a person types another promise.

use crate::change::{Change, Promised, needs_period};
use crate::protocol::VcpuId;
use crate::text;
use crate::view::VcpuView;

/// The longest content of a field.
const LONGEST: usize = 20;

/// A field.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What is in it.
    pub content: String,
}

/// The fields of one vCPU.
#[derive(Clone, Debug)]
pub struct Edit {
    /// Whose.
    pub id: VcpuId,
    /// Its name.
    pub name: String,
    /// The fields.
    pub fields: Vec<Field>,
    /// The place of the field that is typed in.
    pub focus: usize,
    /// What is wrong with the content.
    pub wrong: Option<String>,
    /// Whether the deadline is the period, whatever that is.
    follows: bool,
    /// Whether the next character replaces what was in the field.
    fresh: bool,
}

impl Edit {
    /// The fields with what a vCPU is promised now; `None` where it is promised nothing.
    pub fn new(vcpu: &VcpuView) -> Option<Self> {
        let field = |name, content| Field { name, content };
        let (fields, follows) = match Promised::of(vcpu)? {
            Promised::Interface {
                period,
                budget,
                deadline,
            } => {
                let mut fields = vec![
                    field("period", text::time(period)),
                    field("budget", text::time(budget)),
                ];
                // Where it is always the period, there is nothing to type.
                if !needs_period(vcpu.kind) {
                    fields.push(field("deadline", text::time(deadline)));
                }
                (fields, deadline == period)
            }
            Promised::Share { weight, cap } => {
                let fields = vec![
                    field("weight", weight.to_string()),
                    field("cap in %", cap.to_string()),
                ];
                (fields, false)
            }
        };
        Some(Self {
            id: vcpu.id,
            name: vcpu.name.clone(),
            fields,
            focus: 0,
            wrong: None,
            follows,
            fresh: true,
        })
    }

    /// Goes to another field.
    pub fn go(&mut self, by: usize) {
        self.focus = (self.focus + by) % self.fields.len();
        self.fresh = true;
    }

    /// Goes to the field before.
    pub fn back(&mut self) {
        self.go(self.fields.len() - 1);
    }

    /// Takes a character.
    pub fn typed(&mut self, character: char) {
        let fresh = std::mem::take(&mut self.fresh);
        let Some(field) = self.fields.get_mut(self.focus) else {
            return;
        };
        if fresh {
            field.content.clear();
        }
        if field.content.len() < LONGEST && (character.is_ascii_graphic() || character == 'µ') {
            field.content.push(character);
        }
        self.changed();
    }

    /// Takes the last character back.
    pub fn erase(&mut self) {
        self.fresh = false;
        if let Some(field) = self.fields.get_mut(self.focus) {
            field.content.pop();
        }
        self.changed();
    }

    fn changed(&mut self) {
        self.wrong = None;
        let name = self.fields.get(self.focus).map_or("", |field| field.name);
        match name {
            "deadline" => self.follows = false,
            "period" if self.follows => {
                let period = self.fields[self.focus].content.clone();
                let mut fields = self.fields.iter_mut();
                if let Some(deadline) = fields.find(|field| field.name == "deadline") {
                    deadline.content = period;
                }
            }
            _ => {}
        }
    }

    /// The change that is typed. Values that were not touched are those of the board, to the tick.
    pub fn change(&mut self, now: &VcpuView) -> Option<Change> {
        match self.read(now) {
            Ok(to) => Some(Change { id: self.id, to }),
            Err(wrong) => {
                self.wrong = Some(wrong);
                None
            }
        }
    }

    fn read(&self, now: &VcpuView) -> Result<Promised, String> {
        let content = |name: &str| {
            let mut fields = self.fields.iter();
            let field = fields.find(|field| field.name == name);
            field.map(|field| field.content.as_str())
        };
        let time = |name: &str, old: u64| match content(name) {
            Some(typed) if typed == text::time(old) => Ok(old),
            Some(typed) => text::parse_time(typed)
                .ok_or_else(|| format!("{name}: a time is a number and ns, us, ms or s")),
            None => Ok(old),
        };
        let number = |name: &str| {
            let number = content(name).and_then(|typed| typed.parse::<u64>().ok());
            number.ok_or_else(|| format!("{name}: a whole number"))
        };
        if content("weight").is_some() {
            return Ok(Promised::Share {
                weight: number("weight")?,
                cap: number("cap in %")?,
            });
        }
        let period = time("period", now.period)?;
        Ok(Promised::Interface {
            period,
            budget: time("budget", now.budget)?,
            deadline: match content("deadline") {
                Some(_) if !self.follows => time("deadline", now.deadline)?,
                _ => period,
            },
        })
    }
}
