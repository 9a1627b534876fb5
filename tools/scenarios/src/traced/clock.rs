//! Whether guests and hypervisor have one clock: each guest tells the hypervisor by calls what its counter had before and after
//! a call, and the recording has when the hypervisor took that call and went back.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use hanok_base::exit::Code;

use super::trace_cmd::{Line, TraceCmd};
use crate::running::Running;

/// Boards, and the CPU where it is another one than the board's. One has no PMU, so that nobody counts the hypervisor's instructions.
const BOARDS: [(&str, Option<&str>); 3] = [
    ("qemu-virt", Some("cortex-a57,pmu=off")),
    ("qemu-virt-gicv2", None),
    ("qemu-virt-arm", None),
];
/// A guest on each of two cores.
const DESCRIPTION: &str = r#"cores = 2
memory = "512M"

[trace]
record = []

[[vm]]
name = "one"
kernel = "guest:bench"
memory = "32M"
cmdline = "bench.role=stamp"
cpus = [0]

[[vm]]
name = "other"
kernel = "guest:bench"
memory = "32M"
cmdline = "bench.role=stamp"
cpus = [1]
"#;
/// The calls (`guests/bench/src/stamp.rs`), and the bits of the counter in them.
const BEFORE: u64 = 0x44;
const AFTER: u64 = 0x45;
const BITS: u64 = (1 << 24) - 1;
/// The counter's frequency on these boards, in Hz.
const FREQUENCY: f64 = 62_500_000.0;
/// So far may the clocks be apart, in nanoseconds.
const APART: f64 = 1000.0;
/// So many pairs a core has at least in the time that is recorded.
const PAIRS: usize = 30;

/// The clock of one core's guest beside the hypervisor's.
#[derive(Debug)]
struct Compared {
    pairs: usize,
    /// The guest's clock is at most so much behind and ahead, in nanoseconds.
    behind: f64,
    ahead: f64,
}

/// Compares the clocks on each board.
pub(super) fn compared(root: &Path) -> Result<String> {
    let trace_cmd = TraceCmd::find()?;
    let said = BOARDS.map(|(board, cpu)| of_board(root, &trace_cmd, (board, cpu)).context(board));
    let said: Vec<_> = said.into_iter().collect::<Result<_>>()?;
    Ok(said.join("; "))
}

fn of_board(
    root: &Path,
    trace_cmd: &TraceCmd,
    (board, cpu): (&str, Option<&str>),
) -> Result<String> {
    let text = format!("board = \"{board}\"\n{DESCRIPTION}");
    let cpu = cpu.map(|cpu| ["--qemu-arg=-cpu".to_owned(), format!("--qemu-arg={cpu}")]);
    let words: Vec<_> = cpu.iter().flatten().map(String::as_str).collect();
    let running = Running::start_with(root, &text, &words)?;
    let words = ["--events", "exits", "--seconds", "0.03", "-o", "clock.dat"];
    let file = running.dir().join("clock.dat");
    running.awaits("pairs of both guests", || {
        let recorded = running.says(&["trace", "record"], &words)?;
        if !recorded.is(Code::Success) {
            return Ok(false);
        }
        let lines = trace_cmd.report(&file)?;
        let has_enough = |cpu| Ok::<_, anyhow::Error>(compare(&lines, cpu)?.pairs >= PAIRS);
        Ok(has_enough(0)? && has_enough(1)?)
    })?;
    let lines = trace_cmd.report(&file)?;
    running.stop()?;
    let of_core = |cpu| -> Result<String> {
        let found = compare(&lines, cpu)?;
        let apart = found.behind.max(found.ahead);
        ensure!(apart <= APART, "core {cpu}: {found:?}");
        Ok(format!("-{:.0} to {:.0}", found.behind, found.ahead))
    };
    let (one, other) = (of_core(0)?, of_core(1)?);
    Ok(format!("{board}: guests are {one} and {other} ns ahead"))
}

/// The clocks by the calls of one core.
fn compare(lines: &[Line], cpu: u32) -> Result<Compared> {
    let mut found = Compared {
        pairs: 0,
        behind: f64::MAX,
        ahead: f64::MAX,
    };
    // When the first call of a pair was taken and what it said, and when its guest went on.
    let (mut first, mut entered) = (None, None);
    for line in lines.iter().filter(|line| line.cpu == cpu) {
        match (line.event.as_str(), told(line)) {
            ("kvm_exit", Some((BEFORE, ticks))) => {
                (first, entered) = (Some((line.at, ticks)), None);
            }
            ("kvm_entry", _) if first.is_some() => {
                entered.get_or_insert(line.at);
            }
            ("kvm_exit", Some((AFTER, after))) => {
                if let (Some((left, before)), Some(entered)) = (first.take(), entered.take()) {
                    let (behind, ahead) = (since(before, left), -since(after, entered));
                    ensure!(behind >= 0.0, "a call came before it was made: {line:?}");
                    ensure!(
                        ahead >= 0.0,
                        "a guest was entered after it went on: {line:?}"
                    );
                    found.pairs += 1;
                    found.behind = found.behind.min(behind);
                    found.ahead = found.ahead.min(ahead);
                }
            }
            // Another exit between the two takes time, and contradicts nothing.
            _ => {}
        }
    }
    Ok(found)
}

/// What a call says: which one it is, and the bits of the counter.
fn told(line: &Line) -> Option<(u64, u64)> {
    let (_, about) = line.words.rsplit_once(", 0x")?;
    let about = u64::from_str_radix(about, 16).ok()?;
    Some((about >> 24, about & BITS))
}

/// How long, in nanoseconds, the recording's time `at` is after the guest's counter had these bits; less than zero: before. Both are
/// taken to be the same to a tenth of a second.
fn since(bits: u64, at: f64) -> f64 {
    let ticks = (at * FREQUENCY).round() as u64;
    let distance = ticks.wrapping_sub(bits) & BITS;
    let signed = if distance > BITS / 2 {
        distance as f64 - (BITS + 1) as f64
    } else {
        distance as f64
    };
    signed / FREQUENCY * 1e9
}
