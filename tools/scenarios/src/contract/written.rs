//! Outputs that must not be written, or cannot be: they are refused before anything is built, and
//! the old file stays.

use std::fs;

use anyhow::{Result, ensure};

use super::bench::{Bench, SOUND, words};
use hanok_base::exit::Code;

/// A command line, how it ends, and what is said.
pub(super) struct Written {
    args: &'static [&'static str],
    code: Code,
    what: &'static str,
}

const fn case(args: &'static [&'static str], code: Code, what: &'static str) -> Written {
    Written { args, code, what }
}

pub(super) const WRITTEN: &[Written] = &[
    case(
        &["build", "case.toml", "-o", "case.toml"],
        Code::Usage,
        "which is the description",
    ),
    case(
        &["build", "case.toml", "-o", "linked"],
        Code::Usage,
        "which is the description",
    ),
    case(
        &["build", "case.toml", "-o", "none/image"],
        Code::Output,
        "there is no folder none",
    ),
    case(
        &["build", "case.toml", "-o", "/dev/full"],
        Code::Output,
        "cannot write /dev/full: No space left",
    ),
    case(
        &["build", "none.toml", "-o", "image"],
        Code::Usage,
        "cannot read the description none.toml",
    ),
    case(
        &["check", "none.toml"],
        Code::Usage,
        "cannot read the description none.toml",
    ),
    case(
        &["sched", "check", "case.toml", "--html", "case.toml"],
        Code::Usage,
        "which is the description",
    ),
    case(
        &[
            "sched",
            "simulate",
            "case.toml",
            "--svg",
            "a",
            "--html",
            "a",
        ],
        Code::Usage,
        "name one file",
    ),
    case(
        &[
            "previrt",
            "patch",
            "case.toml",
            "-o",
            "a",
            "--side",
            "case.toml",
        ],
        Code::Usage,
        "which is the file itself",
    ),
    case(
        &["bench", "--cpu", "bogus"],
        Code::Usage,
        "has no CPU \"bogus\"",
    ),
    case(&["bench", "-o", "."], Code::Usage, "something else than"),
];

pub(super) fn written(bench: &Bench, case: &Written) -> Result<()> {
    bench.file("case.toml", SOUND)?;
    let link = bench.dir.path().join("linked");
    if !link.exists() {
        fs::hard_link(bench.dir.path().join("case.toml"), link)?;
    }
    let output = bench.hanok().args(case.args).output()?;
    let (_, said) = words(&output);
    ensure!(
        output.status.code() == Some(case.code as i32),
        "{:?} ended with {}: {said}",
        case.args,
        output.status
    );
    ensure!(said.contains(case.what), "{:?}: {said}", case.args);
    ensure!(
        bench.read("case.toml")? == SOUND,
        "{:?} wrote over it",
        case.args
    );
    Ok(())
}
