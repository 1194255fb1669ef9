//! System calls that change a host, and one of them as it is made.
//!
//! - `socket`: the peer of a socket

mod socket;

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use nix::unistd::Pid;

use super::ptrace::Entry;

/// Longest path that Linux takes, with its end.
const PATH_MAX: u64 = 4096;

/// Most parts that Linux takes in one call.
const PARTS_MAX: u64 = 1024;

/// As much of a line as distinguishes it from others.
const SAID_MAX: u64 = 200;

/// Flags of `open` that make or empty a file. The last is what `O_TMPFILE` has of its own.
pub(crate) const CREATING: u32 = 0o100 | 0o1000 | 0o20_000_000;

/// Requests of `ioctl` that change a file or hold writers up: attributes, shared blocks, freezing.
/// Source: `linux/fs.h`.
const IOCTLS: [(u64, &str); 5] = [
    (0x4008_6602, "FS_IOC_SETFLAGS"),
    (0x4004_9409, "FICLONE"),
    (0x4020_940d, "FICLONERANGE"),
    (0xc004_5877, "FIFREEZE"),
    (0xc004_5878, "FITHAW"),
];

/// When the filter picks a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pick {
    /// Whenever it is made.
    Always,
    /// Only to make or empty a file.
    Creating {
        /// Which argument has the flags.
        flags: u32,
    },
}

/// A call that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it changes: a path, as far as it is known.
    pub(crate) path: String,
    /// What it changes that from, if it has two paths.
    from: String,
    /// The start of what it writes to standard output or standard error.
    pub(crate) says: String,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.path)?;
        if !self.from.is_empty() {
            write!(f, " (from {})", self.from)?;
        }
        Ok(())
    }
}

/// What a call's arguments are.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// A path, below the working directory.
    Path,
    /// Two paths.
    Paths,
    /// A directory's descriptor and a path.
    At,
    /// Two of them.
    Ats,
    /// Something written, then a directory's descriptor and a path.
    LinkAt,
    /// Something written, then a path.
    Link,
    /// A file's descriptor.
    File,
    /// A file's descriptor or a socket's, an address and a length.
    Bytes,
    /// A file's descriptor or a socket's, an address of parts and their number.
    Parts,
    /// A file's descriptor, third.
    FileThird,
    /// A file's descriptor and a request.
    Request,
    /// `struct open_how` third.
    How,
    /// A socket's descriptor, an address and a length: by what is sent over one, other programs are
    /// asked to change something.
    Send,
    /// A socket's descriptor and a message or messages.
    Message,
}

/// Calls that may change something.
///
/// What only syncs is not here: it changes nothing that a kill leaves or not. Nor is what acts on
/// the program itself and dies with it: its namespaces with their mounts, its memory, its locks.
const CALLS: &[(i64, &str, Form, Pick)] = &[
    (
        libc::SYS_open,
        "open",
        Form::Path,
        Pick::Creating { flags: 1 },
    ),
    (
        libc::SYS_openat,
        "openat",
        Form::At,
        Pick::Creating { flags: 2 },
    ),
    (libc::SYS_openat2, "openat2", Form::How, Pick::Always),
    (libc::SYS_creat, "creat", Form::Path, Pick::Always),
    (libc::SYS_write, "write", Form::Bytes, Pick::Always),
    (libc::SYS_writev, "writev", Form::Parts, Pick::Always),
    (libc::SYS_pwrite64, "pwrite64", Form::File, Pick::Always),
    (libc::SYS_pwritev, "pwritev", Form::File, Pick::Always),
    (libc::SYS_pwritev2, "pwritev2", Form::File, Pick::Always),
    (libc::SYS_sendfile, "sendfile", Form::File, Pick::Always),
    (libc::SYS_splice, "splice", Form::FileThird, Pick::Always),
    (
        libc::SYS_copy_file_range,
        "copy_file_range",
        Form::FileThird,
        Pick::Always,
    ),
    (libc::SYS_truncate, "truncate", Form::Path, Pick::Always),
    (libc::SYS_ftruncate, "ftruncate", Form::File, Pick::Always),
    (libc::SYS_fallocate, "fallocate", Form::File, Pick::Always),
    (libc::SYS_mkdir, "mkdir", Form::Path, Pick::Always),
    (libc::SYS_mkdirat, "mkdirat", Form::At, Pick::Always),
    (libc::SYS_mknod, "mknod", Form::Path, Pick::Always),
    (libc::SYS_mknodat, "mknodat", Form::At, Pick::Always),
    (libc::SYS_link, "link", Form::Paths, Pick::Always),
    (libc::SYS_linkat, "linkat", Form::Ats, Pick::Always),
    (libc::SYS_symlink, "symlink", Form::Link, Pick::Always),
    (libc::SYS_symlinkat, "symlinkat", Form::LinkAt, Pick::Always),
    (libc::SYS_rename, "rename", Form::Paths, Pick::Always),
    (libc::SYS_renameat, "renameat", Form::Ats, Pick::Always),
    (libc::SYS_renameat2, "renameat2", Form::Ats, Pick::Always),
    (libc::SYS_unlink, "unlink", Form::Path, Pick::Always),
    (libc::SYS_unlinkat, "unlinkat", Form::At, Pick::Always),
    (libc::SYS_rmdir, "rmdir", Form::Path, Pick::Always),
    (libc::SYS_chmod, "chmod", Form::Path, Pick::Always),
    (libc::SYS_fchmod, "fchmod", Form::File, Pick::Always),
    (libc::SYS_fchmodat, "fchmodat", Form::At, Pick::Always),
    (libc::SYS_chown, "chown", Form::Path, Pick::Always),
    (libc::SYS_lchown, "lchown", Form::Path, Pick::Always),
    (libc::SYS_fchown, "fchown", Form::File, Pick::Always),
    (libc::SYS_fchownat, "fchownat", Form::At, Pick::Always),
    (libc::SYS_utimensat, "utimensat", Form::At, Pick::Always),
    (libc::SYS_setxattr, "setxattr", Form::Path, Pick::Always),
    (libc::SYS_lsetxattr, "lsetxattr", Form::Path, Pick::Always),
    (libc::SYS_fsetxattr, "fsetxattr", Form::File, Pick::Always),
    (
        libc::SYS_removexattr,
        "removexattr",
        Form::Path,
        Pick::Always,
    ),
    (
        libc::SYS_lremovexattr,
        "lremovexattr",
        Form::Path,
        Pick::Always,
    ),
    (
        libc::SYS_fremovexattr,
        "fremovexattr",
        Form::File,
        Pick::Always,
    ),
    (libc::SYS_ioctl, "ioctl", Form::Request, Pick::Always),
    (libc::SYS_sendto, "sendto", Form::Send, Pick::Always),
    (libc::SYS_sendmsg, "sendmsg", Form::Message, Pick::Always),
    (libc::SYS_sendmmsg, "sendmmsg", Form::Message, Pick::Always),
];

/// What the filter stops at.
pub(crate) fn picked() -> impl Iterator<Item = (i64, Pick)> {
    CALLS.iter().map(|(number, _, _, pick)| (*number, *pick))
}

impl Call {
    /// The call that a thread stands before; none if it changes nothing after all.
    pub(crate) fn of(pid: Pid, entry: &Entry) -> Option<Self> {
        let (_, name, form, pick) = CALLS.iter().find(|(number, ..)| *number == entry.number)?;
        if let Pick::Creating { flags } = pick {
            let flags = entry.arguments.get(usize::try_from(*flags).ok()?)?;
            if flags & u64::from(CREATING) == 0 {
                return None;
            }
        }
        let [a, b, c, d, ..] = entry.arguments;
        let (mut from, mut says) = (String::new(), String::new());
        let path = match form {
            Form::Path => path(pid, a),
            Form::Paths => {
                from = path(pid, a);
                path(pid, b)
            }
            Form::At => at(pid, a, b),
            Form::Ats => {
                from = at(pid, a, b);
                at(pid, c, d)
            }
            Form::LinkAt => at(pid, b, c),
            Form::Link => path(pid, b),
            Form::File => file(pid, a)?,
            Form::Bytes => {
                if matches!(a, 1 | 2) {
                    says = String::from_utf8_lossy(&bytes(pid, b, c.min(SAID_MAX))).into_owned();
                }
                file(pid, a).or_else(|| socket::to(pid, a, c))?
            }
            Form::Parts => file(pid, a).or_else(|| socket::to(pid, a, length(pid, b, c)))?,
            Form::FileThird => file(pid, c)?,
            Form::Request => {
                let (_, request) = IOCTLS.iter().find(|(number, _)| *number == b)?;
                (*request).clone_into(&mut from);
                descriptor(pid, a)
            }
            Form::How => {
                let flags = word(pid, c)?;
                if flags & u64::from(CREATING) == 0 {
                    return None;
                }
                at(pid, a, b)
            }
            Form::Send => socket::to(pid, a, c).unwrap_or_else(|| descriptor(pid, a)),
            Form::Message => {
                // Parts and their number come third and fourth of a `struct msghdr`.
                let parts = word(pid, b + 16).zip(word(pid, b + 24));
                let length = parts.map_or(0, |(parts, count)| length(pid, parts, count));
                socket::to(pid, a, length).unwrap_or_else(|| descriptor(pid, a))
            }
        };
        // An answer changes nothing, and when a probe asks is another moment in each life.
        if path.starts_with(socket::ASKER) {
            return None;
        }
        Some(Self {
            name,
            path,
            from,
            says,
        })
    }

    /// Whether it sends something.
    pub(crate) fn is_to_socket(&self) -> bool {
        self.is_to_network() || self.path.starts_with(socket::LOCAL)
    }

    /// Whether it sends something by an address of the network, as to the API server.
    pub(crate) fn is_to_network(&self) -> bool {
        self.path.starts_with(socket::TCP)
    }
}

/// Bytes in the parts that an array of `struct iovec` names.
fn length(pid: Pid, parts: u64, count: u64) -> u64 {
    let lengths = (0..count.min(PARTS_MAX)).filter_map(|part| word(pid, parts + 16 * part + 8));
    lengths.sum()
}

/// A path argument; what cannot be read is shown as that.
fn path(pid: Pid, address: u64) -> String {
    text(pid, address).unwrap_or_else(|| "?".to_owned())
}

fn at(pid: Pid, directory: u64, address: u64) -> String {
    let path = path(pid, address);
    // The kernel takes the lower half: -100 is AT_FDCWD.
    if path.starts_with('/') || directory & 0xffff_ffff == 0xffff_ff9c {
        return path;
    }
    format!("{}/{path}", descriptor(pid, directory))
}

fn descriptor(pid: Pid, number: u64) -> String {
    target(pid, number).map_or_else(|| "?".to_owned(), |path| path.display().to_string())
}

fn target(pid: Pid, number: u64) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/fd/{}", number & 0xffff_ffff)).ok()
}

/// The file behind a descriptor; none for a pipe, socket or device, whose content is not kept.
fn file(pid: Pid, number: u64) -> Option<String> {
    let kind = fs::metadata(format!("/proc/{pid}/fd/{}", number & 0xffff_ffff))
        .ok()?
        .file_type();
    (kind.is_file() || kind.is_dir()).then(|| descriptor(pid, number))
}

fn text(pid: Pid, address: u64) -> Option<String> {
    let mut bytes = bytes(pid, address, PATH_MAX);
    let end = bytes.iter().position(|byte| *byte == 0)?;
    bytes.truncate(end);
    String::from_utf8(bytes).ok()
}

/// At most so many bytes of the program's memory: what is read may end with the mapping.
fn bytes(pid: Pid, address: u64, max: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(max).unwrap_or_default()];
    let read = File::open(format!("/proc/{pid}/mem"))
        .and_then(|memory| memory.read_at(&mut bytes, address));
    bytes.truncate(read.unwrap_or_default());
    bytes
}

fn word(pid: Pid, address: u64) -> Option<u64> {
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut bytes = [0; 8];
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some(u64::from_ne_bytes(bytes))
}
