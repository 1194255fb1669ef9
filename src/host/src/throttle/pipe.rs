//! One pipe: what is read from one end is written to another, as fast as the gate lets it pass.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use super::gate::Gate;
use super::pace::Pace;

/// Bytes that are read at once: what one pipe of the kernel holds.
const CHUNK: usize = 64 << 10;

/// Most bytes that are read, and dropped, after the reader has closed its end.
///
/// A reader of an archive stops at the archive's end. A layer of the form zstd:chunked has the
/// index of its chunks behind that, and skopeo proves a layer's digest once all is read. The index
/// of an OS has some MiB.
pub(super) const TAIL: usize = 64 << 20;

/// Copies until the end. Once the reader has closed its end, no more than [`TAIL`] follow. Both
/// ends are closed then: the reader finds the end, and a writer with more that it has no reader.
pub(super) fn copy<P: Pace>(mut from: File, mut to: File, gate: &Gate<P>) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut dropped = None;
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut left = buffer.get(..length).unwrap_or_default();
        if dropped.is_some_and(|dropped| dropped > TAIL) {
            return Ok(());
        }
        while !left.is_empty() {
            let (now, later) = left
                .split_at_checked(gate.pass(left.len()))
                .unwrap_or((left, &[]));
            left = later;
            if let Some(dropped) = &mut dropped {
                *dropped += now.len();
                continue;
            }
            match to.write_all(now) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    dropped = Some(now.len());
                }
                written => written?,
            }
        }
    }
}
