//! `hanok previrt` on real kernels: Debian's beside the mapping symbols of their debug packages,
//! kernels built here from Debian's source (A32 and T32) beside their own, one that is built
//! with the assembler that rewrites, and what Debian's execute.
//!
//! All are slow: a gigabyte of downloads, and three kernels are compiled.

mod build;
mod executed;
mod matrix;

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use hanok_previrt::site::{Certainty, Site, is_tpidrurw};
use hanok_previrt::truth::Comparison;
use hanok_previrt::{Form, Patched, Scan, Trampolines};

use super::{Tally, TestStep};
use crate::artifacts::Store;
use crate::artifacts::kernel::{Kernel, KernelSpec};
use crate::commands::previrt::compared;
use crate::ui;
use build::{Build, Flavour};
use matrix::Pair;

/// What only `--all` runs, or its name.
pub const SLOW_STEPS: &[TestStep] = &[
    TestStep {
        name: "previrt-kernels",
        run: |root| told(kernels(root)),
    },
    TestStep {
        name: "previrt-executed",
        run: |root| told(executed::run(root)),
    },
    TestStep {
        name: "previrt-build",
        run: |root| told(rewritten_build(root)),
    },
];

/// Debian's kernels that are looked at.
const STOCK: [&str; 2] = ["debian:6.1:armhf", "debian:6.12:armhf"];
/// Doubtful words may be one in a thousand sites.
const DOUBTFUL_PERCENT: f64 = 0.1;

fn told(result: Result<usize>) -> Tally {
    match result {
        Ok(passed) => Tally {
            passed,
            ..Tally::default()
        },
        Err(error) => Tally::fail(format!("{error:#}")),
    }
}

fn stock(store: &Store, reference: &str) -> Result<Kernel> {
    let spec = KernelSpec::parse(reference).context("a reference that is none")?;
    store.kernel(&spec)
}

fn scan(path: &Path) -> Result<Scan> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    hanok_previrt::scan(bytes).with_context(|| path.display().to_string())
}

/// Every kernel beside the truth; what is rewritten is undone.
fn kernels(root: &Path) -> Result<usize> {
    let store = Store::open(true, false)?;
    let mut pairs: Vec<Result<Pair>> = Vec::new();
    for reference in STOCK {
        let kernel = stock(&store, reference)?;
        let vmlinux = store.vmlinux(&kernel)?;
        pairs.push(Ok(Pair {
            name: kernel.resolved.package,
            image: kernel.image,
            vmlinux,
        }));
    }
    pairs.extend(matrix::kernels(root, &store)?);
    for flavour in [Flavour::A32, Flavour::T32] {
        let build = Build::new(root, &store, flavour)?;
        build.run()?;
        pairs.push(Ok(Pair {
            name: flavour.name().to_owned(),
            image: build.image(),
            vmlinux: build.vmlinux(),
        }));
    }
    // All are looked at, so that one that fails does not hide another.
    let count = pairs.len();
    let looked = pairs
        .into_iter()
        .map(|pair| pair.and_then(|pair| one(&pair)));
    let failed: Vec<String> = looked
        .filter_map(Result::err)
        .map(|error| format!("{error:#}"))
        .collect();
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(count)
}

fn one(pair: &Pair) -> Result<()> {
    let name = &pair.name;
    let (image, vmlinux) = (scan(&pair.image)?, scan(&pair.vmlinux)?);
    let found = Comparison::new(&image, &vmlinux)?;
    eprintln!("{}", ui::dim(&format!("     {name}: {}", compared(&found))));
    ensure!(found.is_right(), "{name}: {found:?}");
    ensure!(
        found.doubtful_percent() <= DOUBTFUL_PERCENT,
        "{name}: {} doubtful words",
        found.doubtful
    );
    let end = |scan: &Scan| scan.code.as_ref().and_then(|code| code.end);
    ensure!(
        end(&image).is_some() && end(&image) == end(&vmlinux),
        "{name}: the image seems to end at {:x?}, the vmlinux does at {:x?}",
        end(&image),
        end(&vmlinux)
    );
    rewritten(&format!("{name}, image"), &image)?;
    rewritten(&format!("{name}, vmlinux"), &vmlinux)
}

/// What is rewritten has nothing left to rewrite, is undone, and has trampolines.
fn rewritten(name: &str, scan: &Scan) -> Result<()> {
    let Patched { bytes, side } = hanok_previrt::patch(scan, Trampolines::All)?;
    let undone = hanok_previrt::revert(&bytes, &side)?;
    ensure!(undone == scan.content, "{name} is not as it was, undone");
    drop(undone);
    let of = |form| {
        let changes = side.changes.iter();
        changes.filter(|change| change.form == form).count()
    };
    let without = of(Form::Trampoline) + of(Form::Word);
    let told = format!(
        "     {name}: {} to a trampoline, {} to another register, {:.1} % of {} without a trap",
        of(Form::Trampoline),
        of(Form::Word),
        without as f64 * 100.0 / side.changes.len().max(1) as f64,
        side.changes.len(),
    );
    eprintln!("{}", ui::dim(&told));
    ensure!(of(Form::Trampoline) > 1000, "{name} has no trampolines");
    let again = hanok_previrt::scan(&bytes)?;
    ensure!(hanok_previrt::rewritten(&again), "{name} looks untouched");
    // An SVC in place of a return seems to go on, into what stands behind it: so only what was
    // certain before is looked at.
    let sure = scan.sites.iter();
    let sure = sure.filter(|site| site.certainty == Certainty::Sure);
    let before: HashSet<usize> = sure.map(|site| site.offset).collect();
    let left: HashSet<usize> = side.left.iter().map(|left| left.offset).collect();
    // TPIDRURW is legal, and read instead of TPIDRPRW; what was left is undefined as it is.
    let wrong = |site: &&Site| {
        let known = is_tpidrurw(&site.found) || left.contains(&site.offset);
        before.contains(&site.offset) && !known
    };
    let wrong = again.sites.iter().find(wrong);
    ensure!(wrong.is_none(), "{name}, rewritten, still has {wrong:x?}");
    Ok(())
}

/// A kernel of which every object was rewritten has nothing to rewrite.
fn rewritten_build(root: &Path) -> Result<usize> {
    let store = Store::open(true, false)?;
    let build = Build::new(root, &store, Flavour::Rewritten)?;
    build.run()?;
    let vmlinux = scan(&build.vmlinux())?;
    let vdso = |site: &&Site| {
        let section = vmlinux
            .places
            .get(site.section)
            .map(|place| &*place.section);
        section == Some(".rodata")
    };
    // TPIDRURW is legal, and read instead of TPIDRPRW.
    let left = vmlinux.sites.iter();
    let left = left.filter(|site| !is_tpidrurw(&site.found));
    let left: Vec<_> = left.filter(|site| !vdso(site)).collect();
    ensure!(vmlinux.trapped > 1000, "{} SVCs", vmlinux.trapped);
    eprintln!(
        "{}",
        ui::dim(&format!(
            "     {} SVCs hold an instruction, {} sensitive ones are left",
            vmlinux.trapped,
            left.len()
        ))
    );
    ensure!(left.is_empty(), "left: {left:x?}");
    Ok(1)
}
