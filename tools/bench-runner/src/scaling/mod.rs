//! `hanok bench --scaling`: what grows with the number of vCPUs, of interrupts and of bytes.

mod cases;
mod found;
mod image;
mod picture;
mod systems;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Result, bail};
use hanok_bench::{Figure, Gic, Side};
use hanok_boot::board::Ready;
use hanok_boot::machine;
use hanok_console::request::{Input, Request, Sink};
use hanok_console::run;
use hanok_console::script::ScriptStep;

use crate::apart;
use crate::args::BenchArgs;
use crate::boards::Boards;
use crate::counting::{self, Counted, What};
use crate::materials;
use crate::plan::Plan;
use crate::{BESIDE, rows};
use cases::Case;
use found::{FREE, Found, IMAGE, Row};
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::{repo, ui};

/// The drawing, beside the results.
const PICTURE: &str = "scaling.svg";
/// The table, for programs: a line each, with tabs between.
const TABLE: &str = "scaling.tsv";
/// The last word of a guest that measures.
const DONE: &str = "bench: done";
/// No boot takes that long, on however slow a PC. It is no figure.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// `hanok bench --scaling`.
pub fn run(root: &Path, args: &BenchArgs, yes: bool) -> Outcome {
    let plan = Plan {
        operations: false,
        sides: vec![Side::Native, Side::Hanok, Side::Xen],
        figures: ["nanosleep", "timer-interrupt"]
            .into_iter()
            .filter_map(Figure::find)
            .collect(),
        rounds: 1,
        ..Plan::of(args)?
    };
    apart::run(root, args, yes, (&plan, true), |boards, consoles| {
        let (mut found, failed) = measure(boards, consoles)?;
        found.images = Some(image::measure(boards)?);
        let rows = found::rows(&found);
        let tsv = rows.iter().map(separated).collect::<String>();
        let write = |name, text: &str| repo::write_whole(&args.output.join(name), text.as_bytes());
        write(TABLE, &tsv).blame(Code::Output)?;
        write(PICTURE, &picture::draw(&found)).blame(Code::Output)?;
        ui::line(format_args!("{}{}", table(&rows), found::NOT_HAD));
        ui::line(format_args!(
            "The plot: {}",
            args.output.join(PICTURE).display()
        ));
        Ok(Some(failed))
    })
}

/// Boots all cases, two at a time; returns what they gave, and what went wrong.
fn measure(boards: &Boards, consoles: &Path) -> Outcome<(Found, Vec<String>)> {
    let mut ready = Vec::new();
    for case in Case::all() {
        ready.push((case, prepare(boards, case)?));
    }
    ready.reverse();
    eprintln!("{} boots, {BESIDE} side by side ...", ready.len());
    let (waiting, done) = (
        Mutex::new(ready),
        Mutex::new((Found::default(), Vec::new())),
    );
    thread::scope(|scope| {
        for _ in 0..BESIDE {
            scope.spawn(|| {
                let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
                while let Some((case, prepared)) = next() {
                    let given = boot(case, prepared, consoles);
                    let (found, failed) = &mut *done.lock().unwrap_or_else(PoisonError::into_inner);
                    match given {
                        Ok(values) => drop(found.boots.insert(case, values)),
                        Err(error) => failed.push(format!("{}: {error:#}", case.name())),
                    }
                    eprintln!("{} ...", case.name());
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (case, values) in &mut done.0.boots {
        let image = boards.dir.join(case.name()).with_extension("img");
        let bytes = fs::metadata(image).ok().map(|data| data.len() as f64);
        values.extend(bytes.map(|bytes| (IMAGE.to_owned(), bytes)));
    }
    Ok(done)
}

/// A board, and where the plugin writes what it counts.
type Prepared = (Ready, Option<PathBuf>);

fn prepare(boards: &Boards, case: Case) -> Outcome<Prepared> {
    let plan = boards.plan;
    let gic = plan.gics.first().copied().unwrap_or(Gic::V3);
    let board = plan.board(gic);
    let words = case.words(board != "qemu-virt-arm");
    if case.is_native() {
        return Ok((boards.native_of(gic, case.is_linux(), words)?, None));
    }
    if let Some(idle) = case.idle_domains() {
        return Ok((boards.xen_beside(&case.name(), gic, &words, idle)?, None));
    }
    let kernel = materials::kernel(plan);
    let system = case.system((board, &plan.cpu), &words, kernel);
    let path = boards.dir.join(case.name()).with_extension("toml");
    repo::write_whole(&path, system.description().as_bytes()).blame(Code::Output)?;
    let userland = boards.materials.userland.clone();
    let userland = userland.filter(|_| case.is_linux());
    let mut ready = boards.hanok_of(&case.name(), &path, &Default::default(), userland)?;
    let report = boards.dir.join(case.name()).with_extension("report");
    let counting = boards.counting.as_ref().filter(|_| case.counts());
    let report = counting.map(|counting| {
        counting.attach(&mut ready.command, &report, What::Stretches);
        report
    });
    Ok((ready, report))
}

/// Boots one board; its values by their names.
fn boot(case: Case, (ready, counts): Prepared, dir: &Path) -> Result<BTreeMap<String, f64>> {
    let path = dir.join(format!("{}.console", case.name()));
    fs::write(
        path.with_extension("command"),
        machine::typed(&ready.command) + "\n",
    )?;
    let mut consoles = vec![Sink::create(&path)?];
    for other in 1..ready.vms.len() {
        consoles.push(Sink::create(
            &path.with_extension(format!("{other}.other")),
        )?);
    }
    let mut steps = ready.first;
    steps.extend(typed(case));
    let report = run::run(Request {
        command: ready.command,
        framed: ready.framed,
        poweroff: ready.poweroff,
        steps,
        until: Some(DONE.to_owned()),
        timeout: Some(PATIENCE),
        consoles,
        log: Sink::create(&path.with_extension("log"))?,
        input: Input::None,
        before_end: None,
        vms: ready.vms,
    })
    .map_err(|failure| failure.error)?;
    if report.code != Code::Success {
        bail!("{}", report.why);
    }
    let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    let mut values = values(&text);
    let log = fs::read_to_string(path.with_extension("log"))?;
    values.extend(free(&log).map(|bytes| (FREE.to_owned(), bytes)));
    if let Some(path) = counts {
        let counted = counting::read(&path, &text, What::Stretches)?;
        let each = |one: Counted| Some((one.figure.clone(), one.a_round()?));
        values.extend(counted.into_iter().filter_map(each));
    }
    Ok(values)
}

/// What is typed for a guest that measures received bytes.
fn typed(case: Case) -> Vec<ScriptStep> {
    const BYTES: usize = 512;
    match case {
        Case::Receive => vec![
            ScriptStep::Expect(format!("bench-info: send {BYTES} bytes")),
            ScriptStep::Send(vec![b'x'; BYTES]),
        ],
        _ => Vec::new(),
    }
}

/// What a console gives: the payload's lines (`bench: NAME VALUE UNIT`), and Linux' rows.
fn values(console: &str) -> BTreeMap<String, f64> {
    let mut values = rows::read(console).values;
    for line in console.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if let ["bench:", name, value, _] = words[..]
            && let Ok(value) = value.parse()
        {
            values.insert(name.to_owned(), value);
        }
    }
    values
}

/// The bytes of RAM that nobody has, as the hypervisor says it at its start.
fn free(log: &str) -> Option<f64> {
    let mut lines = log.lines();
    let kibibytes = lines.find_map(|line| line.strip_suffix(" KiB of RAM free"))?;
    Some(kibibytes.trim().parse::<f64>().ok()? * 1024.0)
}

/// The rows for people.
fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<38} {:>10} {:>10} {:>10} {:>10}  {}\n",
        "cost", "before", "now", "to reach", "Xen", "unit"
    );
    for row in rows {
        let mark = match row.is_reached() {
            Some(true) => "reached",
            Some(false) => "short",
            None if row.now.is_some() => "",
            None => "not measured",
        };
        text += &format!(
            "{:<38} {:>10} {:>10} {:>10} {:>10}  {:<22} {mark}\n",
            row.what,
            shown(row.before),
            shown(row.now),
            shown(row.wanted),
            shown(row.xen),
            row.unit
        );
    }
    text
}

/// The same for programs.
fn separated(row: &Row) -> String {
    let values = [row.before, row.now, row.wanted, row.xen].map(shown);
    format!("{}\t{}\t{}\n", row.what, values.join("\t"), row.unit)
}

/// A value for people: small ones have two decimals.
fn shown(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() < 100.0 => {
            let text = format!("{value:.2}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        Some(value) => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_s_values_are_read_whatever_their_names() {
        assert_eq!(
            free("vm a: x\n2 KiB of RAM free\nvm a: started\n"),
            Some(2048.0)
        );
        let console = "bench-info: x\r\nbench: wake 312.5 instructions\r\nbench: done\r\n";
        assert_eq!(values(console), [("wake".to_owned(), 312.5)].into());
        assert_eq!(
            (shown(Some(0.5)), shown(Some(1134.0)), shown(None)),
            ("0.5".into(), "1134".into(), "-".into())
        );
    }

    #[test]
    fn every_case_is_a_description_with_a_name_of_its_own() {
        let all = Case::all();
        let names: std::collections::BTreeSet<_> = all.iter().map(|case| case.name()).collect();
        assert_eq!(names.len(), all.len());
        for case in all {
            let words = case.words(true);
            let system = case.system(("qemu-virt", "cortex-a57"), &words, "debian:6.1");
            let text = system.description();
            assert_eq!(text.matches("[[vm]]").count(), system.vms + 1, "{text}");
        }
    }
}
