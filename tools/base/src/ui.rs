//! What the user sees besides the guests' consoles: progress, questions, colour.
//!
//! All but [`line`] goes to stderr, so that stdout has only what the command produces. No meaning
//! depends on colour, and there is none off a terminal or where NO_COLOR is set.

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Whether stderr may be coloured.
pub fn colour() -> bool {
    std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// `text` dimmed, where colour is allowed.
pub fn dim(text: &str) -> String {
    paint("2", text)
}

/// `text` in red, where colour is allowed.
pub fn red(text: &str) -> String {
    paint("31", text)
}

/// `text` in green, where colour is allowed.
pub fn green(text: &str) -> String {
    paint("32", text)
}

fn paint(code: &str, text: &str) -> String {
    if colour() {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// A long step: a bar or spinner on a terminal, two plain lines elsewhere.
pub struct LongStep {
    bar: Option<ProgressBar>,
    what: String,
}

impl LongStep {
    /// A step of unknown length.
    pub fn new(what: impl Into<String>) -> Self {
        Self::with(
            what.into(),
            ProgressBar::new_spinner(),
            "{spinner} {msg} {elapsed}",
        )
    }

    /// A step that handles `total` bytes.
    pub fn bytes(what: impl Into<String>, total: u64) -> Self {
        let template = "{wide_msg} [{bar:20}] {bytes:>10}";
        Self::with(what.into(), ProgressBar::new(total.max(1)), template)
    }

    fn with(what: String, bar: ProgressBar, template: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            eprintln!("{what} ...");
            return Self { bar: None, what };
        }
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> ");
        bar.set_style(style);
        bar.set_message(what.clone());
        bar.enable_steady_tick(Duration::from_millis(120));
        Self {
            bar: Some(bar),
            what,
        }
    }

    /// Shows that `bytes` are done.
    pub fn at(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(bytes.min(bar.length().unwrap_or(bytes)));
        }
    }

    /// Ends the step successfully.
    pub fn done(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            eprintln!("{}: done", self.what);
        }
    }
}

impl Drop for LongStep {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// What the user answers to a question for consent.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// The user agrees.
    Given,
    /// The user does not agree.
    Refused,
}

/// Asks the user to agree to `what`. Under `--yes` or off a terminal the answer is yes without
/// asking.
pub fn ask_consent(what: &str, yes: bool) -> Consent {
    eprintln!("{what}");
    if yes || !std::io::stdin().is_terminal() {
        return Consent::Given;
    }
    eprint!("Go on? [Y/n] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    if std::io::stdin().read_line(&mut answer).unwrap_or(0) == 0 {
        return Consent::Refused;
    }
    match answer.trim().to_lowercase().as_str() {
        "" | "y" | "yes" => Consent::Given,
        _ => Consent::Refused,
    }
}

/// The longest time that the last line may take: its reader has to read everything before it on the
/// same pipe.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writes a last line to stderr, and does not wait long for its reader.
pub fn last_word(text: String) {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        eprintln!("{text}");
        let _ = tell.send(());
    });
    let _ = told.recv_timeout(PATIENCE);
}

/// The first error of writing a line.
static LOST: OnceLock<std::io::Error> = OnceLock::new();

/// Writes a line of what the command produces to stdout. A reader that has closed the pipe (`|
/// head`) has all it wanted, so that a broken pipe is no error. Any other error is reported at the
/// end.
pub fn line(text: std::fmt::Arguments<'_>) {
    written(writeln!(std::io::stdout(), "{text}"));
}

/// Notes the result of writing output in another way.
pub fn written(result: std::io::Result<()>) {
    if let Err(error) = result
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error);
    }
}

/// The error of the first line that could not be written, if there is one.
pub fn lost() -> Option<&'static std::io::Error> {
    LOST.get()
}

/// `text` from other sources, made safe to show: without invalid characters and terminal controls.
pub fn plain(text: &str) -> String {
    let shown = |c: &char| !c.is_control() && *c != char::REPLACEMENT_CHARACTER;
    text.chars().filter(shown).collect()
}

/// `bytes` in a readable unit, such as "68 MB".
pub fn size(bytes: u64) -> String {
    match bytes {
        0..=999_999 => format!("{} kB", bytes.div_ceil(1000)),
        _ => format!("{} MB", bytes.div_ceil(1_000_000)),
    }
}

/// The number and the noun in singular or plural: `1 core`, `2 cores`.
pub fn counted(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}

/// The last `lines` lines of `text`.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
