//! What a person or a program needs to use the cluster: `cluster.env`, the commands, the text.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use lab::control_plane::Program;
use testbed::Programs;

use super::setup::Playground;
use super::things;

/// The file that is written last: where it is, the cluster is up.
pub(super) const FILE: &str = "cluster.env";

/// Folders with the commands, and with the programs that run.
const COMMANDS: &str = "bin";
const PROGRAMS: &str = "programs";

/// Settings of the shell.
pub(super) const SHELL_SETTINGS: &str = ".bashrc";

/// Commands of a playground's own.
const OWN: [(&str, &str); 5] = [
    ("nodes", include_str!("../objects/commands/nodes")),
    ("host", include_str!("../objects/commands/host")),
    ("join", include_str!("../objects/commands/join")),
    ("previous", include_str!("../objects/commands/previous")),
    ("things", include_str!("../objects/commands/things")),
];

/// The files of a running cluster. Dropped, those that lead into it are removed.
#[derive(Debug)]
pub(super) struct Environment(PathBuf);

impl Environment {
    /// Of a cluster that is to be in the folder `out`, an absolute path.
    pub(super) fn new(out: &Path) -> Self {
        Self(out.to_owned())
    }

    /// Copies the programs into the folder: hosts run them as long as the cluster lives, and
    /// another build replaces those that were built.
    pub(super) fn keep_programs(&self, programs: &Programs) -> Result<Programs> {
        let kept = self.0.join(PROGRAMS);
        fs::create_dir_all(&kept).with_context(|| format!("cannot make {}", kept.display()))?;
        let from = programs.folder();
        let entries =
            fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?;
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let to = kept.join(entry.file_name());
                fs::copy(entry.path(), &to)
                    .with_context(|| format!("cannot copy to {}", to.display()))?;
            }
        }
        Ok(Programs::in_folder(&kept))
    }

    /// Writes all of it.
    pub(super) fn write(&self, playground: &Playground, requests: &Path) -> Result<()> {
        let out = &self.0;
        let commands = out.join(COMMANDS);
        fs::create_dir_all(&commands)?;
        for (name, text) in OWN {
            write(&commands.join(name), text)?;
            fs::set_permissions(commands.join(name), fs::Permissions::from_mode(0o755))?;
        }
        let control_plane = playground.cluster.control_plane();
        symlink(out.join(PROGRAMS).join("slipway"), commands.join("slipway"))?;
        symlink(
            control_plane.programs().path(Program::Kubectl),
            commands.join("kubectl"),
        )?;
        let assignments = assignments(playground, requests, out)?;
        let addresses: Vec<(&str, &str)> = assignments
            .iter()
            .map(|one| (one.name.as_str(), one.value.as_str()))
            .collect();
        write(&out.join("things.txt"), &things::text(&addresses))?;
        let settings = include_str!("../objects/playground.bashrc");
        write(&out.join(SHELL_SETTINGS), settings)?;
        write(&out.join(FILE), &print(&assignments))
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // A file that is left names a cluster that is gone; the next run empties the folder.
        drop(fs::remove_file(self.0.join(FILE)));
        drop(fs::remove_dir_all(self.0.join(COMMANDS)));
        drop(fs::remove_dir_all(self.0.join(PROGRAMS)));
    }
}

/// A line of `cluster.env`, with its comment.
struct Assignment {
    name: String,
    value: String,
    about: &'static str,
}

fn assignments(playground: &Playground, requests: &Path, out: &Path) -> Result<Vec<Assignment>> {
    let Playground {
        cluster,
        services,
        releases,
    } = playground;
    let hosts = cluster.hosts().first().and_then(|host| host.dir().parent());
    let hosts = hosts.context("there is no host")?;
    let servers = &services.monitoring.servers;
    let text = |path: &Path| path.display().to_string();
    let mut all = vec![
        (
            "KUBECONFIG",
            text(&cluster.control_plane().admin_kubeconfig()),
            "The administrator's credentials, for kubectl, slipway and oc.",
        ),
        (
            "PATH",
            text(&out.join(COMMANDS)),
            "Folder with slipway, kubectl and the commands of the playground, before all others.",
        ),
        (
            "PLAYGROUND",
            text(out),
            "Folder of this cluster: its logs, and objects to apply.",
        ),
        (
            "HOSTS",
            text(hosts),
            "Folder with one folder for each host: console.log, boots.jsonl, leader (its first \
             process, for nsenter).",
        ),
        (
            "REGISTRY",
            cluster.host_lab()?.registry.location(),
            "Registry of all images, plain HTTP; registry.lab in pull specs of pods.",
        ),
        (
            "GRAPH",
            services.graph.clone(),
            "The update service: JSON for programs, a page for browsers; ?channel=stable-1.",
        ),
        (
            "PROMETHEUS",
            format!("http://{}", servers.prometheus),
            "Prometheus, which reads all components and evaluates the product's alerts.",
        ),
        (
            "ALERTMANAGER",
            format!("http://{}", servers.alertmanager),
            "Alertmanager, in which managed upgrades silence alerts.",
        ),
        (
            "REQUESTS",
            text(requests),
            "Socket of the playground's process; `join` sends a request to it.",
        ),
    ]
    .into_iter()
    .map(|(name, value, about)| Assignment {
        name: name.to_owned(),
        value,
        about,
    })
    .collect::<Vec<_>>();
    all.extend(releases.all().map(|release| Assignment {
        name: format!("RELEASE_{}", release.version.replace('.', "_")),
        value: release.image.clone(),
        about: "Pull spec of the release of this version, signed.",
    }));
    Ok(all)
}

/// Text of the file, for a shell that reads it.
fn print(assignments: &[Assignment]) -> String {
    let mut text = String::from(
        "# The playground's cluster. In a shell: `. cluster.env`; the file is there while the \
         cluster is.\n",
    );
    for Assignment { name, value, about } in assignments {
        let quoted = format!("'{}'", value.replace('\'', r"'\''"));
        let value = if name == "PATH" {
            format!("{quoted}:\"$PATH\"")
        } else {
            quoted
        };
        text.extend([format!("\n# {about}\nexport {name}={value}\n")]);
    }
    text
}

/// Writes a file at once: a reader finds it whole or not at all.
#[expect(clippy::disallowed_methods, reason = "a run's own files")]
fn write(path: &Path, text: &str) -> Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, text)
        .and_then(|()| fs::rename(&partial, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn assignment(name: &str, value: &str) -> Assignment {
        Assignment {
            name: name.to_owned(),
            value: value.to_owned(),
            about: "What it is.",
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test that runs a shell")]
    fn a_shell_reads_what_is_written() {
        let odd = "it's $HOME";
        let text = print(&[assignment("ODD", odd), assignment("PATH", "/first")]);
        assert!(text.contains("\n# What it is.\nexport ODD='"), "{text}");
        let script = format!("{text}\nprintf '%s\\n%s' \"$ODD\" \"$PATH\"");
        let output = Command::new("/bin/bash")
            .args(["-c", &script])
            .env("PATH", "/last")
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed, format!("{odd}\n/first:/last"));
    }
}
