//! Observes the prior state of paths, and restores it.

use std::collections::BTreeMap;

use node_update::plan::{Digest, FileState, Prior};
use rustix::io::Errno;
use tracing::warn;

use super::Error;
use super::path::Location;
use super::root::{Found, Root};
use super::write::Content;

impl Root {
    /// Observes the entry at a location, its missing parents, and those that may be removed with
    /// it, so that [`Self::restore`] restores exactly that state.
    ///
    /// `keep` must have stored the content of a file durably when it returns.
    ///
    /// # Errors
    /// Those of reading and of `keep`; [`Error::Path`] for a directory or device, which no step
    /// replaces.
    pub fn observe<E: From<Error>>(
        &self,
        at: &Location,
        priors: &mut BTreeMap<String, Prior>,
        keep: &mut impl FnMut(&Digest, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        for missing in self.missing_parents(at)? {
            priors.insert(missing.to_string(), Prior::Absent);
        }
        for directory in self.disposable_parents(at)? {
            if let Found::Directory { mode, owner } = self.look(&directory)? {
                priors.insert(directory.to_string(), Prior::Directory { mode, owner });
            }
        }
        let prior = match self.look(at)? {
            Found::Nothing => Prior::Absent,
            Found::File { bytes, mode, owner } => {
                let digest = Digest::of(&bytes);
                keep(&digest, &bytes)?;
                Prior::File {
                    state: FileState {
                        digest,
                        mode,
                        owner,
                    },
                    attributes: self.attributes(at)?,
                }
            }
            Found::Link(target) => Prior::Link { target },
            Found::Directory { .. } | Found::Other => {
                return Err(Error::Path {
                    path: at.to_string(),
                    why: "is neither a file nor a link",
                }
                .into());
            }
        };
        priors.insert(at.to_string(), prior);
        Ok(())
    }

    /// Restores locations, innermost first, so that directories that did not exist are empty when
    /// they are removed. Directories with entries of other programs stay.
    ///
    /// No link is followed: a parent that became one since it was observed leads elsewhere. What is
    /// no longer where it was is left, with a warning; the owner of a directory must not be able to
    /// keep an undo from its end.
    ///
    /// # Errors
    /// Those of writing and of `blob`, which reads a kept content.
    pub fn restore<E: From<Error>>(
        &self,
        priors: &BTreeMap<String, Prior>,
        blob: &mut impl FnMut(&Digest) -> std::result::Result<Vec<u8>, E>,
    ) -> std::result::Result<(), E> {
        for (path, prior) in priors.iter().rev() {
            let at = Location::of_resolved(path)?;
            if !self.can_restore(&at, prior)? {
                warn!(
                    path,
                    "its directory was replaced since it was observed: not restored"
                );
                continue;
            }
            match prior {
                Prior::Absent => match self.look(&at)? {
                    Found::Directory { .. } => {
                        self.remove_empty_directory(&at)?;
                    }
                    Found::Nothing | Found::File { .. } | Found::Link(_) | Found::Other => {
                        self.remove(&at)?;
                    }
                },
                Prior::File { state, attributes } => {
                    let bytes = blob(&state.digest)?;
                    let content = Content {
                        bytes: &bytes,
                        mode: state.mode,
                        owner: state.owner,
                    };
                    self.replace_with(&at, content, attributes)?;
                }
                Prior::Link { target } => self.symlink(&at, target)?,
                Prior::Directory { mode, owner } => {
                    self.make_directory(&at, *mode, *owner)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the parents of a location are directories still, or missing, and the location has
    /// no directory where a file was, and no file where a directory was.
    fn can_restore(&self, at: &Location, prior: &Prior) -> Result<bool, Error> {
        let mut parent = at.parent();
        while let Some(directory) = parent {
            match self.open_directory_at(directory.as_str()) {
                Ok(_) => break,
                Err(Errno::NOENT) => parent = directory.parent(),
                Err(Errno::LOOP | Errno::NOTDIR) => return Ok(false),
                Err(error) => {
                    return Err(Error::Read {
                        path: directory.to_string(),
                        source: error.into(),
                    });
                }
            }
        }
        let is_directory = match self.look(at)? {
            Found::Nothing => return Ok(true),
            Found::Directory { .. } => true,
            Found::File { .. } | Found::Link(_) | Found::Other => false,
        };
        Ok(match prior {
            Prior::Absent => true,
            Prior::Directory { .. } => is_directory,
            Prior::File { .. } | Prior::Link { .. } => {
                !is_directory || self.remove_empty_directory(at)?
            }
        })
    }
}
