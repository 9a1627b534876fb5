//! Scripts that act at the console instead of a person: `--script FILE`, one step a line.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use hanok_base::values;

/// Something that is tried from outside of the board, again and again until it is done.
#[derive(Clone)]
pub struct Attempt {
    /// What is to come of it, for people.
    pub what: String,
    act: Act,
    /// Why it was not done the last time.
    last: Arc<Mutex<String>>,
}

type Act = Arc<dyn Fn() -> Result<()> + Send + Sync>;

impl Attempt {
    /// Tries `act`.
    pub fn new(what: String, act: impl Fn() -> Result<()> + Send + Sync + 'static) -> Self {
        Self {
            what,
            act: Arc::new(act),
            last: Arc::default(),
        }
    }

    /// Tries it once. The answer is whether it is done.
    pub(crate) fn is_done(&self) -> bool {
        let done = (self.act)();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = done
            .as_ref()
            .err()
            .map_or_else(String::new, |why| format!("{why:#}"));
        done.is_ok()
    }
}

impl PartialEq for Attempt {
    fn eq(&self, other: &Self) -> bool {
        self.what == other.what
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        write!(f, "{} ({last})", self.what)
    }
}

/// One step of a script.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptStep {
    /// Wait until this text comes on the console.
    Expect(String),
    /// Wait until this text comes in the hypervisor's messages.
    ExpectLog(String),
    /// Wait until this text comes on the report channel. Script files do not have this step.
    ExpectReport(String),
    /// Wait until one of these texts comes on the report channel, and go on behind the one whose end comes first. Script
    /// files do not have this step.
    ExpectAnyReport(Vec<String>),
    /// Type this at the VM's console, whichever VM is attached.
    Send(Vec<u8>),
    /// Type this as the person at the terminal: for the attached VM, or the prompt.
    Key(Vec<u8>),
    /// Put this on the board's line unframed, for whatever reads it before the hypervisor: its boot
    /// loader. Script files do not have this step.
    Raw(Vec<u8>),
    /// Wait for this time.
    Wait(Duration),
    /// Wait until the VM has written nothing for this time; its earlier text is used up.
    Silence(Duration),
    /// Try this until it is done. Script files do not have this step.
    Try(Attempt),
    /// The following steps are about the VM with this name.
    Vm(String),
    /// End the run, with success.
    End,
}

/// Parses a script; an error names the line.
pub fn parse(text: &str) -> Result<Vec<ScriptStep>> {
    let lines = text.lines().enumerate();
    let steps = lines.map(|(at, line)| step(line).with_context(|| format!("line {}", at + 1)));
    steps.filter_map(Result::transpose).collect()
}

fn step(line: &str) -> Result<Option<ScriptStep>> {
    let line = line.trim_start();
    if line.trim_end().is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let step = match word.trim_end() {
        "expect" => ScriptStep::Expect(text(rest)?),
        "expect-log" => ScriptStep::ExpectLog(text(rest)?),
        "send" => ScriptStep::Send(unescape(rest)?),
        "key" => ScriptStep::Key(unescape(rest)?),
        "wait" => ScriptStep::Wait(seconds(rest)?),
        "silence" => ScriptStep::Silence(seconds(rest)?),
        "vm" => ScriptStep::Vm(nonempty(rest.trim())?.to_owned()),
        "end" if rest.trim().is_empty() => ScriptStep::End,
        other => {
            bail!(
                "unknown step `{other}`: expect, expect-log, send, key, wait, silence, vm and end are known"
            )
        }
    };
    Ok(Some(step))
}

fn nonempty(rest: &str) -> Result<&str> {
    if rest.is_empty() {
        bail!("something must follow");
    }
    Ok(rest)
}

fn text(rest: &str) -> Result<String> {
    String::from_utf8(unescape(nonempty(rest)?)?).context("the text is not UTF-8")
}

fn seconds(rest: &str) -> Result<Duration> {
    values::seconds(rest.trim()).map_err(|why| anyhow!("`{}`: {why}", rest.trim()))
}

/// Replaces `\n`, `\r`, `\t`, `\\` and `\xNN` by the bytes they mean.
pub fn unescape(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('\\') {
        bytes.extend(plain.as_bytes());
        let kind = after
            .chars()
            .next()
            .context("a lone \\ at the end: write \\\\")?;
        rest = &after[kind.len_utf8()..];
        match kind {
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            '\\' => bytes.push(b'\\'),
            'x' => {
                let digits = rest.get(..2).context("\\x needs two hex digits")?;
                bytes.push(u8::from_str_radix(digits, 16).context("\\x needs two hex digits")?);
                rest = &rest[2..];
            }
            other => bail!("unknown escape \\{other}: \\n \\r \\t \\xNN and \\\\ are known"),
        }
    }
    bytes.extend(rest.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_read() {
        let text = "# to the shell\nexpect linux:~# \nsend echo \\x41\\n\n\n wait 0.5\nvm b\nexpect-log vm b: off\nkey \\x1dlist\\r\nend\n";
        let wanted = [
            ScriptStep::Expect("linux:~# ".into()),
            ScriptStep::Send(b"echo A\n".to_vec()),
            ScriptStep::Wait(Duration::from_millis(500)),
            ScriptStep::Vm("b".into()),
            ScriptStep::ExpectLog("vm b: off".into()),
            ScriptStep::Key(b"\x1dlist\r".into()),
            ScriptStep::End,
        ];
        assert_eq!(parse(text).unwrap(), wanted);
    }

    #[test]
    fn errors_name_the_line() {
        for bad in [
            "expect",
            "wait soon",
            "wait -1",
            "wait 1e18",
            "sent x",
            "send \\q",
            "send \\x4",
            "send x\\",
        ] {
            let error = parse(&format!("# one\n{bad}\n")).unwrap_err();
            assert!(
                format!("{error:#}").starts_with("line 2: "),
                "{bad}: {error:#}"
            );
        }
    }
}
