//! `hanok top`, from its arguments to its end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::ui;
use hanok_system::Schedule;

use crate::apply::{self, Wanted};
use crate::line::{self, Ways};
use crate::link::{self, Peer};
use crate::state::{Shared, State};
use crate::{tui, web};

/// The size of a screen that is printed.
const PRINTED: (u16, u16) = (132, 44);

/// Where the board is.
pub enum Source {
    /// At the other end of the socket of a run, which has this name.
    Run(String, std::os::unix::net::UnixStream),
    /// At a serial line, with this speed.
    Line(PathBuf, u32),
}

/// How it is shown.
#[derive(Clone, Debug)]
pub enum Shown {
    /// In this terminal.
    Terminal,
    /// In a browser, at this address.
    Web(SocketAddr),
    /// Once, as text.
    Once,
    /// Only this change, as text: what would follow, and what the board says.
    Change(Box<Wanted>),
}

/// What is watched, and how.
pub struct Request {
    /// Where the board is.
    pub source: Source,
    /// How it is shown.
    pub shown: Shown,
    /// The description of the system, if one is known, and since when the system runs.
    pub description: Option<PathBuf>,
    /// Where boards are described.
    pub boards: PathBuf,
    /// The time between two reports.
    pub interval: Option<Duration>,
}

/// Watches a board.
pub fn run(request: Request) -> Outcome {
    let description = request.description.as_deref();
    let description = description.and_then(|path| described(path, &request.boards));
    let description = description.map(Arc::new);
    let (title, ways, peer) = match request.source {
        Source::Run(name, stream) => (name, Ways::of(stream).blame(Code::Qemu)?, Peer::Run),
        Source::Line(path, baud) => {
            let ways = line::open(&path, baud).blame(Code::Usage)?;
            (path.display().to_string(), ways, Peer::Board)
        }
    };
    // A report of a board with four cores takes a second of a line with 115,200 baud.
    let usual = match peer {
        Peer::Run => Duration::from_millis(500),
        Peer::Board => Duration::from_secs(1),
    };
    let (shared, commands) = Shared::new(&title);
    let interval = request.interval.unwrap_or(usual);
    link::start(ways, peer, interval, (shared.clone(), commands));
    let ended = match request.shown {
        Shown::Terminal => tui::run(&shared, description).blame(Code::Output),
        Shown::Web(address) => web::run(&shared, description, address).blame(Code::Output),
        Shown::Once => once(&shared),
        Shown::Change(wanted) => {
            apply::run(&shared, description.as_deref(), &wanted).map(|()| None)
        }
    };
    shared.quit();
    if let Some(why) = ended? {
        ui::last_word(format!("hanok: {why}"));
    }
    Ok(Code::Success)
}

/// Prints one screen once rates are known.
fn once(shared: &Shared) -> Outcome<Option<String>> {
    let with_rates = |state: &State| (state.view.between > 0).then_some(());
    apply::reported(shared, with_rates).blame(Code::Timeout)?;
    let text = tui::once(shared, PRINTED.0, PRINTED.1).blame(Code::Output)?;
    ui::line(format_args!("{text}"));
    Ok(None)
}

/// The schedule of a description. Where it has none, or cannot be read, a preview says so; the board is
/// shown all the same.
fn described(path: &Path, boards: &Path) -> Option<Schedule> {
    let schedule = hanok_system::load_schedule(path, boards);
    match schedule {
        Ok(schedule) => Some(schedule),
        Err(faults) => {
            let why = faults.first().map(ToString::to_string).unwrap_or_default();
            let first = why.lines().next().unwrap_or_default().to_owned();
            eprintln!(
                "{}",
                ui::dim(&format!("Tasks are not known, and not analysed: {first}"))
            );
            None
        }
    }
}

/// A note where the file at `path` was changed after the system began to run.
pub fn changed_since(path: &Path, began: SystemTime) -> Result<Option<String>> {
    let changed = std::fs::metadata(path)?.modified()?;
    let note = || {
        format!(
            "{} was changed after the system was started: what is said of tasks is of the file as it is now",
            path.display()
        )
    };
    // The beginning is known to the second.
    Ok((changed > began + Duration::from_secs(1)).then(note))
}
