//! Mount namespaces of our own: one in which `/sysroot` and `/boot` may be written, and one with
//! another root.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::fexecve;

use super::{Error, Result};

/// Directories of the host that a program in another root sees, too.
const SHARED: [&str; 6] = ["/proc", "/dev", "/sys", "/sysroot", "/boot", "/var"];

/// Has the dynamic linker resolve every symbol before a program starts: otherwise a library that
/// lacks one is found out where it is called.
const ENVIRONMENT: &str = "LD_BIND_NOW=1";

/// Leaves the host's mount namespace for a copy of it. libostree then mounts `/sysroot` and `/boot`
/// writable in it; other programs do not see that.
///
/// It must be called before a second thread is there: only the calling thread and those it starts
/// later move.
///
/// # Errors
/// [`Error::Namespace`].
pub fn enter_namespace() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| Error::Namespace(error.into()))?;
    // What the host mounts from now on still shows here, and nothing of ours there.
    let (nothing, slave) = (None::<&str>, MsFlags::MS_SLAVE | MsFlags::MS_REC);
    mount(nothing, "/", nothing, slave, nothing).map_err(|error| Error::Namespace(error.into()))
}

/// Goes on as another program with `root` as the root, in a mount namespace of its own. It returns
/// only if that fails.
///
/// The program is opened before the root is left, and so need not be in it; its interpreter and
/// libraries are those of `root`. No other program sees the mounts, so removing `root` removes
/// nothing of the host. As [`enter_namespace`], it must be called before a second thread is there.
///
/// # Errors
/// [`Error::Namespace`], [`Error::Io`] with the program or the root.
pub fn run_in_root(root: &Path, program: &str, arguments: &[String]) -> Error {
    match try_run_in_root(root, program, arguments) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn try_run_in_root(root: &Path, program: &str, arguments: &[String]) -> Result<Infallible> {
    let io = |path: &str| {
        let path = path.to_owned();
        move |source: io::Error| Error::Io { path, source }
    };
    let opened = File::open(program).map_err(io(program))?;
    enter_namespace()?;
    for directory in SHARED {
        let at = root.join(directory.trim_start_matches('/'));
        if Path::new(directory).is_dir() && at.is_dir() {
            let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(directory), &at, None::<&str>, flags, None::<&str>)
                .map_err(|error| Error::Namespace(error.into()))?;
        }
    }
    let shown = root.display().to_string();
    std::os::unix::fs::chroot(root).map_err(io(&shown))?;
    std::env::set_current_dir("/").map_err(io(&shown))?;
    let words = [program]
        .into_iter()
        .chain(arguments.iter().map(String::as_str));
    let words: std::result::Result<Vec<CString>, _> = words.map(CString::new).collect();
    let words = words.map_err(|error| io(program)(error.into()))?;
    let environment = CString::new(ENVIRONMENT).map_err(|error| io(program)(error.into()))?;
    fexecve(opened, &words, &[environment]).map_err(|error| io(program)(error.into()))
}
