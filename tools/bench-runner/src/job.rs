//! One boot of one board, from power on to the figures that its console gave.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hanok_bench::{Figure, Operations, Side};

use super::counting::{self, Counted, What};
use super::gdb;
use super::operations;
use super::plan::{Job, Load};
use super::rows::{self, Found};
use hanok_base::exit::Code;
use hanok_boot::board::Ready;
use hanok_boot::machine;
use hanok_console::request::{BeforeEnd, Input, Request, Sink};
use hanok_console::run;

/// The last line of everything that is measured.
const DONE: &str = "bench: done";
/// The longest time of a boot on however slow a PC; a boot that hangs must end. It is no figure.
const PATIENCE: Duration = Duration::from_secs(2 * 60 * 60);

/// A job whose board is ready.
pub struct Prepared {
    /// The job.
    pub job: Job,
    /// Its board.
    pub ready: Ready,
    /// Where its gdb stub will listen.
    pub socket: PathBuf,
    /// Whether its CPU has the virtualization extensions, and with them an offset of the virtual counter.
    pub extensions: bool,
    /// The figures that it is to give.
    pub figures: Vec<&'static Figure>,
    /// Where QEMU's plugin writes what it counts, if it does.
    pub report: Option<(PathBuf, What)>,
}

/// What a boot gave.
pub struct Given {
    /// The figures.
    pub values: Vec<(&'static str, f64)>,
    /// The figures that it should have given and did not, with the reasons.
    pub lacking: Vec<String>,
    /// What QEMU's plugin counted.
    pub counted: Vec<Counted>,
    /// How often the rows did what an emulator does not show the cost of.
    pub operations: Vec<Operations>,
}

/// How a boot ended.
pub enum Ended {
    /// It gave figures.
    Given(Given),
    /// A signal asked for its end.
    Interrupted,
}

/// Boots a board and reads its figures; what it says is kept in `dir`.
pub fn run(prepared: Prepared, dir: &Path) -> Result<Ended> {
    let Prepared {
        job,
        ready,
        socket,
        extensions,
        figures,
        report: counts,
    } = prepared;
    // Without the extensions a guest reads the board's counter as it is.
    let has_offset = extensions && job.side != Side::Native;
    let path = console_path(&job, dir);
    fs::write(
        path.with_extension("command"),
        machine::typed(&ready.command) + "\n",
    )?;
    let offset = Offset::default();
    let request = request(&job, ready, (socket, has_offset), &path, &offset, &figures)?;
    let report = run::run(request).map_err(|failure| failure.error)?;
    if report.code == Code::Interrupted {
        return Ok(Ended::Interrupted);
    }
    if report.code != Code::Success {
        bail!("{}", report.why);
    }
    let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    let counted = match counts {
        Some((path, what)) => counting::read(&path, &text, what)?,
        None => Vec::new(),
    };
    let found = rows::read(&text);
    match job.load {
        Load::Operations => {
            let given = operations::given(job.side, &found, &figures, &counted);
            Ok(Given {
                values: given.values,
                lacking: given.lacking,
                counted: Vec::new(),
                operations: given.operations,
            })
        }
        _ => given(found, &figures, &offset, counted),
    }
    .map(Ended::Given)
}

/// What the emulator said of the counter's offset, once it was asked.
type Offset = Arc<Mutex<Option<Result<u64>>>>;

/// Where the console of `job` is kept.
pub fn console_path(job: &Job, dir: &Path) -> PathBuf {
    dir.join(format!("{}.console", job.name()))
}

fn request(
    job: &Job,
    ready: Ready,
    (socket, has_offset): (PathBuf, bool),
    console: &Path,
    offset: &Offset,
    figures: &[&Figure],
) -> Result<Request> {
    let asked = figures.iter().any(|figure| figure.id == "boot");
    let (side, offset) = (job.side, offset.clone());
    let look = move || {
        let found = match side {
            _ if !has_offset => Ok(0),
            Side::Hanok => gdb::counter_offset(&socket, false),
            _ => gdb::counter_offset(&socket, true),
        };
        *offset.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
    };
    let others = ready.vms.len().saturating_sub(1);
    let mut consoles = vec![Sink::create(console)?];
    for other in 0..others {
        let path = console.with_extension(format!("{}.other", other + 2));
        consoles.push(Sink::create(&path)?);
    }
    Ok(Request {
        command: ready.command,
        framed: ready.framed,
        poweroff: ready.poweroff,
        steps: ready.first,
        until: Some(DONE.to_owned()),
        timeout: Some(PATIENCE),
        consoles,
        log: Sink::create(&console.with_extension("log"))?,
        input: Input::None,
        before_end: asked.then(|| -> BeforeEnd { Box::new(look) }),
        vms: ready.vms,
    })
}

fn given(
    found: Found,
    figures: &[&'static Figure],
    offset: &Offset,
    counted: Vec<Counted>,
) -> Result<Given> {
    let (mut values, mut lacking) = (Vec::new(), Vec::new());
    for figure in figures {
        let value = match figure.id {
            "boot" => boot(&found, offset),
            // Both cores' instructions, which no counter of a guest's tells.
            "ipi" => ipi(&counted),
            name => found.values.get(name).copied().ok_or_else(|| {
                let why = found
                    .bad
                    .get(name)
                    .map_or("the console has no such line", |w| w);
                anyhow::anyhow!("{why}")
            }),
        };
        match value {
            Ok(value) => values.push((figure.id, value)),
            Err(error) => lacking.push(format!("{}: {error:#}", figure.id)),
        }
    }
    Ok(Given {
        values,
        lacking,
        counted,
        operations: Vec::new(),
    })
}

/// The hypervisor's instructions of one interrupt from vCPU to vCPU.
fn ipi(counted: &[Counted]) -> Result<f64> {
    let found = counted.iter().find(|counted| counted.figure == "ipi");
    let value = found.and_then(Counted::a_round);
    value.context("the plugin counted nothing between the payload's markers")
}

/// From the reset to the first instruction of init.
fn boot(found: &Found, offset: &Offset) -> Result<f64> {
    let clock = found.clock.context("init did not tell the counter")?;
    let offset = offset.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(clock.nanoseconds(offset.context("the counter's offset was not asked for")??))
}
