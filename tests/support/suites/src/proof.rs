//! When each part of the proof was last green on this machine: `<cache>/proof/<part>`, a line
//! `commit seconds`.

use std::fs;

use anyhow::Result;

use crate::table::Part;
use crate::workspace::Workspace;

/// Keeps that a part is green at a commit.
///
/// # Errors
///
/// The cache cannot be written.
#[expect(clippy::disallowed_methods, reason = "what is lost is proven again")]
pub(crate) fn keep(workspace: &Workspace, part: Part, now_secs: u64) -> Result<()> {
    let folder = workspace.cache.join("proof");
    fs::create_dir_all(&folder)?;
    let text = format!("{} {now_secs}\n", workspace.commit()?);
    Ok(fs::write(folder.join(part.name()), text)?)
}

/// A line for each part.
pub(crate) fn lines(workspace: &Workspace, now_secs: u64) -> Vec<String> {
    let line = |part: Part| {
        let text = fs::read_to_string(workspace.cache.join("proof").join(part.name()));
        let text = text.unwrap_or_default();
        let green = text.trim().split_once(' ').and_then(|(commit, at_secs)| {
            let age_secs = now_secs.saturating_sub(at_secs.parse().ok()?);
            Some(format!("last green at {commit}, {} ago", age(age_secs)))
        });
        let green = green.unwrap_or_else(|| "never green on this machine".to_owned());
        format!("make proof-{}: {green}", part.name())
    };
    Part::ALL.into_iter().map(line).collect()
}

/// In the largest unit that it fills.
pub(crate) fn age(secs: u64) -> String {
    match secs {
        0..3600 => format!("{} min", secs / 60),
        3600..172_800 => format!("{} h", secs / 3600),
        _ => format!("{} days", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_one_unit() {
        for (secs, text) in [
            (59, "0 min"),
            (3599, "59 min"),
            (7200, "2 h"),
            (172_800, "2 days"),
        ] {
            assert_eq!(age(secs), text);
        }
    }

    #[test]
    fn what_is_kept_is_said() {
        let cache = std::env::temp_dir().join(format!("suites-proof-{}", std::process::id()));
        let workspace = Workspace {
            cores: None,
            cache: cache.clone(),
            ..Workspace::find().unwrap()
        };
        keep(&workspace, Part::Hosts, 1_000_000).unwrap();
        let text = lines(&workspace, 1_000_000 + 7200);
        fs::remove_dir_all(cache).unwrap();
        assert!(text[0].ends_with("never green on this machine"));
        let commit = workspace.commit().unwrap();
        assert_eq!(
            text[1],
            format!("make proof-hosts: last green at {commit}, 2 h ago")
        );
    }
}
