//! What tests read of upstream is in the list by which `make upstream-data` gets it, and the page
//! has the same table. The command runs against repositories made here.
#![expect(
    clippy::disallowed_methods,
    reason = "runs git and the command, and writes files of its own"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sources::{root, sources};

const FOLDER: &str = "tests/support/upstream-data";

/// A line of the list.
#[derive(Clone, Debug)]
struct Row {
    folder: String,
    repository: String,
    commit: String,
    directory: String,
    pattern: String,
}

impl Row {
    /// Where the file is in the folder of data; `*` stands for several.
    fn path(&self) -> String {
        let pattern = self.pattern.trim_end_matches(".gz");
        format!("{}/{pattern}", self.folder)
    }

    fn is_of_this_repository(&self) -> bool {
        self.repository == "."
    }

    fn print(&self) -> String {
        let Self {
            folder,
            repository,
            commit,
            directory,
            pattern,
        } = self;
        format!("{folder}\t{repository}\t{commit}\t{directory}\t{pattern}\n")
    }
}

fn list() -> Vec<Row> {
    let text = fs::read_to_string(root().join(FOLDER).join("list.tsv")).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [folder, repository, commit, directory, pattern] =
            <[&str; 5]>::try_from(columns).unwrap().map(str::to_owned);
        Row {
            folder,
            repository,
            commit,
            directory,
            pattern,
        }
    })
    .collect()
}

#[test]
fn page_has_the_list_of_the_command() {
    let mut table: Vec<(String, usize)> = Vec::new();
    for row in list() {
        let (repository, commit) = if row.is_of_this_repository() {
            ("this one", "–".to_owned())
        } else {
            (row.repository.as_str(), format!("`{}`", row.commit))
        };
        let Row {
            folder, directory, ..
        } = &row;
        let start = format!("| `{folder}` | {repository} | {commit} | `{directory}` |");
        match table.last_mut() {
            Some((last, count)) if *last == start => *count += 1,
            _ => table.push((start, 1)),
        }
    }
    let lines = table
        .iter()
        .map(|(start, count)| format!("{start} {count} |\n"));
    let expected: String = lines.collect();
    let page = fs::read_to_string(root().join("docs/development/upstream-data.md")).unwrap();
    assert!(page.contains(&expected), "the page lacks:\n{expected}");
}

/// Texts that follow a mark up to the next quotation mark.
fn after<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    let rest = text.split(mark).skip(1);
    rest.map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn tests_read_nothing_that_the_command_does_not_get() {
    let mut read = Vec::new();
    let folders = ["src", "tests"].map(|folder| sources(&root().join(folder), "rs"));
    for file in folders.concat() {
        let text = fs::read_to_string(&file).unwrap();
        if file.ends_with("workspace/upstream_data.rs") {
            continue;
        }
        let mut paths = after(&text, "upstream_data(\"");
        paths.extend(after(&text, "upstream_data().join(\""));
        // Those that look for the folder themselves.
        if text.contains("shared/data") {
            for mark in ["shared/data/", "data.join(\"", "shared(\""] {
                paths.extend(after(&text, mark));
            }
        }
        let named = paths
            .into_iter()
            .map(|path| (file.clone(), path.to_owned()));
        read.extend(named);
    }
    assert!(read.len() >= 9, "{read:?}");
    let listed: Vec<String> = list().iter().map(Row::path).collect();
    for (file, path) in read {
        let is_listed = listed.iter().any(|listed| {
            let rest = listed.strip_prefix(&path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        assert!(is_listed, "{} reads {path}", file.display());
    }
}

/// A server with made-up repositories, and a folder for the data.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("server")).unwrap();
        Self { dir }
    }

    fn server(&self) -> PathBuf {
        self.dir.path().join("server")
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Makes the repositories of these rows, with a file for each; the rows with their commits.
    fn publish(&self, rows: &[Row]) -> Vec<Row> {
        let mut commits = BTreeMap::new();
        for row in rows.iter().filter(|row| !row.is_of_this_repository()) {
            let clone = self.server().join(&row.repository);
            let file = clone.join(&row.directory).join(one_of(&row.pattern));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            if row.pattern.ends_with("-node.yaml") {
                // Upstream has some of its examples once.
                fs::write(file.with_extension("first"), row.path()).unwrap();
                let first = file.with_extension("first");
                symlink(first.file_name().unwrap(), &file).unwrap();
            } else {
                fs::write(&file, row.path()).unwrap();
            }
            commits.insert(row.repository.clone(), clone);
        }
        let commits: BTreeMap<String, String> = commits
            .into_iter()
            .map(|(repository, clone)| {
                git(&clone, &["init", "--quiet"]);
                git(&clone, &["add", "--all"]);
                git(&clone, &["commit", "--quiet", "--message=data"]);
                (repository, git(&clone, &["rev-parse", "HEAD"]))
            })
            .collect();
        let with_commit = |row: &Row| {
            let commit = commits.get(&row.repository).unwrap_or(&row.commit);
            Row {
                commit: commit.clone(),
                ..row.clone()
            }
        };
        rows.iter().map(with_commit).collect()
    }

    /// Runs the command with this list: whether it succeeds, and all that it prints.
    fn get(&self, rows: &[Row]) -> (bool, String) {
        let list = self.dir.path().join("list.tsv");
        fs::write(&list, rows.iter().map(Row::print).collect::<String>()).unwrap();
        let output = Command::new(root().join(FOLDER).join("get.sh"))
            .arg(list)
            .env("SLIPWAY_DATA", self.data())
            .env(
                "SLIPWAY_UPSTREAM",
                format!("file://{}", self.server().display()),
            )
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }
}

/// A name that a pattern stands for.
fn one_of(pattern: &str) -> String {
    pattern.replace("[4-9]", "7").replace('*', "x")
}

fn git(dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    // Those of a hook would name another repository.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    let output = command
        .arg("-C")
        .arg(dir)
        .args(["-c", "user.name=test", "-c", "user.email=test@example.com"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_command_gets_the_whole_list_once_and_again_when_it_has_changed() {
    let site = Site::new();
    let mut rows = site.publish(&list());
    let (succeeds, output) = site.get(&rows);
    assert!(succeeds, "{output}");
    for row in &rows {
        let text = fs::read_to_string(site.data().join(one_of(&row.path()))).unwrap();
        if row.is_of_this_repository() {
            assert!(text.starts_with('{'), "{row:?}");
        } else {
            assert_eq!(text, row.path());
        }
    }

    // All is there: no server is needed.
    let server = site.server();
    let away = server.with_extension("away");
    fs::rename(&server, &away).unwrap();
    let (succeeds, output) = site.get(&rows);
    assert!(succeeds && output.contains("has it all"), "{output}");

    // Another list is fetched, and what it has no more goes; but not without the server.
    let dropped = rows.remove(0);
    let dropped = site.data().join(one_of(&dropped.path()));
    let (succeeds, output) = site.get(&rows);
    assert!(
        !succeeds && output.contains("nothing was changed"),
        "{output}"
    );
    assert!(dropped.exists());
    fs::rename(&away, &server).unwrap();
    let (succeeds, output) = site.get(&rows);
    assert!(succeeds && !dropped.exists(), "{output}");
}

#[test]
fn the_command_says_what_it_cannot_get_and_changes_nothing() {
    let site = Site::new();
    let row = |commit: &str, pattern: &str| Row {
        folder: "a/b".to_owned(),
        repository: "some/thing".to_owned(),
        commit: commit.to_owned(),
        directory: "c".to_owned(),
        pattern: pattern.to_owned(),
    };
    let good = site.publish(&[row("", "file")]);
    let unknown = "0123456789012345678901234567890123456789";
    for (bad, expected) in [
        (row(unknown, "file"), "git cannot fetch 0123456789"),
        (row(&good[0].commit, "other"), "some/thing has no c/other"),
        (row(&good[0].commit, "*.yaml"), "some/thing has no c/*.yaml"),
    ] {
        let (succeeds, output) = site.get(&[good[0].clone(), bad]);
        assert!(!succeeds && output.contains(expected), "{output}");
        assert!(output.contains("nothing was changed"), "{output}");
        assert!(!site.data().exists());
    }
    // Of a folder that is another's, nothing is replaced.
    let own = site.data().join("a/own");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, "own").unwrap();
    let (succeeds, output) = site.get(&good);
    assert!(!succeeds && output.contains("SLIPWAY_DATA"), "{output}");
    assert!(own.exists() && !site.data().join("a/b").exists());
}
