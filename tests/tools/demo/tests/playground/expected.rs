//! What each printed thing has to show.

/// How a thing is run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// To its end, once: it changes something.
    Once,
    /// Again and again until it shows what it has to.
    Until,
    /// It does not end by itself.
    Follow,
    /// It is an address.
    Page,
}

/// What is waited for afterwards.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    /// Until a command shows texts.
    Shows(&'static str, &'static [&'static str]),
    /// Until a pool has another target, and all nodes of all pools are there.
    Rolled(&'static str),
    /// Until all nodes of all pools are there.
    Settled,
}

/// A thing of the table, and what it has to show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) run: &'static str,
    pub(crate) how: How,
    pub(crate) codes: &'static [i32],
    pub(crate) shows: &'static [&'static str],
    /// Standard input.
    pub(crate) input: &'static str,
    pub(crate) then: &'static [Then],
}

impl Expected {
    const fn new(how: How, run: &'static str, shows: &'static [&'static str]) -> Self {
        Self {
            run,
            how,
            codes: &[0],
            shows,
            input: "",
            then: &[],
        }
    }

    const fn once(run: &'static str, shows: &'static [&'static str]) -> Self {
        Self::new(How::Once, run, shows)
    }

    /// It shows these texts sooner or later.
    pub(crate) const fn shows(run: &'static str, shows: &'static [&'static str]) -> Self {
        Self::new(How::Until, run, shows).ends_with(&[0, 5])
    }

    const fn page(run: &'static str, shows: &'static [&'static str]) -> Self {
        Self::new(How::Page, run, shows)
    }

    const fn follow(run: &'static str, shows: &'static [&'static str]) -> Self {
        Self::new(How::Follow, run, shows)
    }

    const fn ends_with(mut self, codes: &'static [i32]) -> Self {
        self.codes = codes;
        self
    }

    const fn then(mut self, then: &'static [Then]) -> Self {
        self.then = then;
        self
    }

    const fn input(mut self, input: &'static str) -> Self {
        self.input = input;
        self
    }
}

/// Each worker that has left the image that was built; a host that is down prints nothing.
const RETURNED: &str = "for node in worker-0 worker-1 worker-2; do host $node sh -c \
                        'test -e /usr/lib/playground || echo $(uname -n) returned'; done; true";
const RETURNS: &[&str] = &[
    "worker-0 returned",
    "worker-1 returned",
    "worker-2 returned",
];

/// All things, in the order in which they are printed.
pub(crate) const EXPECTED: &[Expected] = &[
    // Nodes
    Expected::shows("nodes", &["worker-2", "master-1", "Done"]),
    Expected::shows("slipway pool worker", &["Pool worker: 3 of 3 nodes updated"]),
    Expected::shows("slipway node worker-0", &["worker-0"]),
    Expected::once("kubectl apply -f file.yaml", &["50-file created"])
        .then(&[Then::Rolled("worker")]),
    Expected::once("kubectl apply -f budget.yaml", &["keep-all created"]),
    Expected::once("kubectl apply -f os.yaml", &["60-os created"])
        .then(&[Then::Shows("nodes", &["keep-all"])]),
    Expected::shows("slipway node worker-0 --try-drain", &["keep-all"]),
    Expected::once("kubectl delete -f budget.yaml", &["keep-all\" deleted"])
        .then(&[Then::Settled]),
    Expected::follow("slipway watch", &["worker-0", "master-0"]),
    Expected::once("kubectl apply -f broken.yaml", &["70-broken created"]).then(&[
        Then::Shows("nodes", &["kubelet"]),
        Then::Shows("slipway pool worker", &["RolloutHalted"]),
    ]),
    Expected::once("slipway explain RolloutHalted", &["Too many nodes failed"]),
    Expected::once(
        "kubectl delete -f broken.yaml -f os.yaml",
        &["70-broken\" deleted", "60-os\" deleted"],
    )
    .then(&[Then::Rolled("worker")]),
    Expected::once(
        "kubectl run mine --image=registry.lab/busybox:1",
        &["pod/mine created"],
    ),
    Expected::new(How::Until, "kubectl exec mine -- hostname", &["mine"]),
    // Images
    Expected::once("kubectl apply -f pins.yaml", &["ahead created"]),
    Expected::shows(
        "slipway pool worker",
        &["Pinned images:", "3 of 3 nodes have them"],
    ),
    Expected::once("kubectl delete -f pins.yaml", &["ahead\" deleted"]),
    Expected::once(
        "kubectl apply -f builds.yaml",
        &["push created", "10-registries created"],
    )
    .then(&[Then::Rolled("worker")]),
    Expected::once("kubectl apply -f image.yaml", &["worker created"]),
    Expected::follow("slipway watch", &["worker: OS image: ", "@sha256:"]),
    Expected::shows("kubectl get machineosbuilds", &["worker-"]),
    Expected::new(
        How::Until,
        "host worker-0 cat /usr/lib/playground",
        &["built in the cluster"],
    )
    .then(&[Then::Settled]),
    Expected::once("kubectl apply -f crowded.yaml", &["worker configured"]),
    Expected::once(
        "kubectl annotate machineosconfig worker machineconfiguration.openshift.io/rebuild=",
        &["worker annotated"],
    ),
    Expected::shows(
        "slipway pool worker",
        &["held for", "no node takes its pod: Unschedulable"],
    ),
    Expected::once("slipway explain PodNotScheduled", &["RolloutPolicy"]),
    Expected::once(
        "kubectl delete -f image.yaml -f crowded.yaml",
        &["machineosconfig", "rolloutpolicy", "\"worker\" deleted"],
    )
    .then(&[Then::Shows(RETURNED, RETURNS), Then::Settled]),
    // A release
    Expected::shows("slipway upgrade", &["Cluster version is 1.0.0", "1.0.1"]),
    Expected::new(
        How::Until,
        "slipway upgrade recommend",
        &["found no cause for concern", "1.0.1       no known issues"],
    ),
    Expected::shows(
        "slipway graph --channel stable-1 --from 1.0.0",
        &["3 releases", "Shortest path from 1.0.0", "KubeletFailsOnWorkers"],
    ),
    Expected::page("$GRAPH?channel=stable-1", &["<svg", "1.0.2"]),
    Expected::once("slipway upgrade --to 1.0.1", &["Requested update to 1.0.1"]),
    Expected::shows(
        "slipway upgrade status",
        &["1.0.1 (from 1.0.0)", "= Worker Upgrade ="],
    ),
    Expected::follow("slipway watch worker", &["worker-1"]),
    Expected::shows(
        "slipway upgrade timeline",
        &["Update 1.0.0 to 1.0.1: control plane done", "worker-2"],
    )
    .then(&[Then::Settled]),
    Expected::new(
        How::Until,
        "slipway upgrade rollback",
        &["Requested rollback from 1.0.1 to 1.0.0"],
    )
    .then(&[
        Then::Rolled("worker"),
        Then::Shows("slipway upgrade", &["Cluster version is 1.0.0"]),
        Then::Settled,
    ]),
    // A release that fails
    Expected::shows(
        "slipway upgrade --include-not-recommended",
        &["1.0.2", "KubeletFailsOnWorkers"],
    ),
    Expected::new(
        How::Until,
        "slipway upgrade recommend --version 1.0.2",
        &["KubeletFailsOnWorkers"],
    )
    .ends_with(&[1]),
    Expected::once(
        "slipway upgrade --to 1.0.2 --allow-not-recommended",
        &["Requested update to 1.0.2"],
    ),
    Expected::shows(
        "slipway upgrade status --details nodes",
        &["1.0.2", "kubelet"],
    ),
    Expected::shows("slipway pool worker", &["kubelet"]),
    Expected::once(
        "slipway upgrade --to-image $(previous) --allow-explicit-upgrade --allow-upgrade-with-warnings",
        &["Requested update to"],
    )
    .then(&[
        Then::Shows("slipway upgrade", &["Cluster version is 1.0.0"]),
        Then::Settled,
    ]),
    // A date
    Expected::once(
        "slipway managed schedule --to 1.0.1 --after 30m",
        &["Scheduled an upgrade to 1.0.1"],
    ),
    Expected::shows("slipway managed plan", &["PreUpgradeHealthCheck"]),
    Expected::shows("slipway managed status", &["1.0.1"]),
    Expected::once("slipway managed cancel", &["1.0.1"]),
    // A new machine
    Expected::once("join", &["worker-3 has its configuration"]),
    Expected::shows("slipway node worker-3", &["worker-3"]).then(&[Then::Settled]),
    Expected::once(
        "host worker-3 head --bytes=200 /etc/ignition-machine-config-encapsulated.json.bak",
        &["\"kind\":\"MachineConfig\""],
    ),
    // Where things are written
    Expected::once("host worker-0", &["worker-0"]).input("uname -n\n"),
    Expected::once("host worker-0 ostree admin status", &["* "]),
    Expected::once(
        "host worker-0 journalctl --boot --lines=10 --no-pager",
        &["worker-0"],
    ),
    Expected::once(
        "kubectl logs -n openshift-cluster-version deployment/cluster-version-operator --tail=5",
        &["INFO"],
    ),
    Expected::once("kubectl get pods -A -o wide", &["machine-config-daemon-"]),
    Expected::once(
        "kubectl get events -A --field-selector involvedObject.kind=Node",
        &["worker-"],
    ),
    Expected::once("tail -n 1 control-plane/audit.log", &["audit.k8s.io"]),
    Expected::once("ls $HOSTS", &["worker-0", "worker-3"]),
    Expected::once("cat cluster.env", &["export KUBECONFIG=", "RELEASE_1_0_2"]),
    Expected::once("promtool query instant $PROMETHEUS ALERTS", &[]),
    Expected::page("$PROMETHEUS/classic/alerts", &["ClusterVersionOperatorDown"]),
    Expected::page(
        "$PROMETHEUS/consoles/dashboard.html",
        &["<h2>Nodes that are updated</h2>", "<li>map[pool:worker] 1</li>"],
    ),
    Expected::page("$ALERTMANAGER/#/silences", &["Alertmanager"]),
];
