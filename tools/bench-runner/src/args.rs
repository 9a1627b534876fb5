//! The arguments of `hanok bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hanok_base::values;
use hanok_bench::{FIGURES, Figure, Side};

use crate::devices::cases::Work;

/// Arguments of `bench`.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// The interrupt controller of the emulated machine: 2, 3 or both.
    #[arg(long, value_enum, default_value_t, hide_default_value = true)]
    pub gic: Gics,
    /// The board, instead of QEMU's 64-bit virt with either interrupt controller; qemu-virt-arm
    /// is the 32-bit one.
    #[arg(long, value_enum, value_name = "BOARD", conflicts_with = "gic")]
    pub board: Option<BenchBoard>,
    /// The CPU model of the emulated machine; by default cortex-a57, or cortex-a15 on a 32-bit
    /// board.
    #[arg(long)]
    pub cpu: Option<String>,
    /// Measure only these sides, of native, hanok, xen and kvm. Linux has no KVM for 32-bit hosts.
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, value_parser = side)]
    pub sides: Vec<Side>,
    /// Measure only these figures.
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, value_parser = figure)]
    pub figures: Vec<&'static Figure>,
    /// The number of repeats, which shows whether results are always the same.
    #[arg(long, allow_hyphen_values = true, value_parser = values::whole(1..=100_u32, "how often", "3"))]
    pub repeat: Option<u32>,
    /// Measure once, with lmbench's own repeats too, and by default only native and Hanok with a
    /// GICv3.
    #[arg(long)]
    pub quick: bool,
    /// With --quick on a board without virtualization extensions: count the operations of each row, too, such as
    /// TLB maintenance. Without --quick they always are.
    #[arg(long, requires = "quick")]
    pub operations: bool,
    /// Show where the hypervisor's instructions of one figure go.
    #[arg(long, value_name = "FIGURE", allow_hyphen_values = true, value_parser = figure)]
    #[arg(conflicts_with_all = ["sides", "figures", "repeat", "quick"])]
    pub profile: Option<&'static Figure>,
    /// With --profile: also by line of source.
    #[arg(long, requires = "profile")]
    pub lines: bool,
    /// With --profile: also by functions that the compiler inlined.
    #[arg(long, requires = "profile")]
    pub tree: bool,
    /// Measure what grows with the number of vCPUs on a core, of pending interrupts and of bytes,
    /// compare with the earlier values, and draw it.
    #[arg(long, conflicts_with_all = ["sides", "figures", "repeat", "quick", "profile", "compare", "keep", "show"])]
    pub scaling: bool,
    /// Run the same real-time tasks beside a VM that is always busy, in Hanok and under Xen's schedulers, and compare the
    /// deadlines that are missed and how late a VM wakes.
    #[arg(long, conflicts_with_all = ["sides", "figures", "repeat", "quick", "profile", "compare", "keep", "show", "scaling"])]
    pub schedulers: bool,
    /// Count what requests to a disk and frames take natively, in a client of a driver VM, under KVM and in Xen, and compare.
    #[arg(long, conflicts_with_all = ["figures", "repeat", "profile", "compare", "keep", "show", "scaling", "schedulers"])]
    pub devices: bool,
    /// With --devices: measure only these, of disks, networks, incoming, screens, screens-pl1 and kills.
    #[arg(long, value_enum, value_delimiter = ',', requires = "devices")]
    pub only: Vec<Work>,
    /// With --devices: how often the driver VM is killed under load; 1000 takes long.
    #[arg(long, value_name = "N", default_value_t = 20, hide_default_value = true, requires = "devices",
          allow_hyphen_values = true, value_parser = values::whole(1..=10_000_u32, "how often", "20"))]
    pub kills: u32,
    /// With --schedulers: the image of another Xen than Debian's, such as one that was built with RTDS.
    #[arg(long, value_name = "FILE", requires = "schedulers")]
    pub xen: Option<PathBuf>,
    /// Report what got better and worse since this commit of bench/history.
    #[arg(long, value_name = "COMMIT", conflicts_with = "profile")]
    pub compare: Option<String>,
    /// With --compare: the percentage from which on a figure counts as worse.
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 1.0,
        requires = "compare"
    )]
    #[arg(allow_hyphen_values = true, value_parser = values::percent)]
    pub tolerance: f64,
    /// Keep the medians in bench/history, under the commit.
    #[arg(long, conflicts_with = "profile")]
    pub keep: bool,
    /// Measure nothing: show what an earlier run left in this folder.
    #[arg(long, value_name = "FOLDER")]
    #[arg(conflicts_with_all = ["sides", "figures", "repeat", "quick", "profile", "output"])]
    pub show: Option<PathBuf>,
    /// Where results.json, report.html and the consoles go.
    #[arg(short, long, default_value = "bench-results")]
    pub output: PathBuf,
}

/// A board that can be measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchBoard {
    /// 64 bit, GICv3.
    QemuVirt,
    /// 64 bit, GICv2.
    QemuVirtGicv2,
    /// 32 bit, GICv2.
    QemuVirtArm,
    /// 32 bit, GICv2, without virtualization extensions.
    QemuVirtArmPl1,
}

/// Which interrupt controllers are measured with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Gics {
    /// GICv2.
    #[value(name = "2")]
    Two,
    /// GICv3.
    #[value(name = "3")]
    Three,
    /// One after the other; with --quick GICv3 alone.
    #[default]
    Both,
}

fn side(text: &str) -> Result<Side, String> {
    let found = Side::ALL.into_iter().find(|side| side.id() == text);
    found.ok_or_else(|| {
        "native, hanok, xen and kvm are known, such as --sides native,hanok".to_owned()
    })
}

fn figure(text: &str) -> Result<&'static Figure, String> {
    Figure::find(text).ok_or_else(|| {
        let known: Vec<_> = FIGURES.iter().map(|figure| figure.id).collect();
        let known = known.join(", ");
        format!("known are {known}; a figure is named as there, such as pipe")
    })
}

/// What `hanok bench` makes of these words.
#[cfg(test)]
pub fn parsed<'a>(words: impl IntoIterator<Item = &'a str>) -> BenchArgs {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        bench: BenchArgs,
    }
    let words = ["bench"].into_iter().chain(words);
    let line: Line = clap::Parser::try_parse_from(words).unwrap();
    line.bench
}
