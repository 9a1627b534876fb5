//! Tests an empty cache: each file that must be downloaded is named once, and nothing is asked for
//! that the command does not need. And where the output cannot be written, the command says so.

use std::fs::OpenOptions;
use std::process::Stdio;

use anyhow::{Context, Result, anyhow, ensure};

use super::bench::{Bench, words};
use hanok_artifacts::Store;
use hanok_base::exit::Code;
use hanok_boot::system;

/// A command line with an empty cache, its exit code, and its message.
pub(super) struct Empty {
    args: &'static [&'static str],
    /// Its output goes to a full disk.
    full: bool,
    code: Code,
    /// What it says once.
    once: &'static str,
}

pub(super) const EMPTY: &[Empty] = &[
    // Two VMs with one kernel, one of them with a device of the board.
    Empty {
        args: &["check", "two.toml"],
        full: false,
        code: Code::Success,
        once: "the stock kernel debian:6.1 ",
    },
    Empty {
        args: &["completions", "bash"],
        full: true,
        code: Code::Output,
        once: FULL,
    },
    Empty {
        args: &["--help"],
        full: true,
        code: Code::Output,
        once: FULL,
    },
    Empty {
        args: &["--version"],
        full: true,
        code: Code::Output,
        once: FULL,
    },
    Empty {
        args: &["help", "run"],
        full: true,
        code: Code::Output,
        once: FULL,
    },
    Empty {
        args: &["boards"],
        full: true,
        code: Code::Output,
        once: FULL,
    },
];

const FULL: &str = "cannot write the output: No space left";

const TWO: &str = r#"board = "qemu-virt"
[[vm]]
name = "a"
kernel = "debian:6.1"
initramfs = "busybox"
memory = "256M"
devices = ["pl061@9030000"]
[[vm]]
name = "b"
kernel = "debian:6.1"
initramfs = "busybox"
memory = "256M"
"#;

/// It says that once, and is about to download nothing.
pub(super) fn says(bench: &Bench, case: &Empty) -> Result<()> {
    bench.file("two.toml", TWO)?;
    let mut command = bench.hanok();
    command.args(case.args);
    command.env("HANOK_CACHE", bench.dir.path().join("cache"));
    if case.full {
        let full = OpenOptions::new().write(true).open("/dev/full");
        command.stdout(Stdio::from(full.context("no /dev/full")?));
    }
    let output = command.output()?;
    let (out, err) = words(&output);
    let said = out + &err;
    let code = Some(case.code as i32);
    ensure!(output.status.code() == code, "{}: {said}", output.status);
    let times = said.matches(case.once).count();
    ensure!(times == 1, "{:?} {times} times: {said}", case.once);
    ensure!(!said.contains("About to download"), "{said}");
    Ok(())
}

/// Has QEMU there: `hanok check` looks at a board's tree only where it is.
pub(super) fn fetch_qemu() -> Result<()> {
    let store = Store::open(true, false)?;
    system::prepare(&store, &[]).map_err(|failure| anyhow!("{:#}", failure.error))?;
    Ok(())
}
