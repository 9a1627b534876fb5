//! The counted operations as rows of text, the same for a terminal and for the page.

use crate::cycles::{COSTS, Cost, Cpu, Estimate, Range, SOURCES};
use crate::figure::Figure;
use crate::figures::figures_on;
use crate::format;
use crate::machine::Side;
use crate::model::{Operations, Run};

/// What stands above both tables.
pub(crate) const COUNTED: &str = "Counted for one operation of each row, native / Hanok: what an emulator has and does not show the \
     cost of. Exits are Hanok's, by their cause; an exception that the window carries out is none. Of ctx and pagefault, \
     which measure something else for as long before and take it off, that is in the counts.";
/// What the estimate is.
pub(crate) const ESTIMATE: &str = "An estimate, and no measurement: cycles beyond one for each instruction, as far as the \
     operations above are known to take some, from the least to the most; and with them the multiple of native's cycles. \
     Misses of caches and TLBs that both have are not in it.";

/// Operations that have a column together.
struct Column {
    title: &'static str,
    names: &'static [&'static str],
    /// Whether native has none.
    ours: bool,
}

const fn exits(title: &'static str, names: &'static [&'static str]) -> Column {
    Column {
        title,
        names,
        ours: true,
    }
}

const fn both(title: &'static str, names: &'static [&'static str]) -> Column {
    Column {
        title,
        names,
        ours: false,
    }
}

const COLUMNS: [Column; 15] = [
    exits("exits: undefined", &["exit-undefined"]),
    exits("SVC", &["exit-call"]),
    exits("fetch", &["exit-fetch"]),
    exits("access", &["exit-access"]),
    exits("interrupt", &["exit-interrupt"]),
    exits("shadow fills", &["shadow-fill"]),
    both(
        "exceptions taken",
        &[
            "taken-undefined",
            "taken-call",
            "taken-fetch",
            "taken-access",
            "taken-interrupt",
        ],
    ),
    both("returns", &["return"]),
    both("TLB: all, ASID", &["tlb-all", "tlb-asid"]),
    both("address", &["tlb-address"]),
    both(
        "caches, predictor",
        &[
            "icache-all",
            "icache-address",
            "dcache-address",
            "dcache-set",
            "branch-predictor",
        ],
    ),
    both("DACR", &["dacr"]),
    both("table, ASID", &["table-base", "context-id"]),
    both(
        "other system registers",
        &[
            "system-write",
            "thread-register",
            "translation",
            "system-read",
            "status-write",
        ],
    ),
    both("ISB, DSB, DMB", &["isb", "dsb", "dmb"]),
];

/// The headings of [`counts`].
pub(crate) fn counted_header() -> Vec<&'static str> {
    let columns = COLUMNS.iter().map(|column| column.title);
    ["operation"].into_iter().chain(columns).collect()
}

/// A row for each figure whose operations were counted on both sides.
pub(crate) fn counts(run: &Run) -> Vec<Vec<String>> {
    let rows = pairs(run).map(|(figure, native, ours)| {
        let cells = COLUMNS.iter().map(|column| {
            let ours = number(ours.each(column.names));
            if column.ours {
                ours
            } else {
                format!("{} / {ours}", number(native.each(column.names)))
            }
        });
        [title(figure, ours)].into_iter().chain(cells).collect()
    });
    rows.collect()
}

/// The headings of [`estimates`].
pub(crate) fn estimated_header() -> Vec<String> {
    let mut header = vec!["operation".to_owned(), "instructions".to_owned()];
    for cpu in Cpu::ALL {
        header.push(format!("{}: native", cpu.title()));
        header.extend(["Hanok", "multiple"].map(str::to_owned));
    }
    header
}

/// A row for each figure whose operations were counted on both sides: the multiple of native's instructions, and for each CPU
/// the cycles beyond, natively and ours, and the multiple of native's cycles.
pub(crate) fn estimates(run: &Run) -> Vec<Vec<String>> {
    let rows = pairs(run).map(|(figure, native, ours)| {
        let instructions = ours.instructions() / native.instructions();
        let mut cells = vec![title(figure, ours), format!("{instructions:.3}")];
        for cpu in Cpu::ALL {
            match Estimate::of(native, ours, cpu) {
                Some(found) => cells.extend([
                    range(found.native, 0),
                    range(found.ours, 0),
                    range(found.ratio, 2),
                ]),
                None => cells.extend(["-", "-", "-"].map(str::to_owned)),
            }
        }
        cells
    });
    rows.collect()
}

/// The headings of [`costs`].
pub(crate) const COSTS_HEADER: [&str; 4] =
    ["cycles beyond its own", "Cortex-A8", "Cortex-A9", "why"];

/// The model's table.
pub(crate) fn costs() -> Vec<[String; 4]> {
    let row = |cost: &Cost| {
        let [a8, a9] = Cpu::ALL.map(|cpu| range(cost.on(cpu), 0));
        [cost.title.to_owned(), a8, a9, cost.why.to_owned()]
    };
    COSTS.iter().map(row).collect()
}

/// The model's sources, with their numbers.
pub(crate) fn sources() -> Vec<String> {
    let numbered = (1..).zip(SOURCES);
    numbered
        .map(|(number, source)| format!("[{number}] {source}"))
        .collect()
}

/// What was counted on both sides, in the order of the catalogue.
fn pairs(run: &Run) -> impl Iterator<Item = (&'static Figure, &Operations, &Operations)> {
    let figures = figures_on(run.machine.extensions).iter();
    figures.filter_map(|figure| {
        let native = run.operations_of(figure.id, Side::Native)?;
        let ours = run.operations_of(figure.id, Side::Hanok)?;
        (native.times > 0.0 && ours.times > 0.0).then_some((*figure, native, ours))
    })
}

fn title(figure: &Figure, counted: &Operations) -> String {
    match &*counted.of {
        "one" => figure.title.to_owned(),
        of => format!("{}, {of}", figure.title),
    }
}

/// A count: whole from a hundred on, three digits below, and a dash for none.
fn number(count: f64) -> String {
    let decimals = match count {
        _ if count <= 0.0 => return "-".to_owned(),
        _ if count >= 100.0 => 0,
        _ if count >= 10.0 => 1,
        _ if count >= 1.0 => 2,
        _ => 3,
    };
    match format!("{count:.decimals$}") {
        shown if shown.chars().all(|c| !c.is_ascii_digit() || c == '0') => "<0.001".to_owned(),
        _ if decimals == 0 => format::number(count.round()),
        shown => shown,
    }
}

fn range(range: Range, decimals: usize) -> String {
    let end = |value: f64| match decimals {
        0 => format::number(value.round()),
        _ => format!("{value:.decimals$}"),
    };
    let (low, high) = (end(range.low), end(range.high));
    if low == high {
        low
    } else {
        format!("{low}-{high}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycles::is_costed;
    use crate::machine::{Gic, Machine};

    #[test]
    fn each_column_is_of_operations_that_the_model_knows() {
        let columns = COLUMNS.iter().flat_map(|column| column.names);
        let columns: Vec<_> = columns.collect();
        assert!(columns.iter().all(|name| is_costed(name)), "{columns:?}");
        // And all that costs anything has a column.
        for name in COSTS.iter().flat_map(|cost| cost.operations) {
            assert!(columns.contains(&name), "{name}");
        }
    }

    #[test]
    fn the_documentation_has_the_model() {
        const DOCS: &str = include_str!("../../../docs/bench.md");
        for row in costs() {
            let row = format!("| {} |", row.join(" | "));
            assert!(DOCS.contains(&row), "docs/bench.md lacks {row}");
        }
        for (number, source) in (1..).zip(SOURCES) {
            let line = format!("{number}. {source}\n");
            assert!(DOCS.contains(&line), "docs/bench.md lacks {line}");
        }
    }

    #[test]
    fn counts_have_three_digits_and_nothing_looks_like_none() {
        let shown = [0.0, 0.0004, 0.0126, 1.004, 12.34, 1234.5].map(number);
        assert_eq!(shown, ["-", "<0.001", "0.013", "1.00", "12.3", "1,235"]);
        assert_eq!(
            range(
                Range {
                    low: 1.0,
                    high: 1.2
                },
                0
            ),
            "1"
        );
        assert_eq!(
            range(
                Range {
                    low: 1.0,
                    high: 1.2
                },
                2
            ),
            "1.00-1.20"
        );
    }

    #[test]
    fn a_row_needs_both_sides() {
        let mut run = Run::new(Machine {
            cpu: "cortex-a15".into(),
            gic: Gic::V2,
            bits: 32,
            extensions: false,
            memory_mib: 256,
            qemu: String::new(),
            kernel: String::new(),
            lmbench: String::new(),
            peers: Default::default(),
            settings: Vec::new(),
        });
        let of = |side, count| Operations {
            figure: "bw-pipe".into(),
            side,
            of: "a megabyte".into(),
            times: 2.0,
            hypervisor: 0,
            others: 100,
            counts: [("dacr".to_owned(), count)].into(),
        };
        run.operations.push(of(Side::Native, 4));
        assert!(counts(&run).is_empty() && estimates(&run).is_empty());
        run.operations.push(of(Side::Hanok, 1));
        let [row] = &counts(&run)[..] else {
            panic!("one row")
        };
        assert_eq!(row[0], "Pipe bandwidth, a megabyte");
        assert!(row.contains(&"2.00 / 0.500".to_owned()), "{row:?}");
        assert_eq!(row.len(), counted_header().len());
        let [row] = &estimates(&run)[..] else {
            panic!("one row")
        };
        assert_eq!(row.len(), estimated_header().len());
        assert_eq!((&*row[1], &*row[2], &*row[3]), ("1.000", "0-26", "0-7"));
    }
}
