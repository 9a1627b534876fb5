//! The figures, by the names that the host's tools use.

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// The round trip of the cheapest hypercall.
    Hypercall,
    /// The round trip of SMCCC_VERSION.
    SmcccVersion,
    /// A read of GICD_TYPER.
    GicdRead,
    /// One interrupt of the virtual timer, with its handler.
    TimerInterrupt,
    /// A switch from a VM to another one on the same core, by yields.
    Switch,
    /// [`Self::Switch`] where budgets are enforced.
    SwitchBudgets,
    /// An SGI to another core, until its answer in memory.
    Ipi,
    /// [`Self::TimerInterrupt`] while four less urgent interrupts are pending: together one more
    /// than most CPUs have list registers.
    Pending4,
    /// [`Self::TimerInterrupt`] while 200 less urgent interrupts are pending.
    Pending200,
    /// One interrupt of 200 that become pending together.
    Burst200,
    /// The time from the moment that a timer was set to until the CPU, which sleeps by WFI, goes
    /// on.
    Wake,
    /// [`Self::Wake`] in a VM that has to be switched to, as another VM on its core is busy.
    WakeBeside,
    /// [`Self::Wake`] at many places of other VMs' turns: the least, the mean and the most.
    WakeSpread,
    /// [`Self::TimerInterrupt`] of the physical timer, which a hypervisor emulates. On a shared
    /// core the hypervisor decides again after each one which vCPU runs.
    PhysicalTimer,
    /// An interrupt of a device that the VM has for itself.
    Device,
    /// The time from the board's reset to the program's own start.
    Start,
    /// A byte sent over the PL011, where each byte is preceded by a check for space.
    SendPolled,
    /// A byte sent over the PL011, with one check for space before sixteen.
    SendBurst,
    /// A byte received by the PL011 when its interrupt comes.
    Receive,
    /// What the vCPU had in each period of its budget, while it does nothing but read the counter.
    Budget,
    /// [`Self::Budget`] while it makes the hypervisor work.
    BudgetExits,
}

impl Figure {
    /// All figures, in the order in which they are measured.
    pub const ALL: [Self; 21] = [
        Self::Hypercall,
        Self::SmcccVersion,
        Self::GicdRead,
        Self::TimerInterrupt,
        Self::Switch,
        Self::SwitchBudgets,
        Self::Ipi,
        Self::Pending4,
        Self::Pending200,
        Self::Burst200,
        Self::Wake,
        Self::WakeBeside,
        Self::WakeSpread,
        Self::PhysicalTimer,
        Self::Device,
        Self::Start,
        Self::SendPolled,
        Self::SendBurst,
        Self::Receive,
        Self::Budget,
        Self::BudgetExits,
    ];

    /// The figure's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hypercall => "hypercall",
            Self::SmcccVersion => "smccc-version",
            Self::GicdRead => "gicd-read",
            Self::TimerInterrupt => "timer-interrupt",
            Self::Switch => "switch",
            Self::SwitchBudgets => "switch-budgets",
            Self::Ipi => "ipi",
            Self::Pending4 => "pending-4",
            Self::Pending200 => "pending-200",
            Self::Burst200 => "burst-200",
            Self::Wake => "wake",
            Self::WakeBeside => "wake-beside",
            Self::WakeSpread => "wake-spread",
            Self::PhysicalTimer => "physical-timer",
            Self::Device => "device-interrupt",
            Self::Start => "start",
            Self::SendPolled => "send-polled",
            Self::SendBurst => "send-burst",
            Self::Receive => "receive",
            Self::Budget => "budget",
            Self::BudgetExits => "budget-exits",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.name() == name)
    }
}

/// A set of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures(u32);

impl Figures {
    /// The default figures: those that need neither a second VM nor a second vCPU, nor many
    /// interrupts.
    pub const ALONE: Self = Self(0b1111);

    /// The figures that `names` has, separated by commas; `None` where a name is unknown.
    pub fn named(names: &str) -> Option<Self> {
        names.split(',').try_fold(Self(0), |all, name| {
            let figure = Figure::named(name)?;
            Some(Self(all.0 | 1 << figure as u8))
        })
    }

    /// Whether `figure` is in it.
    pub const fn contains(self, figure: Figure) -> bool {
        self.0 & (1 << figure as u8) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_known_by_their_names() {
        for figure in Figure::ALL {
            assert_eq!(Figure::named(figure.name()), Some(figure));
        }
        let some = Figures::named("switch,hypercall").unwrap();
        let chosen = Figure::ALL.into_iter().filter(|f| some.contains(*f));
        assert!(chosen.eq([Figure::Hypercall, Figure::Switch]));
    }

    #[test]
    fn an_unknown_name_is_refused() {
        assert_eq!(Figures::named("hypercall,ip"), None);
        assert_eq!(Figures::named(""), None);
        assert_eq!(Figures::named("hypercall,"), None);
    }

    #[test]
    fn alone_is_what_needs_nobody_and_little_time() {
        let alone = |f: &Figure| Figures::ALONE.contains(*f);
        assert!(Figure::ALL.into_iter().filter(alone).eq([
            Figure::Hypercall,
            Figure::SmcccVersion,
            Figure::GicdRead,
            Figure::TimerInterrupt
        ]));
    }
}
