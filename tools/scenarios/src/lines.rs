//! Prints what has to be trusted: the lines of source in each image, by crate, each with a ceiling.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use hanok_lines::ceilings::Ceilings;
use hanok_lines::count::count;
use hanok_system::Architecture;

use crate::step::{Tally, TestStep};
use hanok_artifacts::cargo::{self, Variant};
use hanok_base::ui;

/// The steps.
pub const STEPS: &[TestStep] = &[TestStep {
    name: "image-lines",
    run: |root| check(root).unwrap_or_else(|error| Tally::fail(format!("{error:#}"))),
}];

/// Where the ceilings are, from the repository on.
const CEILINGS: &str = "tests/image/lines.toml";
/// The images, by their names in the file of ceilings.
const IMAGES: [(&str, Architecture, Variant); 3] = [
    ("arm64", Architecture::Arm64, Variant::Shipped),
    ("arm", Architecture::Arm, Variant::Shipped),
    ("arm64-pools", Architecture::Arm64, Variant::Pools),
];
/// The first folders of the repository's own crates.
const OWN: [&str; 4] = ["core", "lib", "arch", "hypervisor"];

/// Compares each image with its ceilings, and prints its table.
fn check(root: &Path) -> Result<Tally> {
    let ceilings = fs::read_to_string(root.join(CEILINGS))
        .with_context(|| format!("cannot read {CEILINGS}"))?;
    let ceilings = Ceilings::parse(&ceilings).context(CEILINGS)?;
    let mut tally = Tally::default();
    let mut broken = Vec::new();
    for (name, architecture, variant) in IMAGES {
        cargo::variant_of(root, architecture, variant)?;
        let elf = fs::read(cargo::variant_elf_of(root, architecture, variant))?;
        let judged = ceilings.judge(name, &count(&elf, root)?, &OWN);
        ui::line(format_args!(
            "     lines of {name}, ceilings beside\n{}",
            indented(&judged.table)
        ));
        tally.add(&if judged.broken.is_empty() {
            Tally::pass()
        } else {
            Tally::fail("")
        });
        broken.extend(judged.broken);
    }
    if !broken.is_empty() {
        broken.push(format!("{CEILINGS} has the ceilings, and says what counts"));
    }
    tally.details = broken.join("\n");
    Ok(tally)
}

fn indented(table: &str) -> String {
    let lines: Vec<_> = table.lines().map(|line| format!("     {line}")).collect();
    lines.join("\n")
}
