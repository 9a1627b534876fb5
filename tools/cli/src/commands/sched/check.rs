//! `hanok sched check`: analyses, verifies the certificate, and shows the answer.

use std::path::Path;

use hanok_certificate_checker as checker;

use super::found::Found;
use super::{csv, json, paths, report, table};
use crate::args::SchedCheckArgs;
use crate::commands;
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::outputs::{self, Outputs};
use hanok_base::ui;
use hanok_boot::system;

/// `hanok sched check`.
pub fn run(root: &Path, args: &SchedCheckArgs) -> Outcome {
    let file = commands::find(root, &args.file);
    let mut outputs = Outputs::default().reads("the description", &file);
    for (option, path) in [("--html", &args.html), ("--csv", &args.csv)] {
        if let Some(path) = path {
            outputs = outputs.writes(option, path);
        }
    }
    outputs.check()?;
    system::readable(&file)?;
    let schedule = hanok_system::load_schedule(&file, &system::boards_dir(root));
    let schedule = schedule.map_err(system::refused)?;
    let analysis = hanok_analysis::analyse(&schedule.model).map_err(|faults| {
        let texts: Vec<_> = faults.iter().map(ToString::to_string).collect();
        failure(Code::Refused, texts.join("\n"))
    })?;
    let found = Found::new(&schedule, &analysis);
    if let Some(certificate) = &found.certificate
        && let Err(why) = checker::check(&schedule.model, certificate)
    {
        let text = "the analysis made a certificate that its checker does not believe; that is \
                    a fault of Hanok, please report it";
        return Err(failure(Code::Refused, format!("{text}: {why}")));
    }
    if let Some(page) = &args.html {
        outputs::write(page, report::html(&found))?;
    }
    if let Some(file) = &args.csv {
        outputs::write(file, csv::text(&found))?;
    }
    let late = paths::late(root, &file, &found, args.speed)?;
    if args.json {
        let text = json::text(&found, &late).blame(Code::Refused)?;
        ui::line(format_args!("{text}"))
    } else {
        table::show(&found, paths::lines(&late, args.speed))
    }
    Ok(if found.certificate.is_some() {
        Code::Success
    } else {
        Code::Refused
    })
}
