//! One body of a response, stored as gzip.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use release::ImageDigest;
use update_graph::annotated::SilencedEdge;

#[derive(Clone, Debug)]
pub struct PackedBody {
    /// Packed by gzip.
    pub gzip: Bytes,
    /// Digits of the SHA-256 of what is packed: equal bodies have equal ones.
    pub tag: String,
    /// Bytes of what is packed.
    pub length: usize,
    /// Updates of the channel that are blocked silently.
    pub silenced: Vec<SilencedEdge>,
}

impl PackedBody {
    pub(crate) fn new(bytes: &[u8], silenced: Vec<SilencedEdge>) -> std::io::Result<Self> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes)?;
        let mut packed = encoder.finish()?;
        packed.shrink_to_fit();
        Ok(Self {
            gzip: packed.into(),
            tag: ImageDigest::of(bytes).hex().chars().take(32).collect(),
            length: bytes.len(),
            silenced,
        })
    }

    /// What is packed.
    ///
    /// # Errors
    /// Never for what this program has packed.
    pub fn unpack(&self) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.length);
        GzDecoder::new(self.gzip.as_ref()).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}
