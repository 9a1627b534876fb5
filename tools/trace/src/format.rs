//! The events' formats as a file describes them to its viewers, and their bytes.

use crate::model::{Event, Record, State, Task};

/// The bytes of a task's name.
const COMM: usize = 16;
/// What every event has first: its format's number, flags, a count that nobody here has, and the task.
const COMMON: &[Field] = &[
    Field::new("unsigned short common_type", 2),
    Field::new("unsigned char common_flags", 1),
    Field::new("unsigned char common_preempt_count", 1),
    Field::new("int common_pid", 4).signed(),
];
/// The flag of an event that happened while an interrupt was handled.
pub const IN_INTERRUPT: u8 = 0x08;

/// A field.
struct Field {
    /// Its type and name, as in C.
    declared: &'static str,
    bytes: usize,
    is_signed: bool,
}

impl Field {
    const fn new(declared: &'static str, bytes: usize) -> Self {
        Self {
            declared,
            bytes,
            is_signed: false,
        }
    }

    const fn signed(self) -> Self {
        Self {
            is_signed: true,
            ..self
        }
    }
}

/// A kind of event.
pub struct Format {
    /// Viewers know an event by both of these.
    pub system: &'static str,
    /// See `system`.
    pub name: &'static str,
    id: u16,
    fields: &'static [Field],
    /// How it is printed: what printf(3) takes, by the names of fields.
    print: &'static str,
}

const SWITCH: Format = Format {
    system: "sched",
    name: "sched_switch",
    id: 1,
    fields: &[
        Field::new("char prev_comm[16]", COMM),
        Field::new("pid_t prev_pid", 4).signed(),
        Field::new("int prev_prio", 4).signed(),
        Field::new("long prev_state", 8).signed(),
        Field::new("char next_comm[16]", COMM),
        Field::new("pid_t next_pid", 4).signed(),
        Field::new("int next_prio", 4).signed(),
    ],
    print: r#""%s:%d [%d] -> %s:%d [%d]", REC->prev_comm, REC->prev_pid, REC->prev_prio, REC->next_comm, REC->next_pid, REC->next_prio"#,
};
const WAKING: Format = Format {
    system: "sched",
    name: "sched_waking",
    id: 2,
    fields: &[
        Field::new("char comm[16]", COMM),
        Field::new("pid_t pid", 4).signed(),
        Field::new("int prio", 4).signed(),
        Field::new("int target_cpu", 4).signed(),
    ],
    print: r#""%s:%d [%d] on CPU %d", REC->comm, REC->pid, REC->prio, REC->target_cpu"#,
};
const INTERRUPT_ENTRY: Format = Format {
    system: "irq",
    name: "irq_handler_entry",
    id: 3,
    fields: &[
        Field::new("int irq", 4).signed(),
        Field::new("__data_loc char[] name", 4).signed(),
    ],
    print: r#""irq=%d name=%s", REC->irq, __get_str(name)"#,
};
const INTERRUPT_EXIT: Format = Format {
    system: "irq",
    name: "irq_handler_exit",
    id: 4,
    fields: &[
        Field::new("int irq", 4).signed(),
        Field::new("int ret", 4).signed(),
    ],
    print: r#""irq=%d ret=%s", REC->irq, REC->ret ? "handled" : "unhandled""#,
};
const ENTRY: Format = Format {
    system: "kvm",
    name: "kvm_entry",
    id: 5,
    fields: &[
        Field::new("unsigned int vcpu_id", 4),
        Field::new("unsigned long rip", 8),
        Field::new("unsigned int instructions", 4),
    ],
    print: r#""vcpu %u at 0x%lx, %u instructions", REC->vcpu_id, REC->rip, REC->instructions"#,
};
/// The `isa` of an exit. Viewers have names for exits of x86 CPUs alone, 1 and 2, which an event without this field would get; with
/// another number they show `info1`, the syndrome, and `info2`, the address or the argument.
pub const NO_X86: u32 = 64;
const EXIT: Format = Format {
    system: "kvm",
    name: "kvm_exit",
    id: 6,
    fields: &[
        Field::new("unsigned int exit_reason", 4),
        Field::new("unsigned long guest_rip", 8),
        Field::new("unsigned int vcpu_id", 4),
        Field::new("unsigned int isa", 4),
        Field::new("unsigned long info1", 8),
        Field::new("unsigned long info2", 8),
    ],
    print: r#""vcpu %u at 0x%lx: class 0x%x, syndrome 0x%lx, 0x%lx", REC->vcpu_id, REC->guest_rip, REC->exit_reason, REC->info1, REC->info2"#,
};
const WORDS: Format = Format {
    system: "hanok",
    name: "words",
    id: 7,
    fields: &[Field::new("__data_loc char[] words", 4).signed()],
    print: r#""%s", __get_str(words)"#,
};

/// What is told of a task, and how often it was so.
const COUNTED: &[Field] = &[
    Field::new("char comm[16]", COMM),
    Field::new("pid_t pid", 4).signed(),
    Field::new("int prio", 4).signed(),
    Field::new("unsigned int count", 4),
];
const THROTTLED: Format = Format {
    system: "hanok",
    name: "throttled",
    id: 8,
    fields: COUNTED,
    print: r#""%s: its budget is used up (%u)", REC->comm, REC->count"#,
};
const LATE: Format = Format {
    system: "hanok",
    name: "late",
    id: 9,
    fields: COUNTED,
    print: r#""%s: a promise to it was not kept (%u)", REC->comm, REC->count"#,
};
const LOST: Format = Format {
    system: "hanok",
    name: "lost",
    id: 10,
    fields: &[Field::new("unsigned long count", 8)],
    print: r#""%lu records before this one were lost", REC->count"#,
};

/// All kinds.
pub const ALL: &[&Format] = &[
    &SWITCH,
    &WAKING,
    &INTERRUPT_ENTRY,
    &INTERRUPT_EXIT,
    &ENTRY,
    &EXIT,
    &WORDS,
    &THROTTLED,
    &LATE,
    &LOST,
];

impl Format {
    /// The description of it in a file.
    pub fn text(&self) -> String {
        let mut text = format!("name: {}\nID: {}\nformat:\n", self.name, self.id);
        let mut offset = 0;
        let mut describe = |text: &mut String, field: &Field| {
            let Field {
                declared,
                bytes,
                is_signed,
            } = field;
            // Fields lie where a C compiler of 64 bits puts them.
            offset = usize::next_multiple_of(offset, alignment(*bytes));
            *text += &format!(
                "\tfield:{declared};\toffset:{offset};\tsize:{bytes};\tsigned:{};\n",
                u8::from(*is_signed)
            );
            offset += bytes;
        };
        for field in COMMON {
            describe(&mut text, field);
        }
        // Viewers take what comes before an empty line for what all events have.
        text.push('\n');
        for field in self.fields {
            describe(&mut text, field);
        }
        text + "\nprint fmt: " + self.print + "\n"
    }
}

fn alignment(bytes: usize) -> usize {
    match bytes {
        COMM => 1,
        bytes => bytes,
    }
}

/// The bytes of a record.
pub fn encoded(record: &Record) -> Vec<u8> {
    let format = match record.event {
        Event::Switch { .. } => &SWITCH,
        Event::Waking { .. } => &WAKING,
        Event::InterruptEntry { .. } => &INTERRUPT_ENTRY,
        Event::InterruptExit { .. } => &INTERRUPT_EXIT,
        Event::Entry { .. } => &ENTRY,
        Event::Exit { .. } => &EXIT,
        Event::Words(_) => &WORDS,
        Event::Throttled { .. } => &THROTTLED,
        Event::Late { .. } => &LATE,
        Event::Lost { .. } => &LOST,
    };
    let mut bytes = Bytes(Vec::with_capacity(80));
    bytes.put(&format.id.to_le_bytes());
    let flags = if record.in_interrupt { IN_INTERRUPT } else { 0 };
    bytes.put(&[flags, 0]);
    bytes.put(&record.task.to_le_bytes());
    match &record.event {
        Event::Switch {
            previous,
            state,
            next,
        } => {
            bytes.task(previous);
            bytes.put(&state_number(*state).to_le_bytes());
            bytes.task(next);
        }
        Event::Waking { task, cpu } => {
            bytes.task(task);
            bytes.put(&cpu.to_le_bytes());
        }
        Event::InterruptEntry { number, name } => {
            bytes.put(&number.to_le_bytes());
            bytes.string(name);
        }
        Event::InterruptExit { number, handled } => {
            bytes.put(&number.to_le_bytes());
            bytes.put(&u32::from(*handled).to_le_bytes());
        }
        Event::Entry {
            vcpu,
            address,
            instructions,
        } => {
            bytes.put(&vcpu.to_le_bytes());
            bytes.put(&address.to_le_bytes());
            bytes.put(&instructions.to_le_bytes());
        }
        Event::Exit {
            vcpu,
            address,
            reason,
            syndrome,
            about,
        } => {
            bytes.put(&reason.to_le_bytes());
            bytes.put(&address.to_le_bytes());
            bytes.put(&vcpu.to_le_bytes());
            bytes.put(&NO_X86.to_le_bytes());
            bytes.put(&u64::from(*syndrome).to_le_bytes());
            bytes.put(&about.to_le_bytes());
        }
        Event::Throttled { task, count } | Event::Late { task, count } => {
            bytes.task(task);
            bytes.put(&count.to_le_bytes());
        }
        Event::Lost { count } => bytes.put(&count.to_le_bytes()),
        Event::Words(words) => bytes.string(words),
    }
    bytes.0
}

/// A state as Linux numbers them.
fn state_number(state: State) -> i64 {
    match state {
        State::Ready => 0,
        State::Waiting => 1,
        State::Stopped => 4,
        State::Ended => 16,
    }
}

struct Bytes(Vec<u8>);

impl Bytes {
    /// A field, where a C compiler puts it.
    fn put(&mut self, field: &[u8]) {
        let at = self.0.len().next_multiple_of(alignment(field.len()));
        self.0.resize(at, 0);
        self.0.extend_from_slice(field);
    }

    fn task(&mut self, task: &Task) {
        let mut name = [0; COMM];
        let cut = task.name.floor_char_boundary(COMM - 1);
        name.iter_mut()
            .zip(task.name.bytes().take(cut))
            .for_each(|(to, from)| *to = from);
        self.put(&name);
        self.put(&task.number.to_le_bytes());
        self.put(&task.priority.to_le_bytes());
    }

    /// A string, as the last field: where it is and how long, and behind that itself with a zero.
    fn string(&mut self, string: &str) {
        let at = self.0.len().next_multiple_of(4) + 4;
        let length = string.len() + 1;
        let place = at as u32 | (length as u32) << 16;
        self.put(&place.to_le_bytes());
        self.0.extend_from_slice(string.as_bytes());
        self.0.push(0);
    }
}
