//! Colours, and what stands in their place where there are none: no meaning depends on them.

use ratatui::style::{Color, Modifier, Style};

/// The colours of vCPUs in the timeline, one after the other.
const OF_VCPUS: [Color; 6] = [
    Color::Blue,
    Color::Green,
    Color::Magenta,
    Color::Cyan,
    Color::Yellow,
    Color::Red,
];
/// The marks of vCPUs in the timeline.
const MARKS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Whether there are colours.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    colour: bool,
}

impl Theme {
    /// As this terminal and its user want it.
    pub fn of_terminal() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let able = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self {
            colour: wanted && able,
        }
    }

    /// Without colours.
    pub const fn plain() -> Self {
        Self { colour: false }
    }

    /// With colours.
    #[cfg(test)]
    pub const fn coloured() -> Self {
        Self { colour: true }
    }

    fn of(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    /// What needs a look at once.
    pub fn alarm(self) -> Style {
        let strong = self.of(Color::Red).add_modifier(Modifier::BOLD);
        if self.colour {
            strong
        } else {
            strong.add_modifier(Modifier::REVERSED)
        }
    }

    /// What needs a look.
    pub fn warning(self) -> Style {
        self.of(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// What is as it should be.
    pub fn good(self) -> Style {
        self.of(Color::Green)
    }

    /// Time beyond budgets.
    pub fn extra(self) -> Style {
        self.of(Color::Cyan)
    }

    /// What is there for orientation.
    pub fn dim(self) -> Style {
        if self.colour {
            Style::new().fg(Color::DarkGray)
        } else {
            Style::new().add_modifier(Modifier::DIM)
        }
    }

    /// Titles and keys.
    pub fn title(self) -> Style {
        self.of(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// What is chosen.
    pub fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The vCPU at `place` of the list, in the timeline.
    pub fn vcpu(self, place: usize) -> Style {
        if self.colour {
            Style::new()
                .fg(Color::Black)
                .bg(OF_VCPUS[place % OF_VCPUS.len()])
        } else {
            Style::new()
        }
    }

    /// The mark of the vCPU at `place`, in its colour.
    pub fn key(self, place: usize) -> Style {
        self.of(OF_VCPUS[place % OF_VCPUS.len()])
            .add_modifier(Modifier::BOLD)
    }
}

/// The mark of the vCPU at `place` of the list.
pub fn mark(place: usize) -> char {
    MARKS.get(place).map_or('*', |mark| char::from(*mark))
}
