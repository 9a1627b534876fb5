use super::*;
use hanok_trace_files::model::{Event, Machine, Place, Record};
use hanok_trace_files::trace_dat::written;
use std::path::Path;

/// A file with two words a second after each other.
fn file(folder: &Path) -> PathBuf {
    let record = |at| Record {
        at,
        task: 1000,
        in_interrupt: false,
        event: Event::Words("something".to_owned()),
    };
    let machine = Machine {
        name: "board".to_owned(),
        id: 1,
        place: Place::Host { guests: Vec::new() },
        tasks: [(1000, "linux.0".to_owned())].into(),
        cpus: vec![vec![record(5), record(1_000_000_005)]],
    };
    let path = folder.join("trace.dat");
    std::fs::write(&path, written(&machine).unwrap()).unwrap();
    path
}

fn args(files: Vec<PathBuf>) -> ReportArgs {
    ReportArgs {
        files,
        task: None,
        from: None,
        to: None,
    }
}

#[test]
fn what_was_recorded_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    let args = ReportArgs {
        task: Some("linux.0".to_owned()),
        from: Some(Duration::from_millis(500)),
        ..args(vec![path.clone(), path])
    };
    assert_eq!(run(&args).unwrap(), Code::Success);
}

#[test]
fn what_cannot_be_reported_is_the_user_s_to_mend() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    let none = folder.path().join("none.dat");
    let text = folder.path().join("text.dat");
    std::fs::write(&text, "this is no trace").unwrap();
    let cases = [
        (args(vec![path.clone(), none.clone()]), "none.dat"),
        (args(vec![text]), "text.dat"),
        (
            ReportArgs {
                task: Some("rtos.0".to_owned()),
                ..args(vec![path.clone()])
            },
            "there is: linux.0",
        ),
        (
            ReportArgs {
                from: Some(Duration::from_secs(2)),
                ..args(vec![path])
            },
            "1.000000 s",
        ),
    ];
    for (args, wanted) in cases {
        let failure = run(&args).unwrap_err();
        assert_eq!(failure.code, Code::Usage, "{wanted}");
        let said = format!("{:#}", failure.error);
        assert!(said.contains(wanted), "{said}");
    }
}
