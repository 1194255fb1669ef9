//! The kernel's filter that stops a traced program at calls that may change something.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::call::{CREATING, Pick, picked};

/// Offsets in what the filter reads. Source: `struct seccomp_data` in `linux/seccomp.h`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// `AUDIT_ARCH_X86_64`. A program of another architecture is not stopped.
const X86_64: u32 = 0xc000_003e;

/// Has the program that `command` runs, and its children, stopped at what [`picked`] names.
///
/// Without a tracer such a call fails; until it is traced it must make none.
pub(crate) fn install(command: &mut Command) {
    let program = program();
    let set = move || {
        let fprog = libc::sock_fprog {
            len: u16::try_from(program.len()).unwrap_or_default(),
            filter: program.as_ptr().cast_mut(),
        };
        let (set, filter) = (libc::SECCOMP_SET_MODE_FILTER, &raw const fprog);
        #[expect(unsafe_code, reason = "nix has no seccomp")]
        // SAFETY: the kernel reads the filter, which lives until it returns.
        match unsafe { libc::syscall(libc::SYS_seccomp, set, 0, filter) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    #[expect(
        unsafe_code,
        reason = "what runs between fork and exec has no safe form"
    )]
    // SAFETY: one system call, which needs no lock and no memory.
    unsafe {
        command.pre_exec(set);
    }
}

fn program() -> Vec<libc::sock_filter> {
    let (load, equal, any) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K,
    );
    let ret = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, k: u32, yes: u8, no: u8| libc::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt: yes,
        jf: no,
        k,
    };
    let stop = step(ret, libc::SECCOMP_RET_TRACE, 0, 0);
    let allow = step(ret, libc::SECCOMP_RET_ALLOW, 0, 0);
    let mut program = vec![
        step(load, ARCHITECTURE, 0, 0),
        step(equal, X86_64, 1, 0),
        allow,
    ];
    program.push(step(load, NUMBER, 0, 0));
    for (number, pick) in picked() {
        let number = u32::try_from(number).unwrap_or_default();
        match pick {
            Pick::Always => program.extend([step(equal, number, 0, 1), stop]),
            Pick::Creating { flags } => program.extend([
                step(equal, number, 0, 4),
                step(load, ARGUMENTS + 8 * flags, 0, 0),
                step(any, CREATING, 0, 1),
                stop,
                allow,
            ]),
        }
    }
    program.push(allow);
    program
}
