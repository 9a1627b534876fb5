//! Files of trace-cmd, version 6, which KernelShark opens, too.

use crate::format::{ALL, encoded};
use crate::model::{Machine, Place};
use crate::page::{HEAD, PAGE, Pages, TooLong};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The number of an option.
pub(crate) mod option {
    pub const CLOCK: u16 = 4;
    pub const CPUS: u16 = 8;
    pub const TRACE: u16 = 11;
    pub const TIME_SHIFT: u16 = 12;
    pub const GUEST: u16 = 13;
}

/// The bytes of the file with what happened on a machine.
///
/// # Errors
/// An event is larger than a page.
pub fn written(machine: &Machine) -> Result<Vec<u8>, TooLong> {
    let mut file = File(b"\x17\x08\x44tracing6\0\x00\x08".to_vec());
    file.u32(PAGE as u32);
    file.described(b"header_page\0", &page_header());
    file.described(b"header_event\0", EVENT_HEADER);
    // No formats of Linux's own tracer.
    file.u32(0);
    file.formats();
    // No addresses of functions, no strings of printk.
    file.u32(0);
    file.u32(0);
    let names = machine.tasks.iter().fold(String::new(), |mut names, task| {
        let (number, name) = task;
        let name = name.replace(['\n', ' '], "_");
        // Writing to a string never fails.
        let _ = writeln!(names, "{number} {name}");
        names
    });
    file.u64(names.len() as u64);
    file.0.extend_from_slice(names.as_bytes());
    file.u32(machine.cpus.len() as u32);
    file.options(machine);
    file.0.extend_from_slice(b"flyrecord\0");
    let mut rings = Vec::new();
    for records in &machine.cpus {
        let mut pages = Pages::default();
        for record in records {
            pages.add(record.at, &encoded(record))?;
        }
        rings.push(pages.finish());
    }
    let table = file.0.len() + 16 * rings.len();
    let mut at = table.next_multiple_of(PAGE) as u64;
    for ring in &rings {
        file.u64(at);
        file.u64(ring.len() as u64);
        at += ring.len() as u64;
    }
    file.0.resize(table.next_multiple_of(PAGE), 0);
    rings.iter().for_each(|ring| file.0.extend_from_slice(ring));
    Ok(file.0)
}

/// How the head of a page is laid out.
fn page_header() -> String {
    let field = |name: &str, offset: usize, size: usize, signed: u8| {
        format!("\tfield: {name};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
    };
    field("u64 timestamp", 0, 8, 0)
        + &field("local_t commit", 8, 8, 1)
        + &field("char data", HEAD, PAGE - HEAD, 1)
}

/// How the head of an event is laid out.
const EVENT_HEADER: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";

struct File(Vec<u8>);

impl File {
    fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn string(&mut self, string: &str) {
        self.0.extend_from_slice(string.as_bytes());
        self.0.push(0);
    }

    fn described(&mut self, name: &[u8], text: &str) {
        self.0.extend_from_slice(name);
        self.u64(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// The formats of all events, by their systems.
    fn formats(&mut self) {
        let mut systems: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for format in ALL {
            let of_system = systems.entry(format.system).or_default();
            of_system.push(format.text());
        }
        self.u32(systems.len() as u32);
        for (system, formats) in systems {
            self.string(system);
            self.u32(formats.len() as u32);
            for format in formats {
                self.u64(format.len() as u64);
                self.0.extend_from_slice(format.as_bytes());
            }
        }
    }

    fn option(&mut self, number: u16, data: &Self) {
        self.u16(number);
        self.u32(data.0.len() as u32);
        self.0.extend_from_slice(&data.0);
    }

    fn options(&mut self, machine: &Machine) {
        self.0.extend_from_slice(b"options  \0");
        self.option(option::CLOCK, &Self(b"[local]\0".to_vec()));
        let with = |fill: &dyn Fn(&mut Self)| {
            let mut data = Self(Vec::new());
            fill(&mut data);
            data
        };
        let cpus = machine.cpus.len() as u32;
        self.option(option::CPUS, &with(&|data| data.u32(cpus)));
        self.option(option::TRACE, &with(&|data| data.u64(machine.id)));
        match &machine.place {
            Place::Host { guests } => {
                for guest in guests {
                    let data = with(&|data| {
                        data.string(&guest.name);
                        data.u64(guest.id);
                        data.u32(guest.vcpus.len() as u32);
                        for (vcpu, task) in (0..).zip(&guest.vcpus) {
                            data.u32(vcpu);
                            data.u32(*task as u32);
                        }
                    });
                    self.option(option::GUEST, &data);
                }
            }
            Place::Guest { host, shift } => {
                let data = with(&|data| {
                    data.u64(*host);
                    data.u32(0);
                    data.u32(cpus);
                    for _ in 0..cpus {
                        // One time from which on the shift holds, and no scaling.
                        data.u32(1);
                        data.u64(0);
                        data.u64(*shift as u64);
                        data.u64(1);
                    }
                });
                self.option(option::TIME_SHIFT, &data);
            }
        }
        self.u16(0);
    }
}
