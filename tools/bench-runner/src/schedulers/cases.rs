//! What is booted: sets of tasks, and sleeps, each beside a VM that is always busy, under each scheduler.

/// What decides which VM runs.
#[derive(Debug, PartialEq, Eq)]
pub struct Scheduler {
    /// For files.
    pub id: &'static str,
    /// For people.
    pub title: &'static str,
    /// What Xen is told; `None` for our hypervisor.
    pub xen: Option<&'static str>,
    /// A text that the image of a Xen that has it contains.
    pub shows: &'static str,
}

/// All of them, in the order of the table. Without a toolstack in a first domain, Xen's domains have the same weight and
/// no cap; what its own command line can make quicker, is made so beside what it does by itself.
pub static SCHEDULERS: [Scheduler; 6] = [
    Scheduler {
        id: "hanok",
        title: "Hanok",
        xen: None,
        shows: "",
    },
    Scheduler {
        id: "credit2",
        title: "credit2",
        xen: Some("sched=credit2"),
        shows: "SMP Credit Scheduler rev2",
    },
    Scheduler {
        id: "credit2-quick",
        title: "credit2 *",
        xen: Some("sched=credit2 sched_ratelimit_us=0 timer_slop=0"),
        shows: "SMP Credit Scheduler rev2",
    },
    Scheduler {
        id: "credit",
        title: "credit",
        xen: Some("sched=credit"),
        shows: "SMP Credit Scheduler",
    },
    Scheduler {
        id: "credit-quick",
        title: "credit *",
        xen: Some("sched=credit sched_credit_tslice_ms=1 sched_ratelimit_us=0 timer_slop=0"),
        shows: "SMP Credit Scheduler",
    },
    Scheduler {
        id: "rtds",
        title: "RTDS +",
        xen: Some("sched=rtds"),
        shows: "SMP RTDS Scheduler",
    },
];

impl Scheduler {
    /// Whether a Xen with this image has it.
    pub fn is_in(&self, image: &[u8]) -> bool {
        let mut places = image.windows(self.shows.len().max(1));
        self.xen.is_none() || places.any(|place| place == self.shows.as_bytes())
    }
}

/// Microseconds of CPU time in each period of microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The time.
    pub budget: u32,
    /// The period.
    pub period: u32,
}

/// Tasks of the RTOS, and what our hypervisor promises their VM and the busy one.
#[derive(Debug, PartialEq, Eq)]
pub struct Set {
    /// As the RTOS calls it.
    pub name: &'static str,
    /// What the tasks need of the CPU in percent.
    pub needs: u32,
    /// What the VM with the tasks has.
    pub measured: Budget,
    /// What the busy one has.
    pub busy: Budget,
}

const fn set(name: &'static str, needs: u32, measured: [u32; 2], busy: [u32; 2]) -> Set {
    Set {
        name,
        needs,
        measured: budget(measured),
        busy: budget(busy),
    }
}

const fn budget([budget, period]: [u32; 2]) -> Budget {
    Budget { budget, period }
}

/// The sets. The first two need less than half of the CPU, which is what a scheduler that shares it fairly gives each of
/// two VMs; of the others it cannot keep all deadlines.
pub static SETS: [Set; 5] = [
    set("rm5", 30, [200, 500], [5_000, 10_000]),
    set("edf5", 35, [225, 500], [5_000, 10_000]),
    set("demo", 52, [600, 1_000], [3_000, 10_000]),
    set("rm20", 69, [400, 500], [1_500, 10_000]),
    set("edf20", 95, [485, 500], [2_000, 100_000]),
];

/// The budgets while the measuring VM sleeps and wakes.
const WAKES: [Budget; 2] = [budget([100, 1_000]), budget([8_500, 10_000])];

/// Seconds that the tasks run.
pub const SECONDS: u32 = 2;

/// What the measuring VM does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// It runs these tasks.
    Tasks(&'static Set),
    /// It sleeps, and sees when its timer's interrupt comes.
    Wakes,
}

/// One boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// What decides.
    pub scheduler: &'static Scheduler,
    /// What runs.
    pub load: Load,
}

/// The busy VM's guest and what it is told.
pub const BUSY: &str = "bench.role=spin";
/// MiB of each VM.
pub const MEMORY_MIB: u64 = 64;

impl Load {
    /// All of them, in the order of the table.
    pub fn all() -> Vec<Self> {
        let sets = SETS.iter().map(Self::Tasks);
        sets.chain([Self::Wakes]).collect()
    }

    /// For files and people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tasks(set) => set.name,
            Self::Wakes => "wakes",
        }
    }

    /// The guest in the measuring VM.
    pub const fn guest(self) -> &'static str {
        match self {
            Self::Tasks(_) => "rtos",
            Self::Wakes => "bench",
        }
    }

    /// What that guest is told.
    pub fn words(self) -> String {
        match self {
            Self::Tasks(set) => format!("rtos.set={} rtos.seconds={SECONDS}", set.name),
            Self::Wakes => "bench.figures=wake-spread".to_owned(),
        }
    }

    /// What its console says when all is measured.
    pub const fn last_words(self) -> &'static str {
        match self {
            Self::Tasks(_) => "rtos: kernel entered",
            Self::Wakes => "bench: done",
        }
    }

    /// The measuring VM's budget, and the busy one's.
    const fn budgets(self) -> [Budget; 2] {
        match self {
            Self::Tasks(set) => [set.measured, set.busy],
            Self::Wakes => WAKES,
        }
    }
}

impl Case {
    /// All of these schedulers.
    pub fn all(schedulers: &[&'static Scheduler]) -> Vec<Self> {
        let of = |load| {
            let all = schedulers.iter();
            all.map(move |scheduler| Self { scheduler, load })
        };
        Load::all().into_iter().flat_map(of).collect()
    }

    /// For files and people.
    pub fn name(self) -> String {
        format!("{}-{}", self.scheduler.id, self.load.name())
    }

    /// The system for our hypervisor. Budgets are enforced; the measuring VM is the most urgent, and keeps its budget until
    /// it needs it.
    pub fn description(self, board: &str, cpu: &str) -> String {
        let [measured, busy] = self.load.budgets();
        let head = format!("board = \"{board}\"\ncpu = \"{cpu}\"\ncores = 1\n");
        let (guest, words) = (self.load.guest(), self.load.words());
        [
            head,
            SCHEDULE.to_owned(),
            vm(["measured", guest, &words], measured, "deferrable", 0),
            vm(["busy", "bench", BUSY], busy, "periodic", 1),
        ]
        .concat()
    }
}

/// Budgets are enforced, in a fixed order.
const SCHEDULE: &str = "
[schedule]
enforce = true

[[schedule.pool]]
name = \"all\"
cores = [0]
policy = \"fixed\"
";

/// A VM by its name, guest and words.
fn vm([name, guest, words]: [&str; 3], budget: Budget, server: &str, priority: u32) -> String {
    let Budget { budget, period } = budget;
    format!(
        "
[[vm]]
name = \"{name}\"
kernel = \"guest:{guest}\"
cmdline = \"{words}\"
memory = \"{MEMORY_MIB}M\"
cpus = [0]

[vm.schedule]
period = \"{period}us\"
budget = \"{budget}us\"
server = \"{server}\"
priority = {priority}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_case_has_a_name_of_its_own() {
        let all = Case::all(&SCHEDULERS.iter().collect::<Vec<_>>());
        let names: BTreeSet<_> = all.iter().map(|case| case.name()).collect();
        assert_eq!(names.len(), all.len());
        assert_eq!(all.len(), SCHEDULERS.len() * (SETS.len() + 1));
    }

    #[test]
    fn a_scheduler_is_known_by_its_name_in_the_image() {
        let image = b"..SMP Credit Scheduler\0SMP Credit Scheduler rev2\0..";
        let there = SCHEDULERS.iter().filter(|one| one.is_in(image));
        let there: Vec<_> = there.map(|one| one.id).collect();
        assert_eq!(
            there,
            [
                "hanok",
                "credit2",
                "credit2-quick",
                "credit",
                "credit-quick"
            ]
        );
    }

    #[test]
    fn a_description_has_both_vms_with_their_budgets() {
        let case = Case {
            scheduler: &SCHEDULERS[0],
            load: Load::Tasks(&SETS[0]),
        };
        let text = case.description("qemu-virt", "cortex-a57");
        assert_eq!(text.matches("[[vm]]").count(), 2);
        assert!(text.contains("\ncmdline = \"rtos.set=rm5 rtos.seconds=2\"\n"));
        assert!(text.contains("period = \"500us\"\nbudget = \"200us\"\nserver = \"deferrable\"\n"));
    }

    #[test]
    fn the_tasks_fit_into_their_budget_and_both_budgets_into_the_core() {
        for set in &SETS {
            let percent = |of: Budget| of.budget * 100 / of.period;
            assert!(percent(set.measured) > set.needs, "{}", set.name);
            assert!(percent(set.measured) + percent(set.busy) <= 100);
        }
    }
}
