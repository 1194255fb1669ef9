//! Changes of the origin's `/etc` after the target's `/etc` was merged from it. The target does not
//! have them; the guard logs their paths.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use node_update::plan::{Action, Plan};

use crate::record;

/// Limit of nested directories; a real `/etc` has far fewer levels.
const DEPTH_MAX: usize = 64;

/// A target's `/etc`, and the origin's that it was merged from.
#[derive(Debug)]
pub struct Merge<'a> {
    /// Directory of the origin's deployment.
    pub origin: &'a Path,
    /// Directory of the target's deployment.
    pub target: &'a Path,
    /// The time of the merge, or shortly before it.
    pub at: SystemTime,
    /// When the target's first boot began.
    pub booted: SystemTime,
    /// The plan that changed the target's `/etc` after the merge.
    pub plan: &'a Plan,
}

impl Merge<'_> {
    /// Files and links whose content, mode or owner changed in the origin since the merge, and
    /// those that were removed there, as sorted absolute paths.
    ///
    /// A path counts as removed if the target still has it, its directory in the origin changed
    /// since the merge, and neither the target's OS nor the plan added it.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn changes_since_merge(&self) -> io::Result<ChangesSinceMerge> {
        let mut changes = ChangesSinceMerge::default();
        walk(&self.origin.join("etc"), "/etc", 0, &mut |path, stat| {
            if !stat.is_dir() && changed_at(stat).is_some_and(|at| at >= self.at) {
                changes.changed.push(path.to_owned());
            }
        })?;
        let planned = PlanPaths::of(self.plan);
        let written = self.written()?;
        walk(&self.target.join("etc"), "/etc", 0, &mut |path, stat| {
            let is_later = stat.is_dir() || changed_at(stat).is_none_or(|at| at > written);
            if !is_later && !planned.contains(path) && self.is_removed(path) {
                changes.removed.push(path.to_owned());
            }
        })?;
        changes.changed.sort();
        changes.removed.sort();
        Ok(changes)
    }

    /// When the target's `/etc` was complete: its record is written last. A host that no cluster
    /// has configured has none.
    fn written(&self) -> io::Result<SystemTime> {
        match fs::metadata(self.target.join(relative(record::CONFIG))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(self.booted),
            stat => stat?.modified(),
        }
    }

    fn is_removed(&self, path: &str) -> bool {
        let is_in = |deployment: &Path, path: &str| {
            fs::symlink_metadata(deployment.join(relative(path))).is_ok()
        };
        let shipped = format!("/usr{path}");
        let is_new = is_in(self.target, &shipped) && !is_in(self.origin, &shipped);
        !is_in(self.origin, path) && !is_new && self.has_changed_directory(path)
    }

    /// Whether entries were added to or removed from the directory of a path, or of its nearest
    /// existing ancestor.
    fn has_changed_directory(&self, path: &str) -> bool {
        let nearest = Path::new(path)
            .ancestors()
            .skip(1)
            .find_map(|above| fs::symlink_metadata(self.origin.join(relative(above))).ok());
        nearest.is_some_and(|stat| changed_at(&stat).is_some_and(|at| at >= self.at))
    }
}

/// Paths of the origin's `/etc` that changed after the merge.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ChangesSinceMerge {
    /// Written paths.
    pub changed: Vec<String>,
    /// Removed paths that the target still has.
    pub removed: Vec<String>,
}

/// What a plan changes in `/etc`: paths, and units, whose links have the units' names.
struct PlanPaths<'a> {
    paths: BTreeSet<&'a str>,
    units: BTreeSet<&'a str>,
}

impl<'a> PlanPaths<'a> {
    fn of(plan: &'a Plan) -> Self {
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

/// Calls `show` for every entry below `directory`, whose paths begin with `shown`.
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
            // Removed since it was listed.
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

/// When content, mode or owner last changed; `None` before 1970.
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

    /// Two deployments right after a merge.
    fn merged() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for path in ["etc/early", "etc/kept", "etc/deep/gone", "etc/deep/er/gone"] {
            put(dir.path(), &format!("origin/{path}"));
            put(dir.path(), &format!("target/{path}"));
        }
        symlink("/dev/null", dir.path().join("origin/etc/link")).unwrap();
        symlink("/dev/null", dir.path().join("target/etc/link")).unwrap();
        // Shipped by the OS.
        put(dir.path(), "target/usr/etc/deep/new");
        put(dir.path(), "target/etc/deep/new");
        // Written by the plan.
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

    fn changes(dir: &Path, at: SystemTime) -> ChangesSinceMerge {
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
            booted: at,
            plan: &plan,
        }
        .changes_since_merge()
        .unwrap()
    }

    /// Waits until the file system's clock advances; it moves in steps.
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
    fn an_unchanged_etc_has_no_changes_since_the_merge() {
        let dir = merged();
        let at = tick(dir.path());
        assert_eq!(changes(dir.path(), at), ChangesSinceMerge::default());
    }

    #[test]
    fn a_target_without_a_record_was_complete_before_its_first_boot() {
        let dir = merged();
        fs::remove_file(dir.path().join("target").join(relative(record::CONFIG))).unwrap();
        let at = tick(dir.path());
        fs::remove_file(dir.path().join("origin/etc/deep/gone")).unwrap();
        tick(dir.path());
        put(dir.path(), "target/etc/deep/booted");
        assert_eq!(changes(dir.path(), at).removed, ["/etc/deep/gone"]);
    }

    #[test]
    fn paths_written_or_removed_after_the_merge_are_listed() {
        let dir = merged();
        let at = tick(dir.path());
        put(dir.path(), "origin/etc/deep/late");
        fs::remove_file(dir.path().join("origin/etc/deep/gone")).unwrap();
        fs::remove_file(dir.path().join("origin/etc/link")).unwrap();
        fs::remove_dir_all(dir.path().join("origin/etc/deep/er")).unwrap();
        // Written by the target's boot.
        put(dir.path(), "target/etc/deep/booted");
        let changes = changes(dir.path(), at);
        assert_eq!(changes.changed, ["/etc/deep/late"]);
        assert_eq!(
            changes.removed,
            ["/etc/deep/er/gone", "/etc/deep/gone", "/etc/link"]
        );
    }
}
