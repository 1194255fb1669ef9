//! Bytes by digest: of a layer, a configuration, a manifest.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use release::ImageDigest;
use release::payload::DigestMismatch;
use sha2::{Digest as _, Sha256};

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// A blob on this machine's disk, held against its digest.
#[derive(Clone, Debug)]
pub struct Blob {
    digest: ImageDigest,
    size: u64,
    file: Arc<File>,
}

/// Why a blob is not there.
#[derive(Debug)]
pub(crate) enum ArchiveFault {
    /// The disk is full, or the source ended.
    Io(io::Error),
    /// Other bytes came.
    Mismatch(DigestMismatch),
}

impl From<io::Error> for ArchiveFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Blob {
    /// Keeps these bytes in a file without a name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn of(bytes: &[u8]) -> io::Result<Self> {
        let mut writer = Writer::new()?;
        writer.write_all(bytes)?;
        Ok(writer.finish())
    }

    /// Takes an open file, if it has this digest.
    pub(crate) fn checked(file: File, expected: &ImageDigest) -> Result<Self, ArchiveFault> {
        let file = Arc::new(file);
        let mut hashing = Hashing::new(io::sink());
        let size = io::copy(&mut BlobReader::of(&file), &mut hashing)?;
        held(expected, hashing.digest())?;
        Ok(Self {
            digest: expected.clone(),
            size,
            file,
        })
    }

    pub fn digest(&self) -> &ImageDigest {
        &self.digest
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its bytes, from the first on.
    pub fn reader(&self) -> BlobReader {
        BlobReader::of(&self.file)
    }

    /// All of its bytes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader().read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn chunks(&self) -> impl Iterator<Item = io::Result<bytes::Bytes>> + use<> {
        let mut file = self.reader();
        std::iter::from_fn(move || {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            match (&mut file).take(CHUNK_BYTES as u64).read_to_end(&mut chunk) {
                Ok(0) => None,
                Ok(_) => Some(Ok(chunk.into())),
                Err(error) => Some(Err(error)),
            }
        })
    }
}

/// Reads a blob from its start, beside other readers of it.
#[derive(Debug)]
pub struct BlobReader {
    file: Arc<File>,
    /// Bytes that were read.
    position: u64,
}

impl BlobReader {
    fn of(file: &Arc<File>) -> Self {
        Self {
            file: Arc::clone(file),
            position: 0,
        }
    }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

fn held(expected: &ImageDigest, found: ImageDigest) -> Result<(), ArchiveFault> {
    if found == *expected {
        return Ok(());
    }
    Err(ArchiveFault::Mismatch(DigestMismatch {
        expected: expected.clone(),
        found,
    }))
}

#[derive(Debug)]
pub(crate) struct Writer(Hashing<File>);

impl Writer {
    /// Into a file without a name.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Hashing::new(tempfile::tempfile()?)))
    }

    /// What was written, under the digest that it has.
    pub(crate) fn finish(self) -> Blob {
        Blob {
            digest: self.0.digest(),
            size: self.0.count,
            file: Arc::new(self.0.inner),
        }
    }

    /// What was written, if it has this digest.
    pub(crate) fn finish_as(self, expected: &ImageDigest) -> Result<Blob, ArchiveFault> {
        let blob = self.finish();
        held(expected, blob.digest.clone())?;
        Ok(blob)
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Passes bytes on, and hashes them.
#[derive(Debug)]
pub(crate) struct Hashing<W> {
    pub(crate) inner: W,
    hash: Sha256,
    count: u64,
}

impl<W> Hashing<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            count: 0,
        }
    }

    pub(crate) fn digest(&self) -> ImageDigest {
        ImageDigest::from_sha256(&self.hash.clone().finalize())
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..count).unwrap_or_default());
        self.count += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_whole_and_in_pieces() {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let blob = Blob::of(&bytes).unwrap();
        assert_eq!(blob.digest(), &ImageDigest::of(&bytes));
        assert_eq!(blob.size(), 3_000_000);
        assert_eq!(blob.bytes().unwrap(), bytes);
        let chunks: io::Result<Vec<_>> = blob.chunks().collect();
        assert_eq!(chunks.unwrap().concat(), bytes);
    }

    #[test]
    fn other_bytes_are_refused() {
        let right = ImageDigest::of(b"right");
        let mut writer = Writer::new().unwrap();
        writer.write_all(b"wrong").unwrap();
        assert!(matches!(
            writer.finish_as(&right),
            Err(ArchiveFault::Mismatch(_))
        ));
        let file = |bytes| Arc::into_inner(Blob::of(bytes).unwrap().file).unwrap();
        assert!(matches!(
            Blob::checked(file(b"wrong"), &right),
            Err(ArchiveFault::Mismatch(_))
        ));
        assert_eq!(
            Blob::checked(file(b"right"), &right)
                .unwrap()
                .bytes()
                .unwrap(),
            b"right"
        );
    }
}
