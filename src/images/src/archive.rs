//! The entries of a tar archive, read within a budget.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tar::EntryType;

use crate::budget::{Budget, Excess, NAME_BYTES};

/// Why an archive was not read to its end.
#[derive(Debug)]
pub enum ArchiveFault<E> {
    /// It cannot be read, or exceeds its budget.
    Read(io::Error),
    /// What takes its entries failed.
    Take(E),
}

/// An entry of an archive; its content is read from it.
pub struct ArchiveMember<'a, 'b> {
    entry: tar::Entry<'a, Source<'b>>,
    budget: &'b Budget,
}

/// The archive's bytes. What is read of them while headers are wanted is counted here, and the
/// content of an entry where it is read, so that the holes of a sparse file count too.
struct Source<'b> {
    inner: &'b mut dyn Read,
    budget: &'b Budget,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.budget.check()?;
        let count = self.inner.read(buffer)?;
        self.budget.use_head(count as u64)?;
        Ok(count)
    }
}

impl Read for ArchiveMember<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.budget.check()?;
        let count = self.entry.read(buffer)?;
        self.budget.use_unpacked(count as u64)?;
        Ok(count)
    }
}

impl ArchiveMember<'_, '_> {
    pub fn kind(&self) -> EntryType {
        self.entry.header().entry_type()
    }

    /// Its mode.
    ///
    /// # Errors
    /// The field is no number.
    pub fn mode(&self) -> io::Result<u32> {
        self.entry.header().mode()
    }

    /// Where a link leads.
    ///
    /// # Errors
    /// It is no path.
    pub fn link(&self) -> io::Result<Option<PathBuf>> {
        Ok(self.entry.link_name()?.map(std::borrow::Cow::into_owned))
    }
}

impl std::fmt::Debug for ArchiveMember<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArchiveMember")
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}

/// Goes through an archive's entries, in their order. What `take` does not read of an entry is
/// passed over.
///
/// # Errors
/// [`ArchiveFault`]. An excess of the budget is a fault of reading.
pub fn each<E>(
    reader: &mut dyn Read,
    budget: &Budget,
    mut take: impl FnMut(&Path, &mut ArchiveMember<'_, '_>) -> Result<(), E>,
) -> Result<(), ArchiveFault<E>> {
    let mut archive = tar::Archive::new(Source {
        inner: reader,
        budget,
    });
    let mut entries = archive.entries().map_err(ArchiveFault::Read)?;
    loop {
        budget.begin_head();
        let next = entries.next();
        budget.end_head();
        let Some(next) = next else {
            return Ok(());
        };
        let entry = next.map_err(ArchiveFault::Read)?;
        let excess = |excess: Excess| ArchiveFault::Read(excess.into());
        budget.use_entry().map_err(excess)?;
        let path = entry.path().map_err(ArchiveFault::Read)?.into_owned();
        let link = entry.link_name_bytes().map_or(0, |link| link.len());
        if path.as_os_str().len().max(link) > NAME_BYTES {
            return Err(excess(Excess::Name(NAME_BYTES)));
        }
        let mut member = ArchiveMember { entry, budget };
        take(&path, &mut member).map_err(ArchiveFault::Take)?;
        // To its end, so that what is read next is nothing but headers.
        io::copy(&mut member, &mut io::sink()).map_err(ArchiveFault::Read)?;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tar::{Builder, Header};

    use super::*;
    use crate::budget::{BudgetLimits, HEAD_BYTES};

    const LIMITS: BudgetLimits = BudgetLimits {
        layer_bytes: 0,
        unpacked_bytes: 4 << 20,
        entries: 3,
        paths_bytes: 0,
        kept_bytes: 0,
    };

    fn file(archive: &mut Builder<Vec<u8>>, path: &str, size: usize) {
        let mut header = Header::new_gnu();
        header.set_size(size as u64);
        header.set_mode(0o644);
        let content = vec![b'a'; size];
        archive
            .append_data(&mut header, path, content.as_slice())
            .unwrap();
    }

    /// A header of this kind in front of an entry, as long names and attributes have it.
    fn extension(archive: &mut Builder<Vec<u8>>, kind: EntryType, size: usize) {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size as u64);
        header.set_cksum();
        archive
            .append(&header, vec![b'a'; size].as_slice())
            .unwrap();
        file(archive, "a", 1);
    }

    /// A file of one block that says to have 1 GiB.
    fn sparse(archive: &mut Builder<Vec<u8>>) {
        let mut header = Header::new_gnu();
        let gnu = header.as_gnu_mut().unwrap();
        gnu.name[0] = b'a';
        gnu.set_real_size(1 << 30);
        gnu.sparse[0].set_offset((1 << 30) - 512);
        gnu.sparse[0].set_length(512);
        header.set_entry_type(EntryType::GNUSparse);
        header.set_mode(0o644);
        header.set_size(512);
        header.set_cksum();
        archive.append(&header, [0; 512].as_slice()).unwrap();
    }

    fn names(bytes: &[u8], budget: &Budget) -> Result<Vec<String>, Option<Excess>> {
        let mut names = Vec::new();
        let mut bytes = bytes;
        let done = each(&mut bytes, budget, |path, _| {
            names.push(path.display().to_string());
            Ok::<_, Infallible>(())
        });
        match done {
            Ok(()) => Ok(names),
            Err(ArchiveFault::Read(error)) => Err(Excess::of(&error)),
        }
    }

    fn packed(write: impl FnOnce(&mut Builder<Vec<u8>>)) -> Vec<u8> {
        let mut archive = Builder::new(Vec::new());
        write(&mut archive);
        archive.into_inner().unwrap()
    }

    fn read(write: impl FnOnce(&mut Builder<Vec<u8>>)) -> Result<Vec<String>, Option<Excess>> {
        names(&packed(write), &Budget::new(LIMITS))
    }

    #[test]
    fn an_archive_within_its_budget_is_read_whole() {
        let long = "d/".repeat(1000) + "f";
        let read = read(|archive| {
            file(archive, "a", 1000);
            file(archive, &long, 2 << 20);
            file(archive, "b", 0);
        });
        assert_eq!(read.unwrap(), ["a", &long, "b"]);
    }

    #[test]
    fn each_limit_ends_the_reading_and_names_itself() {
        let head = usize::try_from(HEAD_BYTES).unwrap();
        for (excess, result) in [
            (
                Excess::Entries(3),
                read(|archive| (0..4).for_each(|_| file(archive, "a", 0))),
            ),
            (
                Excess::Unpacked(4 << 20),
                read(|archive| file(archive, "a", (4 << 20) + 1)),
            ),
            (Excess::Unpacked(4 << 20), read(sparse)),
            (
                Excess::Name(NAME_BYTES),
                read(|archive| extension(archive, EntryType::GNULongName, NAME_BYTES + 1)),
            ),
            (
                Excess::Name(NAME_BYTES),
                read(|archive| extension(archive, EntryType::GNULongLink, NAME_BYTES + 1)),
            ),
            (
                Excess::Head(HEAD_BYTES),
                read(|archive| extension(archive, EntryType::GNULongName, head)),
            ),
            (
                Excess::Head(HEAD_BYTES),
                read(|archive| extension(archive, EntryType::XHeader, head)),
            ),
        ] {
            assert_eq!(result.unwrap_err(), Some(excess));
        }
    }

    #[test]
    fn work_that_is_not_waited_for_ends_between_two_entries() {
        let bytes = packed(|archive| {
            file(archive, "a", 1);
            file(archive, "b", 1);
        });
        let budget = Budget::new(LIMITS);
        let mut cancel = Some(budget.cancel_on_drop());
        let mut taken = 0;
        let done = each(&mut bytes.as_slice(), &budget, |_, _| {
            taken += 1;
            // As a deadline does.
            drop(cancel.take());
            Ok::<_, Infallible>(())
        });
        let Err(ArchiveFault::Read(error)) = done else {
            unreachable!("{done:?}");
        };
        assert_eq!((Excess::of(&error), taken), (Some(Excess::Cancelled), 1));
    }
}
