//! Runs one scenario: its board, and the judgement about it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::matrix::Case;
use super::prepare::{Prepared, prepare, start};
use super::scenario::Ending;
use super::serial::Attended;
use super::step_spec::Means;
use super::unlike::Told;
use crate::step::Tally;
use anyhow::Result;
use hanok_artifacts::cargo;
use hanok_artifacts::{Store, runnable};
use hanok_base::exit::{Code, Outcome};
use hanok_base::ui::tail;
use hanok_boot::{machine, system};
use hanok_console::request::{Input, Report, Request, Sink};
use hanok_console::run;

/// How much of a failing scenario's console is shown.
const SHOWN: usize = 25;

/// Asks once for everything that `cases` need and the cache lacks, before anything long begins.
pub fn agree(root: &Path, store: &Store, cases: &[Case]) -> Outcome<()> {
    let mut all: Vec<_> = system::wanted_qemu().into_iter().collect();
    for case in cases {
        // A refused description is reported when its case is run.
        if let Ok(described) = system::load(root, &root.join(&case.system), &case.overrides) {
            all.extend(system::wanted(&described.artifacts()));
            all.extend(start(case).wanted());
        }
        for (_, more) in case.scenario.more() {
            let packages = more.files.iter().filter_map(|file| file.package.as_ref());
            all.extend(packages.map(|name| (name.clone(), system::package_words(name))));
            let programs = more.packages.iter();
            all.extend(
                programs.map(|name| (runnable::reference(name), system::program_words(name))),
            );
        }
    }
    all.sort();
    all.dedup();
    system::ask_consent(store, &all)
}

/// Runs single cases, on any number of threads.
pub struct Runner<'a> {
    root: &'a Path,
    /// Held while an image is built: only one is built at a time, shortly before it boots.
    store: Mutex<Store>,
    /// Whether the hypervisor builds, and the reason if not.
    built: OnceLock<Result<(), String>>,
}

impl<'a> Runner<'a> {
    /// One that takes files from `store`.
    pub const fn new(root: &'a Path, store: Store) -> Self {
        Self {
            root,
            store: Mutex::new(store),
            built: OnceLock::new(),
        }
    }

    /// Runs one case.
    pub fn run(&self, case: &Case) -> Tally {
        let built = if case.scenario.native {
            Ok(())
        } else {
            self.hypervisor()
        };
        built.map_or_else(Tally::fail, |()| self.one(case))
    }

    /// Builds the hypervisor, once. The compiler's messages are printed once, not for every
    /// scenario.
    fn hypervisor(&self) -> Result<(), String> {
        let mut first = false;
        let built = self.built.get_or_init(|| {
            first = true;
            let built = cargo::hypervisor(self.root);
            built.map(drop).map_err(|error| format!("{error:#}"))
        });
        built.clone().map_err(|why| {
            if first {
                why
            } else {
                "the hypervisor does not build".to_owned()
            }
        })
    }

    /// As many boots as the case wants, one after the other.
    fn one(&self, case: &Case) -> Tally {
        let mut told = Told::default();
        let mut total = Tally::pass();
        for _ in 0..case.scenario.boots {
            let prepared = {
                let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
                prepare(self.root, &store, case)
            };
            let prepared = match prepared {
                Ok(prepared) => prepared,
                Err(failure) => return Tally::fail(format!("{:#}", failure.error)),
            };
            let dir = prepared.dir.clone();
            if let Err(error) = boot(prepared, &mut told, &mut total.cpu) {
                return Tally::fail(format!("{error:#}\n{}", last_words(&dir)));
            }
        }
        total
    }
}

/// One boot. `told` has the texts of earlier boots that must not come again; `cpu` grows by the time that the
/// board had a CPU.
fn boot(prepared: Prepared, told: &mut Told, cpu: &mut Duration) -> Result<()> {
    let Prepared {
        case,
        ready,
        dir,
        serial,
        monitor,
        port,
    } = prepared;
    fs::write(dir.join("command"), machine::typed(&ready.command) + "\n")?;
    let vms = ready.vms.clone();
    let file = |name: &str| Sink::create(&dir.join(name));
    let consoles = vms.iter().map(|vm| file(&format!("{vm}.console")));
    let steps = case.scenario.steps(Means {
        monitor: monitor.as_ref(),
        port,
    })?;
    let request = Request {
        command: ready.command,
        framed: ready.framed,
        poweroff: ready.poweroff,
        steps: ready.first.into_iter().chain(steps).collect(),
        until: None,
        timeout: Some(Duration::try_from_secs_f64(case.scenario.timeout)?),
        consoles: consoles.collect::<Result<_, _>>()?,
        log: file("hanok.log")?,
        input: Input::None,
        before_end: None,
        vms,
    };
    let attended = match serial {
        Some(line) => {
            let said = fs::File::create(dir.join("serial.console"))?;
            Some(line.attend(case.scenario.serial.clone(), said))
        }
        None => None,
    };
    let report = run::run(request).map_err(|failure| failure.error)?;
    *cpu += report.cpu;
    let done = attended.map_or(Ok(()), Attended::ended);
    judge(case, &report)?;
    done?;
    check_texts(case, &dir, told)?;
    // These files are large, and are not needed for a passing scenario.
    let _ = fs::remove_file(dir.join("image"));
    for vm in 0..case.scenario.vms.len() + 1 {
        let _ = fs::remove_file(dir.join(format!("{vm}.initramfs")));
    }
    Ok(())
}

fn judge(case: &Case, report: &Report) -> Result<()> {
    if report.code == Code::Interrupted {
        // The user wants everything to end, not only this board.
        std::process::exit(Code::Interrupted as i32);
    }
    let fits = |end: &Ending| {
        report.code
            == match end {
                Ending::Off | Ending::Until => Code::Success,
                Ending::Stopped => Code::Stopped,
                Ending::Panic => Code::Panicked,
                Ending::Refused => Code::Refused,
                Ending::Timeout => Code::Timeout,
            }
    };
    anyhow::ensure!(
        case.scenario.end.all().iter().any(fits),
        "ended otherwise than wanted: {}",
        report.why
    );
    if let Some(missed) = &report.missed {
        anyhow::bail!("ended as wanted ({}), but {missed} never came", report.why);
    }
    Ok(())
}

/// Checks for the texts that the hypervisor must have printed, and for those that nothing may have
/// printed.
fn check_texts(case: &Case, dir: &Path, told: &mut Told) -> Result<()> {
    let read = |path: &Path| -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
    };
    let log = read(&dir.join("hanok.log"))?;
    for text in &case.scenario.expect_log {
        anyhow::ensure!(
            log.contains(text.as_str()),
            "the hypervisor did not say {text:?}"
        );
    }
    let mut all = String::new();
    for path in said(dir)? {
        let words = read(&path)?;
        all += &words;
        for text in &case.scenario.forbid {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            anyhow::ensure!(!words.contains(text.as_str()), "{name} has {text:?}");
        }
    }
    case.scenario.numbers.check(&all)?;
    case.scenario.unlike.check(&all, told)
}

/// The files of consoles and messages in `dir`.
fn said(dir: &Path) -> Result<Vec<PathBuf>> {
    let paths = fs::read_dir(dir)?.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<Result<Vec<_>>>()?;
    paths.retain(|path| {
        path.extension()
            .is_some_and(|ext| ext == "console" || ext == "log")
    });
    paths.sort();
    Ok(paths)
}

/// The ends of the consoles of a failing case, and the folder of the rest.
fn last_words(dir: &Path) -> String {
    let mut text = format!("kept in {}\n", dir.display());
    for path in said(dir).unwrap_or_default() {
        let Ok(words) = fs::read(&path) else { continue };
        let words = String::from_utf8_lossy(&words);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        text += &format!("--- {name}\n{}\n", printable(&tail(&words, SHOWN)));
    }
    text
}

/// Without control sequences.
fn printable(text: &str) -> String {
    text.chars()
        .filter(|c| *c == '\n' || *c == '\t' || !c.is_control())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    use crate::matrix;
    use crate::prepare::file_name;
    use hanok_boot::board::Ready;
    use hanok_console::script::ScriptStep;

    /// The outcome of a scenario whose board is a shell that runs `board`: failing ones must be
    /// reported as failing, or none of the results means anything.
    fn outcome(scenario: &str, framed: bool, board: &str) -> Result<()> {
        let ready = Ready {
            command: Command::new("sh"),
            vms: vec!["a".to_owned()],
            framed,
            first: Vec::new(),
            poweroff: true,
        };
        outcome_of(scenario, ready, board)
    }

    fn framed() -> Ready {
        Ready {
            command: Command::new("sh"),
            vms: vec!["a".to_owned()],
            framed: true,
            first: vec![ScriptStep::Raw(b"raw\n".to_vec())],
            poweroff: false,
        }
    }

    fn outcome_of(scenario: &str, mut ready: Ready, board: &str) -> Result<()> {
        let case = matrix::parse("case", &format!("system = 'x'\n{scenario}"))?.remove(0);
        let dir = tempfile::tempdir()?;
        ready.command.args(["-c", board]);
        let prepared = Prepared {
            case: &case,
            ready,
            dir: dir.path().to_owned(),
            serial: None,
            monitor: None,
            port: None,
        };
        boot(prepared, &mut Told::default(), &mut Duration::default())
    }

    const OFF: &str = "printf 'vm a: started\\n\\020@hello\\n\\020?vm a: off\\nend: off\\n'";

    #[test]
    fn a_scenario_that_holds_passes() {
        let steps = "steps = [{ expect = 'hello' }]\nexpect-log = ['vm a: off']\nforbid = ['FAIL']";
        outcome(steps, true, OFF).unwrap();
        outcome("steps = [{ expect = 'native' }]", false, "echo native").unwrap();
        let answer = "steps = [{ expect = 'name?' }, { send = \"me\\n\" }, { expect = 'hi me' }]";
        outcome(answer, false, "echo name?; read x; echo hi $x").unwrap();
    }

    #[test]
    fn a_boot_loader_is_spoken_to_before_the_steps() {
        let board = "read x; echo got $x; printf 'end: off\\n'";
        outcome_of("expect-log = ['got raw']", framed(), board).unwrap();
    }

    #[test]
    fn a_board_that_nobody_can_switch_off_ends_at_the_last_word() {
        // If the run did not end at the last text, the watchdog would end it, with another result.
        let board = format!("{OFF}; exec sleep 3600");
        outcome_of("timeout = 50", framed(), &board).unwrap();
    }

    #[test]
    fn every_way_to_fail_fails() {
        let fails = |scenario: &str, board: &str, word: &str| {
            let error = outcome(scenario, true, board).unwrap_err();
            assert!(format!("{error:#}").contains(word), "{scenario}: {error:#}");
        };
        fails("steps = [{ expect = 'bye' }]", OFF, "before \"bye\"");
        fails(
            "expect-log = ['vm b: off']",
            OFF,
            "did not say \"vm b: off\"",
        );
        fails("forbid = ['hello']", OFF, "a.console has \"hello\"");
        fails("forbid = ['started']", OFF, "hanok.log has \"started\"");
        let number = OFF.replace("hello", "took 12");
        outcome("numbers = { 'took ' = [10, 12] }", true, &number).unwrap();
        fails("numbers = { 'took ' = [13, 20] }", &number, "says 12");
        let twice = OFF.replace("hello", "key 7\\nkey 7");
        fails(
            "unlike = ['key ']",
            &twice,
            "\"key \" comes twice with \"7\"",
        );
        fails("end = 'panic'", OFF, "otherwise than wanted");
        fails(
            "end = 'until'\nsteps = [{ expect = 'bye' }]",
            OFF,
            "before \"bye\"",
        );
        fails("", "exit 1", "QEMU ended unexpectedly");
        fails("", "true", "QEMU ended unexpectedly");
        fails("timeout = 0.2", "exec sleep 9", "the time was over");
        let panic = "printf 'panic: at x\\nend: panic\\n'";
        fails("", panic, "otherwise than wanted: the hypervisor panicked");
        // The expected ending does not excuse a step that was never reached.
        let step = "end = 'panic'\nsteps = [{ expect = 'bye' }]";
        fails(step, panic, "\"bye\" on the console of a never came");
        let refused = "printf 'refused: no\\nend: refused\\n'";
        fails("", refused, "the hypervisor refused: no");
        outcome("end = 'refused'", true, refused).unwrap();
        outcome("end = ['off', 'panic']", true, panic).unwrap();
    }

    #[test]
    fn names_make_folders() {
        assert_eq!(file_name("boot [max, 4 cores]"), "boot__max__4_cores_");
        assert_eq!(printable("a\x1b[1mb\r\n\tc"), "a[1mb\n\tc");
    }
}
