//! Compares what is found in an image without symbols with what the mapping symbols of the
//! vmlinux of the same build say: `compare IMAGE VMLINUX`.
//!
//! Missed is a site that is neither certain nor doubtful in the image; a literal is something
//! that is certain there, and is none by the mapping symbols.

use hanok_previrt::site::{Certainty, Role, Site};
use hanok_previrt::{Scan, scan};
use std::collections::{HashMap, HashSet};
use std::process::ExitCode;

/// The vectors are executed on a page of their own, and the stubs on the next one.
const VECTORS: u32 = 0xffff_0000;
const STUBS: u32 = 0xffff_1000;

fn load(file: &str) -> Scan {
    let bytes = std::fs::read(file).expect("the file can be read");
    scan(&bytes).unwrap_or_else(|refusal| panic!("{file}: {refusal}"))
}

/// Where in memory the image has the vectors' stubs: behind the sets of eight vectors.
fn stubs(vmlinux: &Scan) -> u32 {
    let sets = vmlinux
        .places
        .iter()
        .filter(|place| place.section.starts_with(".vectors"));
    let init = vmlinux
        .places
        .iter()
        .find(|place| place.section == ".init.text");
    (init.map_or(0, |place| place.address) & !0xfff) + 32 * sets.count() as u32
}

fn main() -> ExitCode {
    let mut files = std::env::args().skip(1);
    let (Some(image), Some(vmlinux)) = (files.next(), files.next()) else {
        eprintln!("usage: compare IMAGE VMLINUX");
        return ExitCode::from(2);
    };
    let (image, vmlinux) = (load(&image), load(&vmlinux));
    let stubs = stubs(&vmlinux);
    let place = |site: &Site| match site.address {
        address if address >= STUBS => address - STUBS + stubs,
        address if address >= VECTORS => address - VECTORS + stubs,
        address => address,
    };
    let found: HashMap<u32, Certainty> = image
        .sites
        .iter()
        .map(|site| (site.address, site.certainty))
        .collect();
    let truth: HashSet<u32> = vmlinux.sites.iter().map(place).collect();
    let (mut missed, mut doubted) = (0, 0);
    for site in &vmlinux.sites {
        match found.get(&place(site)) {
            Some(Certainty::Sure) => {}
            Some(Certainty::Doubtful) => doubted += 1,
            None => {
                missed += 1;
                println!(
                    "missed: {:#010x} {:?}",
                    site.address,
                    vmlinux.function(site)
                );
            }
        }
    }
    let mut literals = 0;
    let sure = image
        .sites
        .iter()
        .filter(|site| site.certainty == Certainty::Sure);
    for site in sure.filter(|site| !truth.contains(&site.address)) {
        literals += 1;
        println!("literal: {:#010x} {:?}", site.address, image.function(site));
    }
    let others = vmlinux
        .sites
        .iter()
        .filter(|site| site.role == Role::Alternative)
        .count();
    let doubtful = image.sites.len()
        - image
            .sites
            .iter()
            .filter(|s| s.certainty == Certainty::Sure)
            .count();
    println!(
        "{} sites by mapping symbols, {others} of them alternatives: {missed} missed, \
         {doubted} doubtful; {literals} literals taken for code; {doubtful} doubtful words, \
         {:.3} % of sites",
        truth.len(),
        doubtful as f64 * 100.0 / truth.len() as f64,
    );
    ExitCode::from(u8::from(missed + literals > 0))
}
