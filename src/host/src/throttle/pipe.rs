//! One pipe: what is read from one end is written to another, as fast as the gate lets it pass.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use super::gate::{Gate, Pace};

/// Bytes that are read at once: what one pipe of the kernel holds.
const CHUNK: usize = 64 << 10;

/// Copies until the end, or until the reader has closed its end. Both ends are closed then: the
/// reader finds the end, and the writer that it has no reader.
pub(super) fn copy<P: Pace>(mut from: File, mut to: File, gate: &Gate<P>) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut left = buffer.get(..length).unwrap_or_default();
        while !left.is_empty() {
            let (now, later) = left
                .split_at_checked(gate.pass(left.len()))
                .unwrap_or((left, &[]));
            match to.write_all(now) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                written => written?,
            }
            left = later;
        }
    }
}
