//! Stands between the image library and skopeo: limits how fast skopeo fetches, and reads each
//! layer to its end.
//!
//! The image library starts a program as skopeo, and talks to it by messages on a socket, which is
//! that program's standard input. Manifests and layers come through pipes whose reading ends skopeo
//! sends along. With a limit, that program is one of ours: it starts skopeo and passes the messages
//! on. In the place of each of skopeo's pipes it puts one of its own, which it fills at the limit's
//! rate. skopeo stops reading its connection while its pipe is full, so that the registry sends no
//! faster. Mirrors, proxies and TLS stay skopeo's.
//!
//! - `gate`: how fast bytes pass, all pipes together
//! - `pace`: the clock and the limit that it goes by; `limit`: the file that says it
//! - `pipe`: one pipe
//! - `relay`: the messages

mod gate;
mod limit;
mod pace;
mod pipe;
mod relay;

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::process;
use gate::Gate;
use pace::FilePace;

pub use limit::{InvalidLimit, read_limit};

/// Why skopeo cannot be run under a limit.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be started or waited for.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The socket to it cannot be made.
    #[error("cannot make a socket for skopeo")]
    Socket(#[source] io::Error),
    /// A message cannot be passed on.
    #[error("cannot pass a message of skopeo on")]
    Message(#[source] io::Error),
    /// A layer cannot be passed on.
    #[error("cannot pass on what skopeo fetches")]
    Pipe(#[source] io::Error),
}

/// Runs skopeo to its end, by the socket that is this program's standard input, and at the rate
/// that a file says, if there is one. It has this program's environment.
///
/// # Errors
/// [`Error`]; skopeo's own failure is in its status.
pub fn run(arguments: &[String], limit_file: Option<&Path>) -> Result<ExitStatus, Error> {
    let library = io::stdin().as_fd().try_clone_to_owned();
    let library = library.map_err(Error::Socket)?;
    let (ours, skopeos) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|error| Error::Socket(error.into()))?;
    let mut skopeo = process::start_skopeo(arguments, skopeos)?;
    let gate = Arc::new(Gate::new(FilePace::new(limit_file)));
    relay::relay(&Arc::new(library), &Arc::new(ours), &gate)?;
    Ok(skopeo.wait().map_err(process::Error::skopeo)?)
}
