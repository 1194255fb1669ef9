//! What changed in the origin's `/etc` after the target's was merged from it. It does not come along; whoever changed it is told.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use node_update::plan::{Action, Plan};

use crate::execute::record;

/// How deep directories may lie in each other: `/etc` has no loops, and nobody nests like that.
const DEPTH_MAX: usize = 64;

/// A target's `/etc`, and the origin's that it was merged from.
#[derive(Debug)]
pub struct Merge<'a> {
    /// Directory of the deployment that was left.
    pub origin: &'a Path,
    /// Directory of the deployment that was made.
    pub target: &'a Path,
    /// When it was merged, or a moment before.
    pub at: SystemTime,
    /// What was done to the target's `/etc` after the merge.
    pub plan: &'a Plan,
}

impl Merge<'_> {
    /// Files and links whose content, mode or owner changed in the origin since, and those that were removed there, as paths from `/`, in
    /// order.
    ///
    /// What was removed is still in the target, though the directory it was in changed since, and neither the target's OS nor the
    /// plan brought it.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn late(&self) -> io::Result<Late> {
        let mut late = Late::default();
        walk(&self.origin.join("etc"), "/etc", 0, &mut |path, stat| {
            if !stat.is_dir() && changed_at(stat).is_some_and(|at| at >= self.at) {
                late.changed.push(path.to_owned());
            }
        })?;
        let brought = Brought::by(self.plan);
        let written = fs::metadata(self.target.join(relative(record::CONFIG)))?.modified()?;
        walk(&self.target.join("etc"), "/etc", 0, &mut |path, stat| {
            let is_later = stat.is_dir() || changed_at(stat).is_none_or(|at| at > written);
            if !is_later && !brought.contains(path) && self.is_removed(path) {
                late.removed.push(path.to_owned());
            }
        })?;
        late.changed.sort();
        late.removed.sort();
        Ok(late)
    }

    fn is_removed(&self, path: &str) -> bool {
        let is_in = |deployment: &Path, path: &str| {
            fs::symlink_metadata(deployment.join(relative(path))).is_ok()
        };
        let shipped = format!("/usr{path}");
        let is_new = is_in(self.target, &shipped) && !is_in(self.origin, &shipped);
        !is_in(self.origin, path) && !is_new && self.has_changed_directory(path)
    }

    /// Whether the directory of a path, or the nearest that is still there, had entries made or removed.
    fn has_changed_directory(&self, path: &str) -> bool {
        let nearest = Path::new(path)
            .ancestors()
            .skip(1)
            .find_map(|above| fs::symlink_metadata(self.origin.join(relative(above))).ok());
        nearest.is_some_and(|stat| changed_at(&stat).is_some_and(|at| at >= self.at))
    }
}

/// What changed late.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// What was written.
    pub changed: Vec<String>,
    /// What was removed, and is in the target all the same.
    pub removed: Vec<String>,
}

/// What a plan puts into an `/etc`: paths, and units, whose links have their names.
struct Brought<'a> {
    paths: BTreeSet<&'a str>,
    units: BTreeSet<&'a str>,
}

impl<'a> Brought<'a> {
    fn by(plan: &'a Plan) -> Self {
        let (mut paths, mut units) = (BTreeSet::new(), BTreeSet::new());
        for step in &plan.steps {
            match &step.action {
                Action::WriteFile { path, .. } | Action::ReleaseFile { path } => {
                    paths.insert(path.as_str());
                }
                Action::MaskUnit { unit }
                | Action::UnmaskUnit { unit }
                | Action::EnableUnit { unit }
                | Action::KeepUnitEnabled { unit }
                | Action::DisableUnit { unit }
                | Action::PresetUnit { unit } => {
                    units.insert(unit.as_str());
                }
                Action::WriteAuthorizedKeys { .. }
                | Action::SetPassword { .. }
                | Action::DaemonReload
                | Action::RestartUnit { .. }
                | Action::ReloadUnit { .. } => {}
            }
        }
        Self { paths, units }
    }

    fn contains(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.paths.contains(path)
            || self.units.contains(name)
            || [record::CONFIG, record::IMAGE].contains(&path)
    }
}

fn relative(path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    path.strip_prefix("/").unwrap_or(path).to_owned()
}

/// Shows all below `directory`, which is shown as `shown`.
fn walk(
    directory: &Path,
    shown: &str,
    depth: usize,
    show: &mut dyn FnMut(&str, &fs::Metadata),
) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let shown = format!("{shown}/{}", entry.file_name().display());
        let stat = match entry.metadata() {
            // Gone since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            stat => stat?,
        };
        show(&shown, &stat);
        if stat.is_dir() && depth < DEPTH_MAX {
            walk(&entry.path(), &shown, depth + 1, show)?;
        }
    }
    Ok(())
}

/// When content, mode or owner last changed; none before 1970.
fn changed_at(stat: &fs::Metadata) -> Option<SystemTime> {
    let seconds = u64::try_from(stat.ctime()).ok()?;
    let nanoseconds = u32::try_from(stat.ctime_nsec()).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(std::time::Duration::new(seconds, nanoseconds))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use node_update::plan::Route;

    use super::*;
    use crate::journal::tests::bundle;

    /// Two deployments after a merge.
    fn merged() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for path in ["etc/early", "etc/kept", "etc/deep/gone", "etc/deep/er/gone"] {
            put(dir.path(), &format!("origin/{path}"));
            put(dir.path(), &format!("target/{path}"));
        }
        symlink("/dev/null", dir.path().join("origin/etc/link")).unwrap();
        symlink("/dev/null", dir.path().join("target/etc/link")).unwrap();
        // Came with the OS.
        put(dir.path(), "target/usr/etc/deep/new");
        put(dir.path(), "target/etc/deep/new");
        // Made by the plan.
        put(dir.path(), "target/etc/deep/mine");
        put(dir.path(), "target/etc/deep/web.service");
        put(dir.path(), &format!("target{}", record::CONFIG));
        dir
    }

    fn put(dir: &Path, path: &str) {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::File::create(path).unwrap();
    }

    fn late(dir: &Path, at: SystemTime) -> Late {
        let mine = Action::ReleaseFile {
            path: "/etc/deep/mine".to_owned(),
        };
        let enabled = Action::EnableUnit {
            unit: "web.service".to_owned(),
        };
        let plan = bundle(Route::Reboot, vec![(mine, None), (enabled, None)]).plan;
        Merge {
            origin: &dir.join("origin"),
            target: &dir.join("target"),
            at,
            plan: &plan,
        }
        .late()
        .unwrap()
    }

    /// Waits for the file system's clock, which moves in steps.
    fn tick(dir: &Path) -> SystemTime {
        let stamp = || {
            put(dir, "clock");
            changed_at(&fs::metadata(dir.join("clock")).unwrap()).unwrap()
        };
        let began = stamp();
        loop {
            let now = stamp();
            if now > began {
                return now;
            }
        }
    }

    #[test]
    fn nothing_is_late_where_nothing_changed() {
        let dir = merged();
        let at = tick(dir.path());
        assert_eq!(late(dir.path(), at), Late::default());
    }

    #[test]
    fn what_was_written_or_removed_later_is_named() {
        let dir = merged();
        let at = tick(dir.path());
        put(dir.path(), "origin/etc/deep/late");
        fs::remove_file(dir.path().join("origin/etc/deep/gone")).unwrap();
        fs::remove_file(dir.path().join("origin/etc/link")).unwrap();
        fs::remove_dir_all(dir.path().join("origin/etc/deep/er")).unwrap();
        // Made by the target's boot.
        put(dir.path(), "target/etc/deep/booted");
        let late = late(dir.path(), at);
        assert_eq!(late.changed, ["/etc/deep/late"]);
        assert_eq!(
            late.removed,
            ["/etc/deep/er/gone", "/etc/deep/gone", "/etc/link"]
        );
    }
}
