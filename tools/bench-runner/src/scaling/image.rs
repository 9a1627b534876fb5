//! How large the image of eight VMs is that boot the same files, and what its making takes of the PC's memory.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::found::Images;
use crate::boards::Boards;
use crate::materials;
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::repo;

/// How many VMs there are.
const VMS: usize = 8;

/// Builds the image of one VM with the kernel of the measured Linux and an initramfs, and of eight with the same.
pub fn measure(boards: &Boards) -> Outcome<Images> {
    let built = |vms| build(boards, vms).blame(Code::TestsFailed);
    let (one, _) = built(1)?;
    let (all, memory) = built(VMS)?;
    Ok(Images { one, all, memory })
}

/// The bytes of the image, and those of memory that its making took at most.
fn build(boards: &Boards, vms: usize) -> Result<(f64, f64)> {
    let plan = boards.plan;
    let board = plan
        .gics
        .first()
        .map_or("qemu-virt", |gic| plan.board(*gic));
    let kernel = materials::kernel(plan);
    let mut text = format!(
        "board = \"{board}\"\ncpu = \"{}\"\ncores = 1\nmemory = \"2G\"\n",
        plan.cpu
    );
    for vm in 0..vms {
        text += &format!(
            "\n[[vm]]\nname = \"linux{vm}\"\nkernel = \"{kernel}\"\ninitramfs = \"busybox\"\n\
             memory = \"128M\"\ncpus = [0]\n"
        );
    }
    let path = boards.dir.join(format!("images-{vms}.toml"));
    let image = path.with_extension("built");
    repo::write_whole(&path, text.as_bytes())?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--yes", "build"])
        .arg(&path)
        .arg("-o")
        .arg(&image)
        .env("HANOK_ROOT", boards.root);
    let memory = most_memory(&mut command)?;
    let bytes = fs::metadata(&image)?.len();
    // It is large, and nobody boots it.
    fs::remove_file(&image)?;
    Ok((bytes as f64, memory))
}

/// Runs `command`; the bytes of memory that it had at most, as Linux tells it while it runs.
fn most_memory(command: &mut Command) -> Result<f64> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut most: f64 = 0.0;
    let ended = loop {
        most = most.max(peak(Path::new(&status)).unwrap_or_default());
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        thread::sleep(Duration::from_millis(2));
    };
    ensure!(ended.success(), "{command:?}: {ended}");
    Ok(most)
}

/// Of `/proc/PID/status`: `VmHWM:     786000 kB`.
fn peak(status: &Path) -> Option<f64> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_had_at_most_is_told_while_it_runs() {
        assert!(peak(Path::new("/proc/self/status")).unwrap() > 100_000.0);
        assert!(peak(Path::new("/nothing")).is_none());
        // A shell takes some hundreds of KiB.
        let memory = most_memory(Command::new("sh").args(["-c", "sleep 0.2"])).unwrap();
        assert!((100_000.0..50_000_000.0).contains(&memory), "{memory}");
    }
}
