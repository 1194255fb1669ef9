//! What there is to try in a playground: the table that is printed, and that its suite runs.

/// Columns of the terminal that the text is for.
const WIDTH: usize = 100;

/// Where a command, and where what it does, begins.
const COMMAND_AT: usize = 4;
const NOTE_AT: usize = 50;

/// Things that belong together, in the order in which they work.
pub(crate) struct Group {
    title: &'static str,
    /// What they show.
    about: &'static str,
    pub(crate) things: &'static [Thing],
}

/// A command of bash in the playground's folder, or the address of a page.
pub(crate) struct Thing {
    pub(crate) run: &'static str,
    note: &'static str,
}

const fn thing(run: &'static str, note: &'static str) -> Thing {
    Thing { run, note }
}

impl Thing {
    /// Whether it is an address, for a browser.
    pub(crate) fn is_address(&self) -> bool {
        self.run.starts_with('$')
    }
}

const HEAD: &str = "A cluster at release 1.0.0, with three workers and two nodes of the control plane, and all that \
updates it. Try the groups in any order, each from its top. Commands run in this folder.";

const TAIL: &str = "`things` prints this again.";

pub(crate) const GROUPS: &[Group] = &[
    Group {
        title: "Nodes",
        about: "What nodes run, and how they change one after the other.",
        things: &[
            thing(
                "nodes",
                "what each does, and why; `nodes -w`: as it changes",
            ),
            thing(
                "slipway pool worker",
                "a pool: its nodes, and what they wait for",
            ),
            thing("slipway node worker-0", "one node"),
            thing(
                "kubectl apply -f file.yaml",
                "a file: there in seconds, without a drain",
            ),
            thing(
                "kubectl apply -f budget.yaml",
                "no pod of Deployment scratch may be evicted",
            ),
            thing(
                "kubectl apply -f os.yaml",
                "another OS; its drain waits for the budget",
            ),
            thing(
                "slipway node worker-0 --try-drain",
                "which pods could go now, and which budget refuses",
            ),
            thing(
                "kubectl delete -f budget.yaml",
                "the drain goes on, and one node follows the other",
            ),
            thing(
                "slipway watch",
                "pools and nodes as they change, until Ctrl-C",
            ),
            thing(
                "kubectl apply -f broken.yaml",
                "an OS whose kubelet fails: rolled back, halted",
            ),
            thing(
                "slipway explain RolloutHalted",
                "what a reason means, and what to do",
            ),
            thing(
                "kubectl delete -f broken.yaml -f os.yaml",
                "all nodes return to the OS of the release",
            ),
            thing(
                "kubectl run mine --image=registry.lab/busybox:1",
                "a process of your own on a worker",
            ),
            thing(
                "kubectl exec mine -- hostname",
                "a command in it; a drain of its node evicts it",
            ),
        ],
    },
    Group {
        title: "Images",
        about: "Images that nodes pull ahead and keep, and an OS image that the cluster builds for its workers.",
        things: &[
            thing(
                "kubectl apply -f pins.yaml",
                "an image that workers pull before a pod asks for it",
            ),
            thing(
                "slipway pool worker",
                "how many workers have it, and why one has not",
            ),
            thing(
                "kubectl delete -f pins.yaml",
                "its pins go, and kubelets may collect it again",
            ),
            thing(
                "kubectl apply -f builds.yaml",
                "what a build needs: Secrets, a registry without TLS, and what its pod reserves",
            ),
            thing(
                "kubectl apply -f image.yaml",
                "the workers' OS with one more file, built in the cluster",
            ),
            thing(
                "slipway watch",
                "the build, then the workers that go to its image, until Ctrl-C",
            ),
            thing(
                "kubectl get machineosbuilds",
                "the build, with its conditions",
            ),
            thing(
                "host worker-0 cat /usr/lib/playground",
                "the file, once the host has booted the image",
            ),
            thing(
                "kubectl apply -f crowded.yaml",
                "builds now reserve more processors than a node has",
            ),
            thing(
                "kubectl annotate machineosconfig worker machineconfiguration.openshift.io/rebuild=",
                "the image is to be built again; no node takes its pod",
            ),
            thing(
                "slipway pool worker",
                "the build that is held, in the scheduler's words",
            ),
            thing("slipway explain PodNotScheduled", "what to do about it"),
            thing(
                "kubectl delete -f image.yaml -f crowded.yaml",
                "all workers return to the OS of the release",
            ),
        ],
    },
    Group {
        title: "A release",
        about: "The whole cluster is updated: operators by run level, then the OS of all nodes.",
        things: &[
            thing(
                "slipway upgrade",
                "release, channel, and which updates are offered",
            ),
            thing(
                "slipway upgrade recommend",
                "what speaks against each: alerts and risks",
            ),
            thing(
                "slipway graph --channel stable-1 --from 1.0.0",
                "the channel in numbers, and the shortest path",
            ),
            thing(
                "$GRAPH?channel=stable-1",
                "the same as a page with its picture",
            ),
            thing("slipway upgrade --to 1.0.1", "the request"),
            thing(
                "slipway upgrade status",
                "how far it is, and what it waits for",
            ),
            thing("slipway watch worker", "the workers as they follow"),
            thing(
                "slipway upgrade timeline",
                "when each part was updated; `--svg FILE` draws it",
            ),
            thing(
                "slipway upgrade rollback",
                "back to 1.0.0, once the update is completed",
            ),
        ],
    },
    Group {
        title: "A release that fails",
        about: "1.0.2 has an OS whose kubelet does not start on workers. The update service knows of it.",
        things: &[
            thing(
                "slipway upgrade --include-not-recommended",
                "1.0.2, with the risk that applies here",
            ),
            thing(
                "slipway upgrade recommend --version 1.0.2",
                "the same for one update; exits with 1",
            ),
            thing(
                "slipway upgrade --to 1.0.2 --allow-not-recommended",
                "a worker fails its check and returns; pool halted",
            ),
            thing(
                "slipway upgrade status --details nodes",
                "who holds it up, and why",
            ),
            thing(
                "slipway pool worker",
                "the node that failed, with its reason",
            ),
            thing(
                "slipway upgrade --to-image $(previous) --allow-explicit-upgrade --allow-upgrade-with-warnings",
                "back to the release before, during the update",
            ),
        ],
    },
    Group {
        title: "A date",
        about: "The managed upgrade operator updates the cluster at a time, by its gates. `--after 1m` is now.",
        things: &[
            thing(
                "slipway managed schedule --to 1.0.1 --after 30m",
                "the request",
            ),
            thing(
                "slipway managed plan",
                "its steps, what each gate reports, when it ends",
            ),
            thing("slipway managed status", "how far it is"),
            thing(
                "slipway managed cancel",
                "withdrawn, before it changed the cluster",
            ),
        ],
    },
    Group {
        title: "A new machine",
        about: "A host that nothing configured joins by Ignition and the config server.",
        things: &[
            thing("join", "worker-3 is turned on, and becomes a node"),
            thing(
                "slipway node worker-3",
                "the node; from now on it follows its pool",
            ),
            thing(
                "host worker-3 head --bytes=200 /etc/ignition-machine-config-encapsulated.json.bak",
                "what its first boot carried out",
            ),
        ],
    },
    Group {
        title: "Where things are written",
        about: "The hosts are namespaces of this machine, and all of it is real.",
        things: &[
            thing("host worker-0", "a shell on a host, until Ctrl-D"),
            thing(
                "host worker-0 ostree admin status",
                "the OS that it boots, and the one before",
            ),
            thing(
                "host worker-0 journalctl --boot --lines=10 --no-pager",
                "its journal",
            ),
            thing(
                "kubectl logs -n openshift-cluster-version deployment/cluster-version-operator --tail=5",
                "the version operator, a pod as all components are",
            ),
            thing("kubectl get pods -A -o wide", "all pods"),
            thing(
                "kubectl get events -A --field-selector involvedObject.kind=Node",
                "events of nodes",
            ),
            thing(
                "tail -n 1 control-plane/audit.log",
                "each request that the API server had",
            ),
            thing(
                "ls $HOSTS",
                "a folder for each host: its console, its disks",
            ),
            thing("cat cluster.env", "all addresses and pull specs"),
            thing(
                "promtool query instant $PROMETHEUS ALERTS",
                "alerts that are pending or fire",
            ),
            thing("$PROMETHEUS/classic/alerts", "the product's alerts"),
            thing(
                "$PROMETHEUS/consoles/dashboard.html",
                "the queries of its dashboard",
            ),
            thing("$ALERTMANAGER/#/silences", "silences of managed upgrades"),
        ],
    },
];

/// The text for a person. `addresses` are values of variables that addresses begin with.
pub(crate) fn text(addresses: &[(&str, &str)]) -> String {
    let mut text = String::from("\n");
    push_wrapped(&mut text, 0, HEAD);
    for group in GROUPS {
        text.extend([format!("\n{}\n", group.title.to_uppercase())]);
        push_wrapped(&mut text, 2, group.about);
        for thing in group.things {
            push_thing(&mut text, &resolved(thing, addresses), thing.note);
        }
    }
    text.push('\n');
    push_wrapped(&mut text, 0, TAIL);
    text.push('\n');
    text
}

/// What is printed of a thing, and run: of an address, its value.
pub(crate) fn resolved(thing: &Thing, addresses: &[(&str, &str)]) -> String {
    if !thing.is_address() {
        return thing.run.to_owned();
    }
    let known = addresses.iter().find_map(|(name, value)| {
        let rest = thing.run.strip_prefix('$')?.strip_prefix(name)?;
        Some(format!("{value}{rest}"))
    });
    known.unwrap_or_else(|| thing.run.to_owned())
}

fn push_thing(text: &mut String, run: &str, note: &str) {
    text.push_str(&" ".repeat(COMMAND_AT));
    text.push_str(run);
    let end = COMMAND_AT + run.chars().count();
    // A long command has a line of its own.
    let fill = match NOTE_AT.checked_sub(end + 2) {
        Some(rest) => " ".repeat(rest + 2),
        None => format!("\n{}", " ".repeat(NOTE_AT)),
    };
    text.push_str(&fill);
    let lines = wrap(note, WIDTH - NOTE_AT);
    text.push_str(&lines.join(&format!("\n{}", " ".repeat(NOTE_AT))));
    text.push('\n');
}

fn push_wrapped(text: &mut String, indent: usize, words: &str) {
    for line in wrap(words, WIDTH - indent) {
        text.push_str(&" ".repeat(indent));
        text.push_str(&line);
        text.push('\n');
    }
}

/// Lines of at most so many columns.
fn wrap(words: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in words.split_whitespace() {
        let length = line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && length > columns {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: [(&str, &str); 3] = [
        ("GRAPH", "http://10.97.255.1:20033/graph"),
        ("PROMETHEUS", "http://10.97.255.17:9090"),
        ("ALERTMANAGER", "http://10.97.255.17:9093"),
    ];

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let text = text(&ADDRESSES);
        let wide = text.lines().filter(|line| line.chars().count() > WIDTH);
        assert_eq!(wide.collect::<Vec<_>>(), Vec::<&str>::new());
    }

    #[test]
    fn addresses_are_printed_as_a_browser_takes_them() {
        let text = text(&ADDRESSES);
        for address in [
            "http://10.97.255.1:20033/graph?channel=stable-1",
            "http://10.97.255.17:9090/classic/alerts",
        ] {
            assert!(
                text.split_whitespace().any(|word| word == address),
                "{text}"
            );
        }
        // Commands keep their variables: a person may repeat them in another cluster.
        assert!(text.contains(" ls $HOSTS "));
    }

    #[test]
    fn a_long_command_has_its_note_below_it() {
        let mut text = String::new();
        push_thing(&mut text, &"x".repeat(60), "what it does");
        let expected = format!("    {}\n{}what it does\n", "x".repeat(60), " ".repeat(50));
        assert_eq!(text, expected);
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
    }
}
