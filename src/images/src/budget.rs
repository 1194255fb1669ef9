//! What unpacking an image may cost. A layer of some kilobytes may unpack to any number of bytes,
//! entries and names, so that each of them has a limit.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of one stored layer. The largest layers of OS images have some 2 GB.
pub const LAYER_BYTES: u64 = 16 << 30;

/// Bytes that all layers of an image unpack to. OS images have less than 10 GB.
pub const UNPACKED_BYTES: u64 = 64 << 30;

/// Entries of all layers of an image. OS images have some 300,000.
pub const ENTRIES: u64 = 4_000_000;

/// Bytes of a path or of a link's target: `PATH_MAX` of Linux.
pub const NAME_BYTES: usize = 4096;

/// Bytes of all headers of one entry: long names, and records of attributes, of which each may
/// have 64 KiB.
pub const HEAD_BYTES: u64 = 1 << 20;

/// Bytes of all paths that are remembered while layers are put over each other. Those of an OS
/// image take some 30 MB.
pub const PATHS_BYTES: u64 = 128 << 20;

/// Bytes of memory that a remembered path takes beside its text.
const PATH_COST: u64 = 64;

/// Bytes of all files of a directory that is read into memory. The manifests of a release take some
/// 30 MB.
pub const FILES_BYTES: u64 = 512 << 20;

/// Limits of the work on one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Bytes of one layer, as it is stored.
    pub layer_bytes: u64,
    /// Bytes that the layers unpack to, whether or not they are kept.
    pub unpacked_bytes: u64,
    /// Entries of the layers.
    pub entries: u64,
    /// Bytes of remembered paths.
    pub paths_bytes: u64,
    /// Bytes of files that are kept, on disk or in memory.
    pub kept_bytes: u64,
}

impl BudgetLimits {
    /// Of an image whose files are written to a directory that a person names.
    pub const TO_DISK: Self = Self {
        layer_bytes: LAYER_BYTES,
        unpacked_bytes: UNPACKED_BYTES,
        entries: ENTRIES,
        paths_bytes: PATHS_BYTES,
        kept_bytes: UNPACKED_BYTES,
    };

    /// Of an image some of whose files are read into memory.
    pub const TO_MEMORY: Self = Self {
        kept_bytes: FILES_BYTES,
        ..Self::TO_DISK
    };
}

/// Which limit the work would exceed. Each names the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    #[error("a layer is larger than {0} bytes")]
    Layer(u64),
    /// The configuration is read into memory whole.
    #[error("its configuration is larger than {0} bytes")]
    Configuration(u64),
    #[error("it unpacks to more than {0} bytes")]
    Unpacked(u64),
    #[error("it has more than {0} entries")]
    Entries(u64),
    #[error("its paths take more than {0} bytes")]
    Paths(u64),
    #[error("its files take more than {0} bytes")]
    Kept(u64),
    #[error("an entry has a name of more than {0} bytes")]
    Name(usize),
    #[error("an entry has headers of more than {0} bytes")]
    Head(u64),
    /// The result is no longer waited for.
    #[error("unpacking was cancelled")]
    Cancelled,
}

impl Excess {
    /// The excess that an error of reading is, if it is one.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<Excess> for io::Error {
    fn from(excess: Excess) -> Self {
        Self::other(excess)
    }
}

/// What of its limits the work on one image has used.
#[derive(Debug)]
pub struct Budget {
    limits: BudgetLimits,
    unpacked: Cell<u64>,
    entries: Cell<u64>,
    paths: Cell<u64>,
    kept: Cell<u64>,
    /// What is left for the headers of an entry while they are read.
    head: Cell<Option<u64>>,
    is_cancelled: Arc<AtomicBool>,
}

/// Ends the work of a budget when it is dropped: at its end, or before, when a deadline drops the
/// future that waits for it.
#[derive(Debug)]
pub(crate) struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Budget {
    /// Nothing used yet.
    pub fn new(limits: BudgetLimits) -> Self {
        Self {
            limits,
            unpacked: Cell::default(),
            entries: Cell::default(),
            paths: Cell::default(),
            kept: Cell::default(),
            head: Cell::default(),
            is_cancelled: Arc::default(),
        }
    }

    pub(crate) const fn limits(&self) -> &BudgetLimits {
        &self.limits
    }

    pub(crate) fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(Arc::clone(&self.is_cancelled))
    }

    /// Whether the work goes on.
    pub(crate) fn check(&self) -> Result<(), Excess> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            return Err(Excess::Cancelled);
        }
        Ok(())
    }

    /// Bytes came out of a layer.
    pub(crate) fn use_unpacked(&self, count: u64) -> Result<(), Excess> {
        let limit = self.limits.unpacked_bytes;
        add(&self.unpacked, count, limit, Excess::Unpacked)
    }

    pub(crate) fn use_entry(&self) -> Result<(), Excess> {
        add(&self.entries, 1, self.limits.entries, Excess::Entries)
    }

    pub(crate) fn use_path(&self, path: &str) -> Result<(), Excess> {
        let cost = path.len() as u64 + PATH_COST;
        add(&self.paths, cost, self.limits.paths_bytes, Excess::Paths)
    }

    /// Bytes are kept.
    pub(crate) fn use_kept(&self, count: u64) -> Result<(), Excess> {
        add(&self.kept, count, self.limits.kept_bytes, Excess::Kept)
    }

    pub(crate) fn begin_head(&self) {
        self.head.set(Some(HEAD_BYTES));
    }

    pub(crate) fn end_head(&self) {
        self.head.set(None);
    }

    /// Bytes were read that are headers, if headers are read now.
    pub(crate) fn use_head(&self, count: u64) -> Result<(), Excess> {
        let Some(left) = self.head.get() else {
            return Ok(());
        };
        let left = left.checked_sub(count).ok_or(Excess::Head(HEAD_BYTES))?;
        self.head.set(Some(left));
        self.use_unpacked(count)
    }
}

fn add(used: &Cell<u64>, count: u64, limit: u64, excess: fn(u64) -> Excess) -> Result<(), Excess> {
    let sum = used.get().saturating_add(count);
    used.set(sum);
    if sum > limit {
        Err(excess(limit))
    } else {
        Ok(())
    }
}
