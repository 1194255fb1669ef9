//! The OS's own version of a file of `/etc`.

use node_update::plan::{Mode, OwnerIds};

use super::Result;
use super::path::{Location, PathScope};
use super::root::{Found, Root};
use super::write::Content;

impl Root {
    /// The path of the OS's version of a location; `None` outside `/etc`.
    ///
    /// # Errors
    /// Those of [`Self::locate`].
    pub fn shipped(&self, at: &Location) -> Result<Option<Location>> {
        if at.scope() != PathScope::Deployment {
            return Ok(None);
        }
        // Links below `/usr` are not resolved: those of `/etc` may differ from those of the OS.
        Ok(Some(self.locate("/usr")?.below(at.relative())))
    }

    /// Releases a location to the OS: restores the shipped version (bytes, mode, owner,
    /// attributes), or removes the file if none is shipped. Empty parents that the OS does not ship
    /// are removed too.
    ///
    /// # Errors
    /// Those of reading and writing; a shipped directory or device is left unchanged.
    pub fn release(&self, at: &Location) -> Result<()> {
        let Some(shipped) = self.shipped(at)? else {
            return self.remove(at);
        };
        match self.look(&shipped)? {
            Found::File { bytes, mode, owner } => {
                let content = Content {
                    bytes: &bytes,
                    mode,
                    owner,
                };
                self.replace_with(at, content, &self.attributes(&shipped)?)
            }
            Found::Link(target) => self.symlink(at, &target),
            Found::Nothing => {
                self.remove(at)?;
                for directory in self.disposable_parents(at)? {
                    if !self.remove_empty_directory(&directory)? {
                        break;
                    }
                }
                Ok(())
            }
            Found::Directory { .. } | Found::Other => Ok(()),
        }
    }

    /// Parents of a location that may be removed once empty, innermost first: not shipped by the
    /// OS, and of default mode and owner, so that they can be made again.
    ///
    /// # Errors
    /// Those of reading.
    pub fn disposable_parents(&self, at: &Location) -> Result<Vec<Location>> {
        let plain = Found::Directory {
            mode: Mode(0o755),
            owner: OwnerIds::ROOT,
        };
        let mut disposable = Vec::new();
        let mut parent = at.parent();
        while let Some(directory) = parent {
            if directory.scope() != PathScope::Deployment || directory.as_str() == "/etc" {
                break;
            }
            let Some(shipped) = self.shipped(&directory)? else {
                break;
            };
            if self.look(&shipped)? != Found::Nothing || self.look(&directory)? != plain {
                break;
            }
            parent = directory.parent();
            disposable.push(directory);
        }
        Ok(disposable)
    }
}
