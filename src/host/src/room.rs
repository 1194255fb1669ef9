//! Free space of file systems, and what a kernel takes of `/boot`.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::statvfs;

/// Space for boot entries and the boot loader's configuration beside kernels; they take a few KiB.
pub const ENTRIES_BYTES: u64 = 1 << 20;

/// Bytes that an unprivileged user could still write below `path`.
///
/// # Errors
/// Those of the file system.
pub fn free(path: &Path) -> io::Result<u64> {
    let stat = statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Bytes of a block below `path`: no file takes less.
///
/// # Errors
/// Those of the file system.
pub fn block(path: &Path) -> io::Result<u64> {
    Ok(statvfs(path)?.f_frsize)
}

/// Bytes that each kernel takes which libostree has copied to a `/boot`, rounded up to blocks:
/// kernel, initramfs and device trees of one directory. None where it has copied none.
///
/// # Errors
/// Those of reading.
pub fn kernels(boot: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(boot.join("ostree")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let block = block(boot)?.max(1);
    let mut kernels = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            kernels.push(size(&entry.path(), block)?);
        }
    }
    Ok(kernels)
}

/// Bytes of a directory and all that is in it.
fn size(directory: &Path, block: u64) -> io::Result<u64> {
    let mut bytes = block;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            size(&entry.path(), block)?
        } else {
            entry.metadata()?.len().div_ceil(block).max(1) * block
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_takes_whole_blocks() {
        let boot = tempfile::tempdir().unwrap();
        assert_eq!(kernels(boot.path()).unwrap(), [0; 0]);
        let block = block(boot.path()).unwrap();
        let kernel = boot.path().join("ostree/os-1");
        fs::create_dir_all(kernel.join("dtb")).unwrap();
        for (name, bytes) in [("vmlinuz", block + 1), ("dtb/board.dtb", 1)] {
            let file = fs::File::create(kernel.join(name)).unwrap();
            file.set_len(bytes).unwrap();
        }
        // Two directories, and three blocks of files.
        assert_eq!(kernels(boot.path()).unwrap(), [5 * block]);
        assert!(free(boot.path()).unwrap() > 0);
        assert!(free(&boot.path().join("none")).is_err());
    }
}
