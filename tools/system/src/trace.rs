//! The table `[trace]`: how much memory each core's trace has, and what is recorded from the start on.

use crate::diagnostic::{Report, Words, nearest};
use crate::table::{self, At, Reader};
use hanok_abi::trace::{RECORD, area_size, class};
use hanok_config::{TRACE_RECORDS, Trace};

/// The size of a ring that the description does not say.
const DEFAULT_RECORDS: u32 = 32_768;
const A_RING: &str = "a power of two from \"4K\" to \"32M\"";
const CLASSES: &str = "a list of words such as \"exits\"";

/// Reads the table.
pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Trace {
    let records = reader.get(report, "ring", A_RING, |value| {
        let records = u32::try_from(table::size(value)? / RECORD as u64).ok()?;
        let whole = table::size(value)?.is_power_of_two() && TRACE_RECORDS.contains(&records);
        whole.then_some(records)
    });
    let classes = reader.get(report, "record", CLASSES, |value| {
        table::list(value, table::word)
    });
    Trace {
        records: records.map_or(DEFAULT_RECORDS, |records| records.value),
        classes: classes.map_or(class::ALL, |classes| known(report, &classes)),
    }
}

fn known(report: &mut Report, words: &At<Vec<String>>) -> u32 {
    let mut all = 0;
    for word in &words.value {
        match class::WORDS.iter().find(|(name, _)| name == word) {
            Some((_, bit)) => all |= bit,
            None => {
                let names = class::WORDS.map(|(name, _)| name);
                let remedy = match nearest(word, names) {
                    Some(name) => format!("did you mean \"{name}\"?"),
                    None => "choose among these".to_owned(),
                };
                let what = format!("no class of events is called \"{word}\"");
                let why = format!("there are {}", names.join(", "));
                report.refuse(&words.span, Words::new(what, why, remedy));
            }
        }
    }
    all
}

/// The memory in bytes that a trace takes on a board with so many cores.
pub(crate) fn memory(trace: Trace, cores: u64) -> u64 {
    match trace.records {
        0 => 0,
        records => area_size(cores as usize, records as usize) as u64,
    }
}
