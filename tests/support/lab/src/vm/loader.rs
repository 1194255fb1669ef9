//! The boot loader of a machine's disk: GRUB before the first partition, its settings in `/boot`.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::host::install_file;
use crate::program::{command, run};

/// Where the partition begins, in bytes: as every partitioning tool puts the first one.
pub(super) const OFFSET: u64 = 1 << 20;

/// Bytes of a sector.
const SECTOR: u64 = 512;

/// Folder of GRUB's modules for machines with a BIOS. Source: Debian's grub-pc-bin.
const MODULES: &str = "/usr/lib/grub/i386-pc";

/// Folder of its settings, in `/boot`.
const SETTINGS: &str = "grub2";

/// Modules in the image: reading the disk, the script's commands, and what [`LATE`] needs.
const BUILT_IN: [&str; 16] = [
    "biosdisk",
    "part_msdos",
    "ext2",
    "normal",
    "serial",
    "terminal",
    "loadenv",
    "test",
    "regexp",
    "configfile",
    "echo",
    "boot",
    "relocator",
    "verifiers",
    "mmap",
    "vbe",
];

/// Module that the script loads itself, after it has read the entries.
const LATE: &str = "linux.mod";

/// An environment block without variables. Source: GRUB's manual, "Environment block": 1024 bytes,
/// filled up with `#`.
fn empty_environment() -> Vec<u8> {
    let mut block = b"# GRUB Environment Block\n".to_vec();
    block.resize(1024, b'#');
    block
}

/// Writes GRUB's settings and an empty environment block into a mounted `/boot`.
pub(super) fn configure(boot: &Path) -> Result<()> {
    let dir = boot.join(SETTINGS);
    install_file(&dir.join("grub.cfg"), include_bytes!("grub.cfg"), 0o644)?;
    install_file(&dir.join("grubenv"), &empty_environment(), 0o644)?;
    install_file(&dir.join("i386-pc").join(LATE), &module(LATE)?, 0o644)
}

/// Writes GRUB and a partition table into the first [`OFFSET`] bytes of a disk, in the folder `dir`
/// of the run.
pub(super) fn install(disk: &Path, dir: &Path) -> Result<()> {
    let image = dir.join("grub.img");
    run(command("grub-mkimage")
        .args(["--format=i386-pc", "--compression=auto"])
        .arg(format!("--prefix=(hd0,msdos1)/{SETTINGS}"))
        .arg(format!("--output={}", image.display()))
        .args(BUILT_IN))?;
    // Its first sector reads the others from sector 2 on, as `grub-mkimage` leaves it, and the boot
    // sector reads that from sector 1.
    let core = fs::read(&image)?;
    ensure!(
        SECTOR + core.len() as u64 <= OFFSET,
        "GRUB does not fit before the partition"
    );
    let boot_sector = module("boot.img")?;

    let file = OpenOptions::new().write(true).open(disk)?;
    let length = file.metadata()?.len();
    file.write_all_at(&boot_record(&boot_sector, length)?, 0)?;
    file.write_all_at(&core, SECTOR)?;
    sync(&file)
}

fn module(name: &str) -> Result<Vec<u8>> {
    fs::read(Path::new(MODULES).join(name))
        .with_context(|| format!("cannot read GRUB's {name} in {MODULES}"))
}

/// The boot sector with a table of one partition, from [`OFFSET`] to the end of a disk of `length`
/// bytes.
fn boot_record(boot_sector: &[u8], length: u64) -> Result<Vec<u8>> {
    /// Where the table begins, and what the sector ends with.
    const TABLE: usize = 446;
    let begin = u32::try_from(OFFSET / SECTOR)?;
    let sectors = u32::try_from((length - OFFSET) / SECTOR)?;
    let mut record = boot_sector
        .get(..440)
        .context("GRUB's boot sector is short")?
        .to_vec();
    record.resize(TABLE, 0);
    // Active, no CHS address, type Linux.
    record.extend([0x80, 0, 0, 0, 0x83, 0, 0, 0]);
    record.extend(begin.to_le_bytes());
    record.extend(sectors.to_le_bytes());
    record.resize(510, 0);
    record.extend([0x55, 0xaa]);
    Ok(record)
}

fn sync(file: &File) -> Result<()> {
    Ok(file.sync_all()?)
}
