//! Prints a report of the plugin: `show ELF REPORT [STRETCH] [lines] [tree] [all] [root=DIR]`.

use anyhow::{Context, Result};
use hanok_profile::profile::Profile;
use hanok_profile::report::Report;
use hanok_profile::symbols::Symbols;
use hanok_profile::table::{self, By, Shown};

fn main() -> Result<()> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [elf, report, more @ ..] = &words[..] else {
        anyhow::bail!("usage: show ELF REPORT [STRETCH] [lines] [tree] [all] [root=DIR]");
    };
    let root = more.iter().find_map(|word| word.strip_prefix("root="));
    let elf = std::fs::read(elf).with_context(|| format!("cannot read {elf}"))?;
    let symbols = Symbols::parse(&elf, root.unwrap_or_default())?;
    let mut report = Report::parse(&std::fs::read_to_string(report)?)?;
    if let Some(wanted) = more.iter().find_map(|word| word.parse::<u64>().ok()) {
        report.stretches.retain(|stretch| stretch.number == wanted);
    }
    let profile = Profile::of(&report.stretches, &symbols);
    let shown = Shown {
        by: if more.iter().any(|word| word == "all") {
            By::Nothing
        } else {
            By::Exits
        },
        rows: 60,
        lines: more.iter().any(|word| word == "lines"),
        tree: more.iter().any(|word| word == "tree"),
    };
    println!("{} stretches, {:?}", report.stretches.len(), report.finish);
    print!("{}", table::text(&profile, &shown));
    Ok(())
}
