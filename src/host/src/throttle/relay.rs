//! The messages between the image library and skopeo.
//!
//! Each is one packet. Answers carry descriptors: the first is the reading end of the pipe with the
//! data, and others, which newer versions of skopeo have for errors, pass as they are.
//!
//! Source: `cmd/skopeo/proxy.go` of skopeo; `imageproxy.rs` of `containers-image-proxy`.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use chassis::report::Chain;
use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recvmsg, sendmsg, shutdown,
};
use rustix::pipe::{PipeFlags, pipe_with};

use super::Error;
use super::gate::Gate;
use super::pace::Pace;
use super::pipe;

/// The longest message, in bytes: twice what the protocol allows.
const LONGEST: usize = 64 << 10;

/// Most descriptors of a message; the protocol has up to two.
const MOST_DESCRIPTORS: usize = 8;

/// A message and its descriptors.
struct Message {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// Passes messages on, in both directions, until skopeo ends and all that it sent has passed or is
/// not read any more.
///
/// The library's side stays open until then: it is to read skopeo's exit status, and no end of the
/// messages before it.
pub(super) fn relay<P: Pace + 'static>(
    library: &Arc<OwnedFd>,
    skopeo: &Arc<OwnedFd>,
    gate: &Arc<Gate<P>>,
) -> Result<(), Error> {
    let (from, to) = (Arc::clone(library), Arc::clone(skopeo));
    // It is not joined: it ends with the library, which may outlive skopeo.
    thread::spawn(move || {
        if let Err(error) = pass_requests(&from, &to) {
            tracing::error!(error = %Chain(&error), "no request is passed on any more");
        }
    });
    let mut pipes: Vec<JoinHandle<io::Result<()>>> = Vec::new();
    while let Some(mut answer) = receive(skopeo).map_err(Error::Message)? {
        if let Some(data) = answer.descriptors.first_mut() {
            let (read_end, write_end) =
                pipe_with(PipeFlags::CLOEXEC).map_err(|error| Error::Pipe(error.into()))?;
            let source = std::mem::replace(data, read_end);
            let gate = Arc::clone(gate);
            pipes.push(thread::spawn(move || {
                pipe::copy(source.into(), write_end.into(), &gate)
            }));
        }
        send(library, &answer).map_err(Error::Message)?;
    }
    for pipe in pipes {
        pipe.join()
            .unwrap_or_else(|_| Err(io::Error::other("it panicked")))
            .map_err(Error::Pipe)?;
    }
    Ok(())
}

/// Passes requests on, which have no descriptors. Their end is passed on too.
fn pass_requests(library: &OwnedFd, skopeo: &OwnedFd) -> io::Result<()> {
    while let Some(request) = receive(library)? {
        send(skopeo, &request)?;
    }
    Ok(shutdown(skopeo, Shutdown::Write)?)
}

/// The next message; none at the end.
fn receive(socket: &OwnedFd) -> io::Result<Option<Message>> {
    let mut bytes = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        let mut into = [IoSliceMut::new(&mut bytes)];
        recvmsg(socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let descriptors: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| {
            let RecvAncillaryMessage::ScmRights(descriptors) = message else {
                return None;
            };
            Some(descriptors)
        })
        .flatten()
        .collect();
    if received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Err(io::Error::other(
            "a message is longer than the protocol allows",
        ));
    }
    bytes.truncate(received.bytes);
    // No message is empty.
    Ok((!bytes.is_empty()).then_some(Message { bytes, descriptors }))
}

/// Sends a message. One to a side that is gone is dropped: its end is found by the next read.
fn send(socket: &OwnedFd, message: &Message) -> io::Result<()> {
    let descriptors: Vec<_> = message.descriptors.iter().map(|fd| fd.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("a message has too many descriptors"));
    }
    let sent = rustix::io::retry_on_intr(|| {
        let bytes = [IoSlice::new(&message.bytes)];
        sendmsg(socket, &bytes, &mut control, SendFlags::NOSIGNAL)
    });
    match sent {
        Ok(_) | Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
