//! A change without a terminal: what would follow is printed, then the change is made, what the board says
//! is printed, and what the vCPU is promised and has before and after.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::ui;
use hanok_system::Schedule;

use crate::asked::Asked;
use crate::change::{Fate, Promised};
use crate::protocol::VcpuId;
use crate::report::Report;
use crate::state::{self, Shared, State, Status};
use crate::view::View;
use crate::what_if::{self, Answer, Preview};
use crate::{text, tui};

/// How long reports are awaited, and the answer to a change: the engine gives one sooner.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// How long a board may say nothing: QEMU looks once in a second whether its pseudo terminal is open, and is deaf
/// until then.
const SILENCE: Duration = Duration::from_secs(4);
/// So often what would follow is reckoned anew, as others have changed promises meanwhile.
const ATTEMPTS: usize = 5;

/// How far a change goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// It is only shown.
    Preview,
    /// It is made if the analysis does not refuse it.
    Change,
    /// It is made whatever the analysis says.
    Anyway,
}

/// A change that is to be made.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The change in words.
    pub asked: Asked,
    /// How far it goes.
    pub until: Until,
}

/// Why there was no report, or none in time.
fn not_heard(why: Option<String>) -> anyhow::Error {
    anyhow!(why.unwrap_or_else(|| "the board did not answer in time".to_owned()))
}

/// Waits until `ready` has an answer of a board that reports.
pub(crate) fn reported<T>(shared: &Shared, ready: impl Fn(&State) -> Option<T>) -> Result<T> {
    let silent = Instant::now() + SILENCE;
    let heard = shared.wait(PATIENCE, |state| match &state.status {
        Status::Waiting => None,
        Status::Silent(_) if Instant::now() < silent => None,
        Status::Live => ready(state).map(Ok),
        Status::Silent(why) | Status::Gone(why) => Some(Err(why.clone())),
    });
    match heard {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(why)) => Err(not_heard(Some(why))),
        None => Err(not_heard(None)),
    }
}

/// Shows what would follow from a change, and makes it.
pub fn run(shared: &Shared, description: Option<&Schedule>, wanted: &Wanted) -> Outcome<()> {
    let mut known = reported(shared, with_rates).blame(Code::Timeout)?;
    for _ in 0..ATTEMPTS {
        let (view, report) = &known;
        let change = wanted.asked.change(view).map_err(anyhow::Error::msg);
        let change = change.blame(Code::Usage)?;
        let preview = what_if::preview(description, report, view, change).blame(Code::Usage)?;
        ui::line(format_args!("{}", tui::preview(&preview)));
        let is_no = preview.answer == Answer::NotShown;
        if is_no && wanted.until != Until::Anyway {
            return Err(refused(&preview));
        }
        if wanted.until == Until::Preview {
            ui::line(format_args!("nothing is applied: --dry-run"));
            return Ok(());
        }
        let now = reported(shared, |state| Some(Arc::clone(&state.view)));
        let now = now.blame(Code::Timeout)?;
        if preview.is_current(&now) {
            return made(shared, &preview, view);
        }
        ui::line(format_args!(
            "promises have changed meanwhile: this is what would follow now\n"
        ));
        known = reported(shared, with_rates).blame(Code::Timeout)?;
    }
    let why = "promises change all the time: nothing was applied";
    Err(failure(Code::Denied, why))
}

/// The analysis's no.
fn refused(preview: &Preview) -> hanok_base::exit::Failure {
    let why = preview.reasons.first();
    let why = why.map_or("not every deadline is shown to be kept", String::as_str);
    failure(
        Code::Refused,
        format!(
            "{}: nothing is applied: {why}\n  fix: --anyway applies what the analysis refuses",
            preview.name
        ),
    )
}

fn with_rates(state: &State) -> Option<(Arc<View>, Arc<Report>)> {
    (state.view.between > 0).then(|| (Arc::clone(&state.view), Arc::clone(&state.report)))
}

/// Asks the board for the change, and says what it made of it.
fn made(shared: &Shared, preview: &Preview, before: &View) -> Outcome<()> {
    let number = shared.change(preview.change);
    let outcome = shared.wait(PATIENCE, |state| {
        match (state.outcome(number), &state.status) {
            (Some(outcome), _) => Some(outcome.clone()),
            (None, Status::Gone(why)) => Some(unanswered(why)),
            (None, _) => None,
        }
    });
    let outcome = outcome.unwrap_or_else(|| unanswered("the board did not answer"));
    let said = format!("{}: {}", preview.name, outcome.words);
    let at = match outcome.fate {
        Fate::Changed(at) => at,
        Fate::Refused => return Err(failure(Code::Denied, said)),
        Fate::Unanswered => return Err(failure(Code::Timeout, said)),
    };
    ui::line(format_args!("{said}"));
    let id = preview.change.id;
    match afterwards(shared, at) {
        Ok(after) => {
            for (when, view) in [("before", before), ("after", &after)] {
                let had = had(view, id).blame(Code::Timeout)?;
                ui::line(format_args!("{when:<7} {had}"));
            }
        }
        // The change is made all the same.
        Err(why) => eprintln!(
            "{}",
            ui::dim(&format!("What it has now is not known: {why}"))
        ),
    }
    Ok(())
}

fn unanswered(why: &str) -> state::Outcome {
    state::Outcome {
        fate: Fate::Unanswered,
        words: why.to_owned(),
    }
}

/// What is seen of the board between two reports that both came after its counter was `at`.
fn afterwards(shared: &Shared, at: u64) -> Result<Arc<View>> {
    let later = |than: u64| {
        move |state: &State| {
            let view = &state.view;
            (view.ticks > than && view.between > 0).then(|| Arc::clone(view))
        }
    };
    let first = reported(shared, later(at))?;
    reported(shared, later(first.ticks))
}

/// What a vCPU is promised and has, in a line.
fn had(view: &View, id: VcpuId) -> Result<String> {
    let vcpu = view.vcpu(id).context("the board does not name it now")?;
    let Some(promised) = Promised::of(vcpu) else {
        bail!("{} is promised nothing now", vcpu.name);
    };
    let share = vcpu.promised.map_or("-".to_owned(), text::percent);
    Ok(format!(
        "{}: {}, promised {share} %, used {} % of {}, late {}",
        vcpu.name,
        promised.words(),
        text::percent(vcpu.used),
        text::time(view.between),
        vcpu.late
    ))
}
