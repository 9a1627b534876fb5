//! Trampolines leave everything but the ring as their instruction does, with other CPUs and
//! interrupts in between.

use crate::memory::Memory;
use crate::{a64, arm, relocated_a64, relocated_arm};
use hanok_probe::{Argument, InstructionSet, Probe, Record, Ring, Site, Trampoline, trampoline};
use hanok_types::Gva;
use proptest::prelude::*;

/// A CPU of any instruction set.
#[derive(Clone, Debug)]
pub enum Cpu {
    A64(a64::Cpu),
    Arm(arm::Cpu),
}

impl Cpu {
    pub fn pc(&self) -> u64 {
        match self {
            Self::A64(cpu) => cpu.registers.pc,
            Self::Arm(cpu) => cpu.registers.pc.into(),
        }
    }

    pub fn set_pc(&mut self, pc: u64) {
        match self {
            Self::A64(cpu) => cpu.registers.pc = pc,
            Self::Arm(cpu) => cpu.registers.pc = pc as u32,
        }
    }

    pub fn step(&mut self, memory: &mut Memory) {
        match self {
            Self::A64(cpu) => cpu.step(memory),
            Self::Arm(cpu) => cpu.step(memory),
        }
    }

    /// A handler's exception return clears the monitor.
    pub fn interrupted(&mut self) {
        match self {
            Self::A64(cpu) => cpu.monitor = None,
            Self::Arm(cpu) => cpu.monitor = None,
        }
    }

    pub fn set_sp(&mut self, sp: u64) {
        match self {
            Self::A64(cpu) => cpu.registers.sp = sp,
            Self::Arm(cpu) => cpu.registers.r[13] = sp as u32,
        }
    }

    pub fn sp(&self) -> u64 {
        match self {
            Self::A64(cpu) => cpu.registers.sp,
            Self::Arm(cpu) => cpu.registers.r[13].into(),
        }
    }

    /// A register by its number in an [`Argument`].
    fn register(&self, number: u8) -> u64 {
        match self {
            Self::A64(cpu) if number == 31 => cpu.registers.sp,
            Self::A64(cpu) => cpu.registers.x[usize::from(number)],
            Self::Arm(cpu) => cpu.registers.r[usize::from(number)].into(),
        }
    }

    pub fn same_registers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::A64(one), Self::A64(other)) => one.registers == other.registers,
            (Self::Arm(one), Self::Arm(other)) => one.registers == other.registers,
            _ => false,
        }
    }
}

/// What an argument has to be recorded as.
fn value(cpu: &Cpu, memory: &Memory, argument: Argument) -> u64 {
    let (bytes, mask) = match cpu {
        Cpu::A64(_) => (8, u64::MAX),
        Cpu::Arm(_) => (4, 0xffff_ffff),
    };
    match argument {
        Argument::None => 0,
        Argument::Register(number) => cpu.register(number),
        Argument::Word { base, offset } => {
            let address = cpu.register(base).wrapping_add_signed(offset.into());
            memory.load(address & mask, bytes)
        }
        Argument::Fixed(address) => memory.load(address.get(), bytes),
    }
}

pub const SITE: u64 = 0x4000_1000;
pub const SLOT: u64 = 0x4010_0000;
const STACKS: u64 = 0x7000_0000;

/// A ring, with its header and its records near each other or not.
pub fn ring(far: bool, capacity: u32) -> Ring {
    let records = if far { 0x6789_ab00 } else { 0x6000_0040 };
    Ring::new(Gva::new(0x6000_0000), Gva::new(records), capacity).expect("a ring")
}

/// The address of an instruction set's slot: T32 slots at odd halfwords as well.
fn slot(set: InstructionSet) -> u64 {
    if set == InstructionSet::T32 {
        SLOT + 2
    } else {
        SLOT
    }
}

/// Instructions that are displaced: one that stays as it is, and one that is rewritten.
pub fn displaced(set: InstructionSet, rewritten: bool) -> [u8; 4] {
    match (set, rewritten) {
        (InstructionSet::A64, false) => 0xa9bf_7bfdu32.to_le_bytes(), // stp x29, x30, [sp, #-16]!
        (InstructionSet::A64, true) => 0x5400_8001u32.to_le_bytes(),  // b.ne
        (InstructionSet::A32, false) => 0xe92d_4010u32.to_le_bytes(), // push {r4, lr}
        (InstructionSet::A32, true) => 0x159f_5010u32.to_le_bytes(),  // ldrne r5, [pc, #16]
        (InstructionSet::T32, false) => [0x10, 0xb5, 0x00, 0xbf],     // push {r4, lr}; nop
        (InstructionSet::T32, true) => [0x05, 0xd1, 0x02, 0xa0],      // bne; adr r0
    }
}

pub fn site(set: InstructionSet, code: &[u8]) -> Site<'_> {
    match set {
        InstructionSet::A64 => relocated_a64::site(SITE, code),
        _ => relocated_arm::site(set, SITE as u32, code),
    }
}

fn arguments(set: InstructionSet) -> impl Strategy<Value = Argument> {
    let (registers, offsets) = match set {
        InstructionSet::A64 => (0u8..32, (-256i32..256).boxed()),
        InstructionSet::A32 => (0..15, (-4095i32..4096 - 24).boxed()),
        InstructionSet::T32 => (0..15, (-255i32..4096 - 24).boxed()),
    };
    let offsets = prop_oneof![offsets, (0i32..500).prop_map(|units| units * 8)];
    // Below the stack pointer nothing is in use, and the offset has to leave room for the frame.
    let word = (registers.clone(), offsets).prop_map(move |(base, offset)| {
        let sp = base == if set == InstructionSet::A64 { 31 } else { 13 };
        let offset = if sp {
            offset.abs().min(4000) & !7
        } else {
            offset
        };
        Argument::Word { base, offset }
    });
    prop_oneof![
        Just(Argument::None),
        registers.prop_map(Argument::Register),
        word,
        (0x5000_0000u64..0x5001_0000).prop_map(|at| Argument::Fixed(Gva::new(at))),
    ]
}

/// CPUs with random registers, each with a stack of its own.
fn cpus(set: InstructionSet, count: usize) -> BoxedStrategy<Vec<Cpu>> {
    let with_stacks = |mut cpus: Vec<Cpu>| {
        for (number, cpu) in (0u64..).zip(&mut cpus) {
            let sp = STACKS + (number + 1) * 0x10_0000;
            match cpu {
                Cpu::A64(cpu) => cpu.registers.sp = sp,
                Cpu::Arm(cpu) => cpu.registers.r[13] = sp as u32,
            }
        }
        cpus
    };
    let one = match set {
        InstructionSet::A64 => relocated_a64::registers()
            .prop_map(|registers| Cpu::A64(relocated_a64::at(&registers, SITE)))
            .boxed(),
        _ => relocated_arm::registers()
            .prop_map(move |registers| {
                let thumb = set == InstructionSet::T32;
                Cpu::Arm(relocated_arm::at(&registers, SITE as u32, thumb))
            })
            .boxed(),
    };
    proptest::collection::vec(one, count)
        .prop_map(with_stacks)
        .boxed()
}

pub fn sets() -> impl Strategy<Value = InstructionSet> {
    prop_oneof![
        Just(InstructionSet::A64),
        Just(InstructionSet::A32),
        Just(InstructionSet::T32),
    ]
}

/// A probe and CPUs that come to its site.
#[derive(Clone)]
struct Case {
    set: InstructionSet,
    made: Trampoline,
    ring: Ring,
    number: u16,
    arguments: [Argument; 2],
    cpus: Vec<Cpu>,
    memory: Memory,
    rewritten: bool,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?} {:?}", self.set, self.arguments, self.made)
    }
}

fn case(most: usize) -> impl Strategy<Value = Case> {
    let parts = move |set| {
        let arguments = [arguments(set), arguments(set)];
        let rest = (
            any::<u16>(),
            any::<bool>(),
            any::<bool>(),
            1u32..9,
            any::<u32>(),
        );
        (Just(set), arguments, cpus(set, most), rest)
    };
    sets().prop_flat_map(parts).prop_map(
        |(set, arguments, cpus, (number, rewritten, far, log2, start))| {
            let code = displaced(set, rewritten);
            let ring = ring(far, 1 << log2);
            let (site, slot) = (site(set, &code), Gva::new(slot(set)));
            let probe = Probe {
                site,
                slot,
                ring,
                number,
                arguments,
            };
            let made = trampoline(&probe).unwrap_or_else(|why| panic!("{probe:x?}: {why}"));
            let mut memory = Memory::default();
            let header = ring.head().get();
            memory.write(header, &start.to_le_bytes());
            memory.write(header + Ring::TAIL, &start.to_le_bytes());
            memory.write(header + Ring::LOST, &[0; 4]);
            memory.write(ring.records().get(), &vec![0; 32 << log2]);
            memory.write(SITE, &code);
            memory.write(slot.get(), made.relocated.code.bytes());
            Case {
                set,
                made,
                ring,
                number,
                arguments,
                cpus,
                memory,
                rewritten,
            }
        },
    )
}

impl Case {
    fn word(&self, offset: u64) -> u32 {
        self.memory.load(self.ring.head().get() + offset, 4) as u32
    }

    fn record(&self, number: u32) -> Option<Record> {
        let place = self.ring.place(number).get();
        let bytes: Vec<u8> = (place..place + 32).map(|at| self.memory.byte(at)).collect();
        Record::read(bytes.as_slice().try_into().expect("32"), number)
    }

    fn is_inside(&self, cpu: &Cpu) -> bool {
        let code = &self.made.relocated.code;
        (code.start()..code.here()).contains(&cpu.pc())
    }

    /// One CPU from the site to behind it; the number of instructions, with that at the site.
    fn run(&mut self, cpu: &mut Cpu) -> u32 {
        cpu.set_pc(self.made.relocated.code.start());
        let mut steps = 1;
        while self.is_inside(cpu) {
            cpu.step(&mut self.memory);
            steps += 1;
            assert!(steps < 500, "{self:?}");
        }
        steps
    }

    /// What the displaced instructions do.
    fn original(&self, cpu: &Cpu) -> (Cpu, Memory) {
        let (mut cpu, mut memory) = (cpu.clone(), self.memory.clone());
        match &mut cpu {
            Cpu::A64(cpu) => cpu.step(&mut memory),
            Cpu::Arm(cpu) => relocated_arm::execute(cpu, &mut memory, &self.made.relocated),
        }
        (cpu, memory)
    }

    /// Whether an address is the ring's, or below one of the stacks.
    fn is_private(&self, address: u64, sp: u64) -> bool {
        let header = self.ring.head().get();
        let records = self.ring.records().get();
        let bytes = u64::from(self.ring.capacity()) * Record::BYTES;
        (header..header + 12).contains(&address)
            || (records..records + bytes).contains(&address)
            || (sp - 0x400..sp).contains(&address)
    }

    fn expected(&self, cpu: &Cpu, memory: &Memory) -> [u64; 2] {
        self.arguments.map(|argument| value(cpu, memory, argument))
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 1_500, ..ProptestConfig::default()
    })]

    #[test]
    fn a_trampoline_records_and_leaves_no_trace(case in case(1)) {
        let mut case = case;
        let start = case.cpus[0].clone();
        let mut cpu = start.clone();
        let number = case.word(0);
        let [a, b] = case.expected(&start, &case.memory);
        let (original, then) = case.original(&start);
        case.run(&mut cpu);
        prop_assert!(cpu.same_registers(&original));
        let sp = start.sp().min(cpu.sp());
        let difference = case.memory.difference(&then, |at| case.is_private(at, sp));
        prop_assert_eq!(difference, None);
        let probe = case.number.into();
        let stamp = case.memory.counter();
        prop_assert_eq!(case.record(number), Some(Record { stamp, probe, a, b }));
        prop_assert_eq!(case.word(0), number.wrapping_add(1));
        prop_assert_eq!(case.word(Ring::LOST), 0);
    }

    #[test]
    fn a_full_ring_only_counts(case in case(1)) {
        let mut case = case;
        let start = case.cpus[0].clone();
        let (first, capacity) = (case.word(0), case.ring.capacity());
        for event in 0..capacity + 3 {
            let (original, _) = case.original(&start);
            let mut cpu = start.clone();
            case.run(&mut cpu);
            prop_assert!(cpu.same_registers(&original));
            prop_assert_eq!(case.word(Ring::LOST), (event + 1).saturating_sub(capacity));
        }
        prop_assert_eq!(case.word(0), first.wrapping_add(capacity));
        for number in 0..capacity {
            prop_assert!(case.record(first.wrapping_add(number)).is_some());
        }
        // The reader gives one place back.
        let tail = first.wrapping_add(1).to_le_bytes();
        case.memory.write(case.ring.head().get() + Ring::TAIL, &tail);
        prop_assert_eq!(case.record(first.wrapping_add(capacity)), None);
        case.run(&mut start.clone());
        prop_assert!(case.record(first.wrapping_add(capacity)).is_some());
    }

    #[test]
    fn cpus_at_once_get_a_place_each(
        case in case(4), turns in proptest::collection::vec(0usize..4, 0..600),
    ) {
        let mut case = case;
        let starts = case.cpus.clone();
        let mut cpus = starts.clone();
        // The stacks are private, so what an argument loads is what it was before.
        let mut expected: Vec<_> =
            starts.iter().map(|cpu| case.expected(cpu, &case.memory)).collect();
        let originals: Vec<_> = starts.iter().map(|cpu| case.original(cpu).0).collect();
        let first = case.word(0);
        for cpu in &mut cpus {
            cpu.set_pc(case.made.relocated.code.start());
        }
        let all = turns.into_iter().chain((0..4).flat_map(|cpu| std::iter::repeat_n(cpu, 400)));
        for turn in all {
            if case.is_inside(&cpus[turn]) {
                cpus[turn].step(&mut case.memory);
            }
        }
        for (cpu, original) in cpus.iter().zip(&originals) {
            prop_assert!(cpu.same_registers(original));
        }
        let places = case.ring.capacity().min(4);
        prop_assert_eq!(case.word(0), first.wrapping_add(places));
        prop_assert_eq!(case.word(Ring::LOST), 4 - places);
        for number in 0..places {
            let record = case.record(first.wrapping_add(number)).expect("a whole record");
            let found = expected.iter().position(|both| *both == [record.a, record.b]);
            expected.remove(found.expect("one CPU's"));
        }
    }

    /// The handler runs on the stack of what it interrupts.
    #[test]
    fn a_handler_with_the_same_probe_gets_a_place_of_its_own(case in case(2), moment in 0u32..60) {
        let mut case = case;
        if reads_stack(case.arguments) {
            return Ok(());
        }
        let (mut cpu, mut handler) = (case.cpus[0].clone(), case.cpus[1].clone());
        let first = case.word(0);
        let (original, _) = case.original(&cpu);
        let expected = [&cpu, &handler].map(|cpu| case.expected(cpu, &case.memory));
        cpu.set_pc(case.made.relocated.code.start());
        for _ in 0..moment {
            if case.is_inside(&cpu) {
                cpu.step(&mut case.memory);
            }
        }
        handler.set_sp(cpu.sp() - 0x40);
        case.run(&mut handler);
        cpu.interrupted();
        while case.is_inside(&cpu) {
            cpu.step(&mut case.memory);
        }
        prop_assert!(cpu.same_registers(&original));
        prop_assert_eq!(case.word(0), first.wrapping_add(2));
        let mut found = [0, 1].map(|number| {
            let record = case.record(first.wrapping_add(number)).expect("a whole record");
            [record.a, record.b]
        });
        if found != expected {
            found.reverse();
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn the_count_of_instructions_is_true(case in case(1)) {
        let mut case = case;
        let mut cpu = case.cpus[0].clone();
        if case.rewritten {
            return Ok(());
        }
        let steps = case.run(&mut cpu);
        // What is displaced are one or, in T32, two instructions.
        let displaced = if case.set == InstructionSet::T32 { 2 } else { 1 };
        prop_assert_eq!(case.made.executed + displaced, steps);
        prop_assert!(case.made.executed <= 40);
    }
}

/// Whether an argument depends on the stack pointer, which a handler does not have to itself.
fn reads_stack(arguments: [Argument; 2]) -> bool {
    arguments.iter().any(|argument| match argument {
        Argument::Register(number) | Argument::Word { base: number, .. } => {
            matches!(number, 13 | 31)
        }
        _ => false,
    })
}
