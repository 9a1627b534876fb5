//! Every field of every ID register, of every CPU model that a board may have, as the CPU itself
//! says it: what a VM sees of it is the same, or stands on the list below with the reason. So no
//! feature is hidden because nobody thought of it, which can make a guest believe itself more
//! vulnerable than it is.
//!
//! The fields are those of the architecture: four bits each, in all registers of the space
//! (DDI 0487, D19.1: op0 3, op1 0, CRn 0, CRm 1 to 7; DDI 0406C, B3.17.1: CRn 0, opc1 0).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hanok_decode::SysReg;
use hanok_vm::id_register;

use crate::step::{Tally, TestStep};
use hanok_artifacts::Store;
use hanok_base::exit::Code;
use hanok_base::repo;
use hanok_boot::native;
use hanok_boot::overrides::{Overrides, VmOverrides};
use hanok_boot::{machine, system};
use hanok_console::request::{Input, Request, Sink};
use hanok_console::run;
use hanok_console::script::ScriptStep;

/// The steps.
pub const STEPS: &[TestStep] = &[TestStep {
    name: "id-fields",
    run: |root| match sweep(root) {
        Ok(()) => Tally::pass(),
        Err(error) => Tally::fail(format!("{error:#}")),
    },
}];

/// A boot of a few million instructions, on a PC that does other work as well.
const PATIENCE: Duration = Duration::from_secs(120);

/// A field that a VM sees differently from the CPU: CRm and op2 of its register, its lowest bit,
/// and the reason. Names: DDI 0487, D24.2, and for 32 bits DDI 0406C, B4.1.
const CHANGED: &[(u8, u8, u32, &str)] = &[
    (1, 0, 16, "CSV2: at most 1, as in ID_AA64PFR0_EL1"),
    (1, 0, 28, "RAS: errors are the hypervisor's to contain"),
    (1, 2, 0, "CopDbg: Armv8's debug; AArch32 at EL1 has none"),
    (1, 2, 8, "MMapDbg: debug registers in memory are not mapped"),
    (1, 2, 24, "PerfMon: counters would count other VMs"),
    (2, 6, 0, "SpecSEI: of RAS"),
    (2, 6, 8, "XNX: of stage 2"),
    (2, 6, 28, "EVT: of EL2"),
    (3, 5, 4, "HPMN0: of the PMU"),
    (4, 0, 28, "RAS: errors are the hypervisor's to contain"),
    (4, 0, 32, "SVE: its state is not switched"),
    (4, 0, 36, "SEL2: there is no EL2 in a VM"),
    (4, 0, 56, "CSV2: without SCXTNUM_EL1, which is not switched"),
    (4, 1, 8, "MTE: tags are not cleared between lives"),
    (4, 1, 24, "SME: its state is not switched"),
    (
        4,
        1,
        36,
        "NMI: HCRX_EL2 and the virtual interrupt controller would have to know it",
    ),
    (4, 4, 0, "SVEver: of SVE"),
    (4, 4, 4, "AES: of SVE"),
    (4, 4, 16, "BitPerm: of SVE"),
    (4, 4, 20, "BF16: of SVE"),
    (4, 4, 32, "SHA3: of SVE"),
    (4, 4, 40, "SM4: of SVE"),
    (4, 4, 44, "I8MM: of SVE"),
    (4, 4, 52, "F32MM: of SVE"),
    (4, 4, 56, "F64MM: of SVE"),
    (4, 5, 32, "F32F32 to F16F32: of SME"),
    (4, 5, 36, "I8I32: of SME"),
    (4, 5, 48, "F64F64: of SME"),
    (4, 5, 52, "I16I64: of SME"),
    (4, 5, 60, "FA64: of SME"),
    (
        5,
        0,
        0,
        "DebugVer: Armv8's debug, which is what is switched",
    ),
    (5, 0, 8, "PMUVer: counters would count other VMs"),
    (5, 0, 60, "HPMN0: of the PMU"),
    (
        6,
        1,
        56,
        "XS: HCRX_EL2 would have to be set for its TLB maintenance",
    ),
    (
        6,
        2,
        0,
        "WFxT: a trapped WFIT has a time, at which nobody would wake it",
    ),
    (6, 2, 16, "MOPS: HCRX_EL2.MSCEn would have to be set"),
    (
        7,
        0,
        0,
        "PARange: 40 bits at most, which stage 2 translates",
    ),
    (7, 0, 8, "BigEnd: the devices' models are little-endian"),
    (7, 0, 12, "SNSMem: there is no secure memory in a VM"),
    (7, 0, 32, "TGran16_2: of stage 2"),
    (7, 0, 36, "TGran64_2: of stage 2"),
    (7, 0, 40, "TGran4_2: of stage 2"),
    (7, 0, 56, "FGT: of EL2"),
    (7, 0, 60, "ECV: its counters, not CNTPOFF_EL2"),
    (7, 1, 4, "VMIDBits: of stage 2"),
    (7, 1, 8, "VH: of EL2"),
    (7, 1, 16, "LO: LORegions read as zero"),
    (7, 1, 28, "XNX: of stage 2"),
    (7, 1, 40, "HCX: of EL2"),
    (7, 1, 52, "TIDCP1: no guest's EL0 was tried with it"),
    (7, 1, 56, "CMOW: HCRX_EL2.CMOW would have to be set"),
    (7, 2, 12, "IESB: of RAS"),
    (7, 2, 24, "NV: of EL2"),
    (
        7,
        2,
        36,
        "IDS: what EL0 is told of a trapped ID register comes from EL2",
    ),
    (7, 2, 40, "FWB: of stage 2"),
    (7, 2, 56, "EVT: of EL2"),
];

/// Asks every CPU model, and compares each field.
fn sweep(root: &Path) -> Result<()> {
    let boards = hanok_system::boards(&system::boards_dir(root));
    let boards = boards.map_err(|found| system::refused(found).error)?;
    let mut asked = BTreeSet::new();
    let mut wrong = Vec::new();
    for board in boards.iter().filter(|board| board.qemu.dtb.is_none()) {
        for cpu in &board.cpus {
            // A board with the other interrupt controller has the same CPUs.
            if asked.insert(cpu.clone()) {
                let ids = ids(root, &board.name, cpu).with_context(|| cpu.clone())?;
                wrong.extend(
                    unlisted(&ids)
                        .into_iter()
                        .map(|what| format!("{cpu}: {what}")),
                );
            }
        }
    }
    ensure!(asked.len() > 4, "only {asked:?} were asked");
    ensure!(
        wrong.is_empty(),
        "fields that a VM sees otherwise, and that are on no list: pass them on in \
         core/vm/src/id_registers.rs, or say why not in tools/scenarios/src/ids.rs:\n{}",
        wrong.join("\n")
    );
    Ok(())
}

/// A register's CRm, op2 and value.
type Id = (u8, u8, u64);

/// The fields that disagree with the list: changed without being on it, or on it and passed on.
fn unlisted(ids: &[Id]) -> Vec<String> {
    let mut found = Vec::new();
    for (crm, op2, host) in ids {
        let shown = id_register(SysReg::from_fields(3, 0, 0, *crm, *op2), *host);
        for low in (0..64).step_by(4) {
            let [host, shown] = [host, &shown].map(|value| value >> low & 0xf);
            let mut list = CHANGED.iter();
            let listed = list.any(|(m, two, at, _)| (m, two, *at) == (crm, op2, low));
            if host != shown && !listed {
                let high = low + 3;
                found.push(format!(
                    "CRm {crm}, op2 {op2}, bits {high}:{low}: {host:#x}, and {shown:#x} in a VM"
                ));
            }
        }
    }
    found
}

/// All ID registers of a CPU model, as a program finds them on QEMU itself.
fn ids(root: &Path, board: &str, cpu: &str) -> Result<Vec<Id>> {
    let dir = repo::target_dir(root).join(format!("hanok/test/id-fields-{cpu}"));
    fs::create_dir_all(&dir)?;
    let overrides = Overrides {
        board: Some(board.to_owned()),
        cpu: Some(cpu.to_owned()),
        vm: VmOverrides {
            vcpus: Some(1),
            cmdline: "conformance.run=ids".to_owned(),
            ..VmOverrides::default()
        },
        ..Overrides::default()
    };
    let file = root.join("systems/conformance.toml");
    let described = system::load(root, &file, &overrides).map_err(|failure| failure.error)?;
    let store = Store::open(true, false)?;
    let ready = native::native_board(root, &store, &described, native::Changed::default(), None);
    let ready = ready.map_err(|failure| failure.error)?;
    fs::write(dir.join("command"), machine::typed(&ready.command))?;
    let console = dir.join("console");
    let ended = run::run(Request {
        command: ready.command,
        framed: ready.framed,
        poweroff: ready.poweroff,
        steps: vec![ScriptStep::Expect("id: done".to_owned())],
        until: None,
        timeout: Some(PATIENCE),
        consoles: vec![Sink::create(&console)?],
        log: Sink::create(&dir.join("log"))?,
        input: Input::None,
        before_end: None,
        vms: ready.vms,
    });
    let ended = ended.map_err(|failure| failure.error)?;
    ensure!(ended.code == Code::Success, "{}", ended.why);
    let text = fs::read_to_string(console)?;
    let ids: Vec<Id> = text.lines().filter_map(parsed).collect();
    if ids.len() != 7 * 8 {
        bail!("{} registers of {} answered", ids.len(), 7 * 8);
    }
    Ok(ids)
}

/// A line such as `id: 4 0 0x1100000011112222`.
fn parsed(line: &str) -> Option<Id> {
    let mut words = line.trim().strip_prefix("id: ")?.split(' ');
    let (crm, op2) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let value = words.next()?.strip_prefix("0x")?;
    Some((crm, op2, u64::from_str_radix(value, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_on_no_list_is_found() {
        // ID_AA64PFR0_EL1 with EL2 (bits 11:8), which no VM has; all other fields are passed on.
        let of = |value| unlisted(&[(4, 0, value)]);
        assert!(of(0x0011_0011).is_empty(), "{:?}", of(0x0011_0011));
        let with_all: Vec<_> = (0..16).map(|field| 1 << (4 * field)).collect();
        let all = with_all.iter().fold(0, |all, field| all | field);
        let listed = CHANGED
            .iter()
            .filter(|(crm, op2, ..)| (*crm, *op2) == (4, 0))
            .count();
        let hidden = (0..16).filter(|field| {
            let shown = id_register(SysReg::from_fields(3, 0, 0, 4, 0), all);
            shown >> (4 * field) & 0xf == 0
        });
        assert!(listed > 0 && listed <= hidden.count());
        // CRm 7, op2 7 has no meaning yet.
        assert_eq!(unlisted(&[(7, 7, 0x10)]).len(), 1);
        assert_eq!(parsed("id: 4 0 0x10"), Some((4, 0, 0x10)));
        assert_eq!(parsed("id: done"), None);
    }

    #[test]
    fn every_reason_is_given_once() {
        for (index, (crm, op2, low, why)) in CHANGED.iter().enumerate() {
            let place = (crm, op2, low);
            assert!(!why.is_empty() && low % 4 == 0, "{place:?}");
            let mut others = CHANGED.iter().skip(index + 1);
            assert!(
                others.all(|(c, o, l, _)| (c, o, l) != place),
                "{place:?} twice"
            );
        }
    }
}
