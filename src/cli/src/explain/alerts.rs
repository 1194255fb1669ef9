//! Alerts of `deploy/monitoring` and `deploy/update-service/monitoring`, by what raises them. Page
//! `docs/guides/alerts.md` has the same texts. Those of managed upgrades are in `upgrade`.

use super::{Explanation, of};

const CONTROLLER: &str = "alert of the controller";
const DAEMON: &str = "alert of the daemon";
const VERSION_OPERATOR: &str = "alert of the version operator";
const CONFIG_SERVER: &str = "alert of the config server";
const UPDATE_SERVICE: &str = "alert of the update service";

pub(super) const WORDS: &[Explanation] = &[
    of(
        "MCCNoLeader",
        CONTROLLER,
        "No replica of the controller has led for 10 minutes: no pool is rendered, and no \
         node is assigned a configuration. Nodes go on with what they were assigned.",
        "Read the pods and events of Deployment machine-config-controller, and Lease \
         machine-config-controller in openshift-machine-config-operator. Without a \
         control-plane node that takes pods there is none.",
    ),
    of(
        "MCCPoolAlert",
        CONTROLLER,
        "A custom pool selects a node of the control plane, which stays in pool master.",
        "Remove the label from the node, or correct spec.nodeSelector of the pool.",
    ),
    of(
        "MCCPoolDegraded",
        CONTROLLER,
        "A pool has been degraded for 30 minutes: a node failed, or its MachineConfigs \
         cannot be rendered.",
        "Read `slipway pool NAME`: it names the node or MachineConfig and the reason. \
         `slipway explain REASON` has what to do.",
    ),
    of(
        "MCCPoolStalled",
        CONTROLLER,
        "A pool is updating, and no node became updated for 2 hours.",
        "Read `slipway pool NAME` and condition Waiting of the pool. Often a pod cannot \
         be evicted (`slipway node NAME --try-drain`), or a window of the RolloutPolicy \
         is closed.",
    ),
    of(
        "MCCPoolPaused",
        CONTROLLER,
        "A paused pool has kept an update back for a day; certificates are kept back with \
         it.",
        "Set spec.paused of the pool to false in a quiet hour, or end what it was paused \
         for.",
    ),
    of(
        "MCCSettingRefused",
        CONTROLLER,
        "A KubeletConfig or ContainerRuntimeConfig is not followed, and the pools that it \
         selects are not rendered.",
        "Correct the field that the last condition of the object names, or delete the \
         object.",
    ),
    of(
        "MCCPinnedImagesFailed",
        CONTROLLER,
        "For an hour nodes of a pool could not pull or pin the images of its PinnedImageSets, \
         or it is not determined which sets it has. The nodes run as before.",
        "Read `slipway pool NAME`: it names each node with NoRoom, Failed or Refused, which \
         `slipway explain` explains. Free space on the disk, correct the PinnedImageSet, or \
         repair the way to its registry.",
    ),
    of(
        "MCCImageBuildFailed",
        CONTROLLER,
        "The OS image of a pool in image mode cannot be built: its MachineOSConfig is \
         refused, or the build failed or was interrupted. The pool's nodes keep what they \
         run.",
        "Read `slipway pool NAME`, and the message of the pool's condition \
         ImageBuildDegraded: it has the end of the build's log. Correct the \
         MachineOSConfig, or annotate it with machineconfiguration.openshift.io/rebuild.",
    ),
    of(
        "MCCImageBuildHeld",
        CONTROLLER,
        "For 10 minutes no pod of a build of a pool's OS image has run: no node takes it, \
         its container cannot start, or the Job has no pod. At its time limit the build \
         fails.",
        "Read `slipway pool NAME`: it has the message of the scheduler or the kubelet. \
         Lower the requests or correct the nodes in imageBuild of the pool's \
         RolloutPolicy and annotate the MachineOSConfig for a rebuild, or give the \
         cluster a node that has room.",
    ),
    of(
        "MCCImageBuildLate",
        CONTROLLER,
        "The build of a pool's OS image has not started for 30 minutes, or has exceeded \
         its time limit by that: the controller or the cluster's Job controller does not \
         go on.",
        "Read the pods and the log of Deployment machine-config-controller, and Job \
         build-NAME of the MachineOSBuild in openshift-machine-config-operator. A pool \
         that is not rendered has no build: `slipway pool NAME` says so.",
    ),
    of(
        "MCCDrainError",
        CONTROLLER,
        "The daemon has tried to empty a node for more than an hour.",
        "Read `slipway node NAME --try-drain`: it names the pod and its budget. Give the \
         workload another replica, relax the budget, or delete the pod yourself.",
    ),
    of(
        "SystemMemoryExceedsReservation",
        CONTROLLER,
        "System services of a node use 95 % of the memory that is reserved for them; pods \
         may be ended in their place.",
        "Reserve more with a KubeletConfig (systemReserved), or look for the service that \
         grows on the node.",
    ),
    of(
        "HighOverallControlPlaneMemory",
        CONTROLLER,
        "The control plane could not lose one of its nodes: the others have too little \
         memory.",
        "Give the control-plane nodes more memory before the next update takes one out.",
    ),
    of(
        "ExtremelyHighIndividualControlPlaneMemory",
        CONTROLLER,
        "A node of the control plane uses nearly all of its memory; its API server and \
         etcd become slow or are ended.",
        "Move pods that do not belong there, restart what has grown, and give the nodes \
         more memory.",
    ),
    of(
        "MCDRebootError",
        DAEMON,
        "The reboot of a node was requested and did not happen. The node is drained, and \
         its update is blocked.",
        "Read the log of its machine-config-daemon and `journalctl --unit systemd-logind` \
         on the host; an inhibitor holds a reboot (`systemd-inhibit --list`). Reboot the \
         host by hand: the update goes on.",
    ),
    of(
        "KubeletHealthState",
        DAEMON,
        "The kubelet of a node has not answered its health check several times in a row.",
        "Read `systemctl status kubelet` and its journal on the host. A restart of the \
         kubelet disturbs no pod.",
    ),
    of(
        "MCDConfigDrift",
        DAEMON,
        "Files or units of a node differ from its MachineConfig. No update begins on the \
         node.",
        "Undo the change that the Node's reason names, or put it into a MachineConfig. \
         File /run/machine-config-daemon-force has the daemon write its state again.",
    ),
    of(
        "ClusterVersionOperatorDown",
        VERSION_OPERATOR,
        "No metrics of the version operator were read for 10 minutes. The cluster is \
         neither updated nor kept at its release; workloads go on.",
        "Read the pods and events of namespace openshift-cluster-version. With the pod \
         well, check the certificate and network of its metrics.",
    ),
    of(
        "CannotRetrieveUpdates",
        VERSION_OPERATOR,
        "The update service has not answered for an hour. The cluster stays at its \
         release, and is offered no others.",
        "Read condition RetrievedUpdates of ClusterVersion. Check spec.upstream and \
         spec.channel, the proxy and the authorities of the cluster.",
    ),
    of(
        "UpdateAvailable",
        VERSION_OPERATOR,
        "Updates of the cluster are recommended.",
        "Choose one with `slipway upgrade recommend`. Nothing happens by itself.",
    ),
    of(
        "ClusterReleaseNotAccepted",
        VERSION_OPERATOR,
        "The requested release was not accepted for an hour: a signature, a precondition \
         or its image. Nothing was applied.",
        "Read `slipway upgrade`: condition ReleaseAccepted names the cause. Withdraw the \
         request, or accept the risk that it names.",
    ),
    of(
        "ClusterNotUpgradeable",
        VERSION_OPERATOR,
        "The next minor release is blocked. Patches are not.",
        "Read `slipway upgrade`: condition Upgradeable names each operator and reason.",
    ),
    of(
        "CannotEvaluateConditionalUpdates",
        VERSION_OPERATOR,
        "Whether an update is recommended could not be evaluated for an hour, by queries \
         to the cluster's monitoring.",
        "Repair monitoring; or read the risk with `slipway upgrade recommend --version \
         VERSION` and accept it yourself.",
    ),
    of(
        "OpenShiftUpdateRiskMightApply",
        VERSION_OPERATOR,
        "A risk of an offered update applies to this cluster, or it is unknown whether it \
         does.",
        "Read `slipway upgrade recommend`: it has the risk's description. Choose another \
         release, or accept it by name.",
    ),
    of(
        "ClusterVersionRewrites",
        VERSION_OPERATOR,
        "Another writer changes objects of the release again and again, and the version \
         operator writes them back.",
        "Find the writer in managedFields of the object or in the API server's audit log. \
         Stop it, or make the object unmanaged in spec.overrides.",
    ),
    of(
        "ClusterOperatorDown",
        VERSION_OPERATOR,
        "An operator of the cluster has not been available for 10 minutes.",
        "Read `kubectl get clusteroperator NAME --output yaml`: condition Available has \
         the cause, and relatedObjects where to look.",
    ),
    of(
        "ClusterOperatorDegraded",
        VERSION_OPERATOR,
        "An operator of the cluster has not reached its state for 30 minutes. An update \
         waits for it.",
        "Read condition Degraded of the ClusterOperator. For operator machine-config read \
         `slipway pool`.",
    ),
    of(
        "ClusterOperatorFlapping",
        VERSION_OPERATOR,
        "An operator of the cluster changes between available and not available.",
        "Read the restarts of its pods, and the times of its condition Available.",
    ),
    of(
        "MCSOpen",
        CONFIG_SERVER,
        "The config server serves configurations to every peer that reaches its port: \
         pull secrets, keys and a bootstrap token.",
        "Start it without --open.",
    ),
    of(
        "MCSCredentialsRefused",
        CONFIG_SERVER,
        "Requests for configurations have credentials that are not valid: new machines \
         with an expired token, or a peer that guesses.",
        "The server's log has the addresses. Make new tokens for machines that you know; \
         keep others from port 22623.",
    ),
    of(
        "MCSPoolNotReady",
        CONFIG_SERVER,
        "The config server has no configuration of a pool, so that new machines of it \
         cannot be provisioned.",
        "Read `slipway pool NAME`: the pool is not rendered, or its MachineConfig cannot \
         be read.",
    ),
    of(
        "UpdateServiceGraphOld",
        UPDATE_SERVICE,
        "Scrapes of the update service's sources fail; it serves what it had.",
        "Read its log: the registry or the graph data cannot be reached, or has an error.",
    ),
    of(
        "UpdateServiceWithoutGraph",
        UPDATE_SERVICE,
        "No replica of the update service has a graph. Clusters are offered no updates.",
        "Read /readyz of a replica and its log.",
    ),
    of(
        "UpdateServiceProblems",
        UPDATE_SERVICE,
        "Parts of the update service's sources are left out: releases, channels or edges \
         with errors.",
        "Read /api/upgrades_info/problems; `slipway graph-data check DIRECTORY` finds \
         those of graph data.",
    ),
    of(
        "UpdateServiceSlow",
        UPDATE_SERVICE,
        "One response in a hundred of the update service is slow.",
        "Give it more replicas or processors. Its metrics tell requests by path.",
    ),
];
