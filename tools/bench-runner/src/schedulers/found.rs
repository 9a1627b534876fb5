//! What the guests' consoles say.

/// What a boot gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found {
    /// Of the RTOS.
    Tasks(Tasks),
    /// Of the guest that sleeps.
    Wakes(Wakes),
}

/// What became of the tasks' jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tasks {
    /// Jobs that ended.
    pub jobs: u64,
    /// Deadlines that were missed, also by jobs that have not ended.
    pub misses: u64,
    /// By how many microseconds the latest job that ended was late; zero or less where none was.
    pub late: f64,
}

/// By how many instructions a vCPU that slept went on too late.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wakes {
    /// The least.
    pub least: f64,
    /// The mean.
    pub mean: f64,
    /// The most.
    pub most: f64,
}

/// The results of the RTOS, whose last report counts; `None` where it has not made one.
pub fn tasks(console: &str) -> Option<Tasks> {
    let mut late = f64::NEG_INFINITY;
    let mut found = None;
    for line in console.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["rtos:", "task", _, ref rest @ ..] => late = late.max(lateness(rest)?),
            ["rtos:", "total", ref rest @ ..] => {
                let [jobs, misses] = ["jobs", "misses"].map(|name| value(rest, name));
                let (jobs, misses) = (jobs? as u64, misses? as u64);
                found = Some(Tasks { jobs, misses, late });
                late = f64::NEG_INFINITY;
            }
            _ => {}
        }
    }
    found
}

/// By how many microseconds the latest job of a task was late. Its deadline is its period where the line names none.
fn lateness(words: &[&str]) -> Option<f64> {
    let deadline = value(words, "deadline").or_else(|| value(words, "period"))?;
    Some(value(words, "response-max")? - deadline)
}

/// The number behind the word `name`.
fn value(words: &[&str], name: &str) -> Option<f64> {
    let at = words.iter().position(|word| *word == name)?;
    words.get(at + 1)?.parse().ok()
}

/// The results of the guest that sleeps.
pub fn wakes(console: &str) -> Option<Wakes> {
    let one = |which: &str| {
        let name = format!("wake-spread-{which}");
        let mut lines = console.lines();
        lines.find_map(
            |line| match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["bench:", found, value, "instructions"] if found == name => value.parse().ok(),
                _ => None,
            },
        )
    };
    Some(Wakes {
        least: one("least")?,
        mean: one("mean")?,
        most: one("most")?,
    })
}

/// What domain `number` says on Xen's console, where Xen names the domain on each line. A line that is too long for Xen
/// comes in several: it ends where the guest's own end of line is, before Xen's.
pub fn of_domain(console: &str, number: usize) -> String {
    let mut text = String::new();
    let prefix = format!("(XEN) DOM{number}: ");
    for line in console.split('\n') {
        let Some(said) = line.strip_prefix(&prefix) else {
            continue;
        };
        let said = said.strip_suffix('\r').unwrap_or(said);
        match said.strip_suffix('\r') {
            Some(end) => text.extend([end, "\n"]),
            None => text += said,
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
rtos: demo under RateMonotonic, 6 tasks, GICv3, counter at 62500000 Hz, loaded at 0x40000000
rtos: second 0: 7 jobs of control, which waited for the logger 10008.048 us at most, 4 readings
rtos: task control period 5000 budget 500 jobs 400 misses 49 jitter-max 9981.872 response-max 10062.112 overruns 20
rtos: task radio period 50000 budget 10000 jobs 40 misses 0 jitter-max 5.776 response-max 29603.904 overruns 19
rtos: total jobs 762 misses 54 overruns 40
";

    #[test]
    fn jobs_misses_and_the_latest_job_are_read() {
        let found = tasks(REPORT).unwrap();
        assert_eq!((found.jobs, found.misses), (762, 54));
        assert!((found.late - 5062.112).abs() < 1e-6, "{found:?}");
        assert_eq!(tasks("rtos: demo under RateMonotonic\n"), None);
        // A report that was cut off is none.
        assert_eq!(tasks("rtos: total jobs 762 mis"), None);
    }

    #[test]
    fn the_last_of_several_reports_counts_and_a_deadline_that_is_named() {
        let later = "rtos: task a period 9 deadline 3 jobs 9 misses 1 response-max 4.5 overruns 0\n\
                     rtos: total jobs 9 misses 1 overruns 0\n";
        let found = tasks(&[REPORT, later].concat()).unwrap();
        let wanted = Tasks {
            jobs: 9,
            misses: 1,
            late: 1.5,
        };
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_spread_is_whole_or_nothing() {
        let lines = [("least", 2), ("mean", 3), ("most", 5)]
            .map(|(which, value)| format!("bench: wake-spread-{which} {value} instructions\r\n"));
        let wanted = Wakes {
            least: 2.0,
            mean: 3.0,
            most: 5.0,
        };
        assert_eq!(wakes(&lines.concat()), Some(wanted));
        assert_eq!(wakes(&lines[..2].concat()), None);
    }

    #[test]
    fn a_domain_s_lines_are_taken_out_of_xen_s_console() {
        let console = "(XEN) Freed 348kB init memory.\r\n(XEN) DOM2: bench-info: x\r\r\n\
                       (XEN) DOM1: a long\r\n(XEN) DOM2: y\r\r\n(XEN) DOM1:  line\r\r\n(XEN) DOM1: rtos";
        assert_eq!(of_domain(console, 1), "a long line\nrtos");
        assert_eq!(of_domain(console, 2), "bench-info: x\ny\n");
    }
}
