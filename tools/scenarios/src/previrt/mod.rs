//! `hanok previrt` on real kernels: Debian's beside the mapping symbols of their debug packages,
//! kernels built here from Debian's source (A32 and T32) beside their own, one that is built
//! with the assembler that rewrites, and what Debian's execute.
//!
//! All are slow: gigabytes of downloads, and minutes of compiling for each kernel.

mod build;
mod executed;
mod list;
mod matrix;
mod stock;

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Result, ensure};
use hanok_previrt::oracle::Comparison;
use hanok_previrt::site::{Certainty, Site, is_tpidrurw};
use hanok_previrt::{Form, Patched, Scan, Trampolines};

use crate::step::{ListedStep, Tally, TestStep};
use build::{Assembler, Build};
use hanok_artifacts::Store;
use hanok_base::ui;
use matrix::Pair;
use stock::{STOCK, scan, stock};

/// What only `--all` runs, or its name.
pub const SLOW_STEPS: &[TestStep] = &[
    TestStep {
        name: "previrt-executed",
        run: |root| told(executed::run(root)),
    },
    TestStep {
        name: "previrt-assembler",
        run: |root| told(rewritten_build(root)),
    },
];

/// The same test of several kernels: each is a case of its own, so that one that is not available,
/// or wrong, hides no other.
pub fn listed(root: &Path) -> Result<Vec<ListedStep>> {
    let stock = STOCK.iter().map(|reference| {
        let what = reference.trim_start_matches("debian:");
        case("previrt-kernels", what, |_, store| {
            stock_pair(store, reference)
        })
    });
    let debian = matrix::entries(root)?.into_iter().map(|entry| {
        let what = entry.image.clone();
        case("previrt-kernels", &what, move |_, store| {
            matrix::pair(store, &entry)
        })
    });
    let builds = list::plans(root)?.into_iter().map(|plan| {
        let what = plan.name.clone();
        case("previrt-builds", &what, move |root, store| {
            let build = Build::new(root, store, &plan, Assembler::Plain)?;
            build.run()?;
            Ok(Pair {
                name: plan.name.clone(),
                image: build.image(),
                vmlinux: build.vmlinux(),
            })
        })
    });
    Ok(stock.chain(debian).chain(builds).collect())
}

/// A case that looks at one kernel, which `pair` gets.
fn case(
    step: &str,
    what: &str,
    pair: impl Fn(&Path, &Store) -> Result<Pair> + Send + Sync + 'static,
) -> ListedStep {
    ListedStep {
        name: format!("{step} [{what}]"),
        run: Box::new(move |root| {
            let pair = Store::open(true, false).and_then(|store| pair(root, &store));
            told(pair.and_then(|pair| one(&pair)).map(|()| 1))
        }),
    }
}

/// Which build an assembler rewrites.
const REWRITTEN: &str = "6.1, gcc 12, A32";
/// The largest share of doubtful words: one in a thousand sites.
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

fn stock_pair(store: &Store, reference: &str) -> Result<Pair> {
    let kernel = stock(store, reference)?;
    Ok(Pair {
        vmlinux: store.vmlinux(&kernel)?,
        name: kernel.resolved.package,
        image: kernel.image,
    })
}

/// Compares a kernel with its vmlinux; rewrites it and undoes that.
fn one(pair: &Pair) -> Result<()> {
    let name = &pair.name;
    let (image, vmlinux) = (scan(&pair.image)?, scan(&pair.vmlinux)?);
    let found = Comparison::new(&image, &vmlinux)?;
    eprintln!("{}", ui::dim(&format!("     {name}: {found}")));
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

/// A rewritten kernel has nothing left to rewrite, can be undone, and has trampolines.
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
    // The code seems to go on behind an SVC that replaces a return, into what stands there: so only
    // sites that were certain before are compared.
    let sure = scan.sites.iter();
    let sure = sure.filter(|site| site.certainty == Certainty::Sure);
    let before: HashSet<usize> = sure.map(|site| site.offset).collect();
    let left: HashSet<usize> = side.left.iter().map(|left| left.offset).collect();
    // TPIDRURW is legal, and read instead of TPIDRPRW; instructions that were left are undefined in
    // User mode.
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
    let mut plan = list::plan(root, REWRITTEN)?;
    plan.folder += "-rewritten";
    let build = Build::new(root, &store, &plan, Assembler::Rewriting)?;
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
