//! `hanok trace`: what all guests and the hypervisor did, on one clock.

mod report;

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use hanok_abi::trace::class;

use super::attach;
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::outputs::{Outputs, put};
use hanok_base::signals::{self, Listener, SignalResponse};
use hanok_base::{repo, ui, values};
use hanok_console::attach_socket::{self, BoardMemory, STAY};
use hanok_console::demux::{Channel, Demux, Piece};
use hanok_console::report_lines::ReportLines;
use hanok_trace_files::area::Follower;
use hanok_trace_files::recording::Recording;
use hanok_trace_files::{perfetto, trace_dat};

/// What `hanok trace --help` ends with.
pub const HELP: &str = "\
A system is traced whose description has a [trace] (docs/trace.md).

Examples:
  hanok trace record -o trace.dat
  hanok trace record --seconds 2 --events switches,wakes --vm rtos -o trace.dat
  hanok trace record --format perfetto -o trace.pftrace
  hanok trace report trace.dat";

const RECORD_HELP: &str = "\
Records until Ctrl-C, until --seconds of the board's time are over, or until the run ends. Read the file with \
`hanok trace report`, `trace-cmd report` or `kernelshark`, or, with --format perfetto, with Perfetto.

Exit codes:
  0  recorded
  2  no such system or VM, or it is not traced
  4  the board does not answer
  10 the file cannot be written";

/// Subcommands of `trace`.
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Record what happens on a board that runs.
    #[command(after_help = RECORD_HELP)]
    Record(RecordArgs),
    /// Say what a recording has: who had the CPUs, who waited for whom, and why the hypervisor ran.
    #[command(after_help = report::HELP)]
    Report(report::ReportArgs),
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// For trace-cmd and KernelShark.
    TraceDat,
    /// For Perfetto.
    Perfetto,
}

/// Arguments of `trace record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Which system, where several run: as `hanok list` names it, or its description's name.
    #[arg(long, value_name = "NAME")]
    pub system: Option<String>,
    /// Where the recording goes.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// How it is written.
    #[arg(long, value_enum, default_value_t = Form::TraceDat)]
    pub format: Form,
    /// What is recorded: exits, switches, wakes, interrupts, life; all of them, if nothing is said.
    #[arg(
        long,
        value_name = "CLASSES",
        allow_hyphen_values = true,
        value_delimiter = ',',
        value_parser = class_of
    )]
    pub events: Vec<u32>,
    /// Record events of this VM alone; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub vm: Vec<String>,
    /// Record for this long, in seconds of the board's time.
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = values::seconds)]
    pub seconds: Option<Duration>,
    /// Take what the rings have from before, too.
    #[arg(long)]
    pub earlier: bool,
    /// End with so many records at the latest.
    #[arg(
        long,
        value_name = "RECORDS",
        default_value_t = 4_000_000,
        allow_hyphen_values = true,
        value_parser = values::whole(1..=usize::MAX, "a number of records", "4000000")
    )]
    pub most: usize,
}

fn class_of(word: &str) -> Result<u32, String> {
    let known = class::WORDS.iter().find(|(name, _)| *name == word);
    let names = || class::WORDS.map(|(name, _)| name).join(", ");
    known
        .map(|(_, bit)| *bit)
        .ok_or_else(|| format!("classes are some of {}, such as exits,wakes", names()))
}

/// `hanok trace`.
pub fn run(root: &Path, command: &TraceCommand) -> Outcome {
    match command {
        TraceCommand::Record(args) => record(root, args),
        TraceCommand::Report(args) => report::run(args),
    }
}

fn record(root: &Path, args: &RecordArgs) -> Outcome {
    Outputs::default()
        .writes("--output", &args.output)
        .check()?;
    let runs = attach_socket::runs(&repo::target_dir(root));
    let (running, stream) = attach::chosen(args.system.as_deref(), runs).blame(Code::Usage)?;
    let vms = chosen_vms(&args.vm, &running.vms).blame(Code::Usage)?;
    let memory = running.memory.as_ref();
    let memory = memory
        .with_context(|| untraced(&running.name()))
        .blame(Code::Usage)?;
    let classes = args.events.iter().fold(0, |all, bit| all | bit);
    let classes = if classes == 0 { class::ALL } else { classes };
    let choice = [classes.into(), vms];
    let mut session = Session::new(stream).blame(Code::Usage)?;
    let place = session.place().blame(Code::Timeout)?;
    let at = place
        .with_context(|| untraced(&running.name()))
        .blame(Code::Usage)?;
    let trace = open(args, memory, at).blame(Code::Output)?;
    let before = trace.head().chosen;
    // Signals end the recording, and never what is done with it.
    let stop = Arc::new(Stop::default());
    let listener: Arc<dyn Listener> = stop.clone();
    signals::register(Arc::downgrade(&listener));
    // Each core's first record is when the recording began.
    session.choose(choice).blame(Code::Timeout)?;
    let recording = follow(args, trace, (&mut session, choice), &stop).blame(Code::Output)?;
    if !session.has_ended() && before != choice {
        // The recording is there, whatever becomes of this.
        let _ = session.choose(before);
    }
    write(args, &recording, choice).blame(Code::Output)?;
    Ok(Code::Success)
}

fn untraced(name: &str) -> String {
    format!(
        "{name} has no trace\n  fix: add a [trace] to its description (docs/trace.md), and run it anew"
    )
}

/// The VMs of these names, a bit each; all, if there are no names.
fn chosen_vms(names: &[String], all: &[String]) -> Result<u64> {
    let mut vms = 0;
    for name in names {
        let place = all.iter().position(|vm| vm == name);
        let Some(place) = place else {
            bail!("no VM {name} runs there; there is: {}", all.join(", "));
        };
        vms |= 1 << (place & 63);
    }
    Ok(if names.is_empty() { u64::MAX } else { vms })
}

/// How often rings are read. A ring of 1 MiB is full after 32,768 records.
const PAUSE: Duration = Duration::from_millis(2);

/// How long nothing comes before the board is asked for a record, by which it is known how late it is there.
const QUIET: Duration = Duration::from_millis(200);

/// Opens the trace at this address of the board.
fn open(args: &RecordArgs, memory: &BoardMemory, at: u64) -> Result<Follower> {
    let file = File::open(&memory.path).context("the board's memory cannot be read")?;
    let offset = at
        .checked_sub(memory.start)
        .filter(|offset| *offset < memory.size);
    let offset = offset.context("the board says that its trace is where it has no memory")?;
    Ok(if args.earlier {
        Follower::from_oldest(file, offset)?
    } else {
        Follower::from_now(file, offset)?
    })
}

/// Reads the rings until the recording is to end.
fn follow(
    args: &RecordArgs,
    mut trace: Follower,
    (session, choice): (&mut Session, [u64; 2]),
    stop: &Stop,
) -> Result<Recording> {
    let mut recording = Recording::new(trace.head().clone());
    recording.add(trace.take()?);
    // What came before counts neither for the time nor for the number.
    let earlier = recording.len();
    let begun = recording.head.nanoseconds(recording.latest());
    let most = args
        .seconds
        .map_or(u64::MAX, |seconds| seconds.as_nanos() as u64);
    let mut came = Instant::now();
    loop {
        let last = stop.came() || session.has_ended();
        let before = recording.len();
        recording.add(trace.take()?);
        let now = recording.head.nanoseconds(recording.latest());
        let lasts = match begun {
            0 => recording.duration(),
            begun => now.saturating_sub(begun),
        };
        if last || lasts >= most || recording.len() - earlier >= args.most {
            return Ok(recording);
        }
        if recording.len() > before {
            came = Instant::now();
        } else if args.seconds.is_some() && came.elapsed() > QUIET {
            // Nothing may come for long of what is recorded. That the board does not answer is no reason to lose the recording.
            let _ = session.choose(choice);
            came = Instant::now();
        }
        thread::sleep(PAUSE);
    }
}

fn write(args: &RecordArgs, recording: &Recording, choice: [u64; 2]) -> Result<()> {
    let board = recording.board();
    let bytes = match args.format {
        Form::TraceDat => trace_dat::written(&board)?,
        Form::Perfetto => perfetto::written(std::slice::from_ref(&board)),
    };
    let path = &args.output;
    put(path, &bytes).with_context(|| format!("cannot write {}", path.display()))?;
    ui::line(format_args!(
        "{}: {} records of {:.3} s on {}",
        path.display(),
        recording.len(),
        recording.duration() as f64 / 1e9,
        ui::counted(recording.rings.len() as u64, "core"),
    ));
    if recording.lost() > 0 {
        ui::line(format_args!(
            "{} records were lost, as their places were needed before they were read: fewer --events, or a \
             larger `ring` in [trace]",
            recording.lost()
        ));
    }
    if recording.disturbed(choice).is_some() {
        ui::line(format_args!(
            "meanwhile somebody else chose what the board records: there is one choice for all, and parts are missing"
        ));
    }
    Ok(())
}

/// A signal that ends a recording.
#[derive(Default)]
struct Stop(AtomicBool);

impl Stop {
    fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Listener for Stop {
    fn signal(&self, _: i32) -> SignalResponse {
        self.0.store(true, Ordering::Relaxed);
        SignalResponse::Taken
    }
}

/// The line to a run's board.
struct Session {
    stream: UnixStream,
    ended: Arc<AtomicBool>,
    lines: std::sync::mpsc::Receiver<String>,
}

/// How long an answer is awaited. A run says itself after a second that its board does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

impl Session {
    fn new(mut stream: UnixStream) -> Result<Self> {
        stream.write_all(STAY.as_bytes())?;
        let mut from = stream.try_clone()?;
        let ended = Arc::new(AtomicBool::new(false));
        let (tell, lines) = std::sync::mpsc::channel();
        let at_end = Arc::clone(&ended);
        thread::spawn(move || {
            let (mut demux, mut report) = (Demux::framed(), ReportLines::default());
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let bytes = buffer.get(..count).unwrap_or_default();
                for piece in demux.feed(bytes) {
                    let Piece::Text(Channel::Report, text) = piece else {
                        continue;
                    };
                    for line in text.into_iter().filter_map(|byte| report.feed(byte)) {
                        let _ = tell.send(line);
                    }
                }
            }
            at_end.store(true, Ordering::Relaxed);
        });
        Ok(Self {
            stream,
            ended,
            lines,
        })
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Where the board's trace is, if it has one.
    fn place(&mut self) -> Result<Option<u64>> {
        self.ask("trace\n", [0, 0])
    }

    /// Lets the board record these classes of events of these VMs.
    fn choose(&mut self, [classes, vms]: [u64; 2]) -> Result<Option<u64>> {
        self.ask(&format!("trace {classes} {vms}\n"), [classes, vms])
    }

    /// Asks the board. The answer, which begins with `own`, is where its trace is, if it has one.
    fn ask(&mut self, line: &str, [classes, vms]: [u64; 2]) -> Result<Option<u64>> {
        const TO_REPORT: [u8; 2] = [0x10, 0x3d];
        self.stream
            .write_all(&[&TO_REPORT, line.as_bytes()].concat())?;
        let until = Instant::now() + PATIENCE;
        let wanted = [classes.to_string(), vms.to_string()];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.context("the board does not answer")?;
            let words: Vec<_> = line.split(' ').collect();
            match words.as_slice() {
                ["traced", theirs @ .., at, _] if theirs == wanted => {
                    return Ok(at.parse().ok().filter(|at| *at > 0));
                }
                ["refused", ..] => bail!("the board does not answer: {line}"),
                ["unknown", ..] => bail!("the board knows no trace"),
                _ => {}
            }
        }
    }
}
