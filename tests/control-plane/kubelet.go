package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	feature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	probetest "k8s.io/kubernetes/pkg/kubelet/prober/testing"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/kubernetes/pkg/kubemark"
	"k8s.io/kubernetes/pkg/util/oom"
)

// kubeletOptions are the flags of the kubelet.
type kubeletOptions struct {
	kubeconfig      string
	nodeName        string
	nodeIP          string
	rootDir         string
	staticPodDir    string
	runtimeEndpoint string
	realPods        bool
	clientCA        string // empty: nothing outside the host asks this kubelet
	port            int
	healthzPort     int
	maxPods         int32
}

// newKubeletCommand is Kubernetes' kubelet: with --real-pods over a real container runtime, with its
// own mounts, probes, logs and server. Without, as kubemark's hollow node runs it (the real sync loop,
// status, lease, volumes and mirror pods) over a runtime that pretends the containers.
func newKubeletCommand() *cobra.Command {
	var o kubeletOptions
	cmd := &cobra.Command{
		Use:   "kubelet",
		Short: "a kubelet over a real or a pretended container runtime",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return runKubelet(genericapiserver.SetupSignalContext(), &o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "/var/lib/kubelet/kubeconfig", "credentials of system:node:NAME")
	flags.StringVar(&o.nodeName, "node-name", "", "name of the Node")
	flags.StringVar(&o.nodeIP, "node-ip", "", "address of the Node; one of this host's own")
	flags.StringVar(&o.rootDir, "root-dir", "/var/lib/kubelet", "where volumes and checkpoints are kept")
	flags.StringVar(&o.staticPodDir, "static-pod-dir", "/etc/kubernetes/manifests", "folder of static pods")
	flags.StringVar(&o.runtimeEndpoint, "container-runtime-endpoint", "", "socket of the container runtime; without it a pretended one runs, and ends, with the kubelet")
	flags.BoolVar(&o.realPods, "real-pods", false, "the container runtime is a real one: mount volumes, probe containers, serve their logs and exec")
	flags.StringVar(&o.clientCA, "client-ca-file", "", "authority that signed the API server's client certificate; with it the kubelet serves the API server on all addresses, also the host's logs")
	flags.IntVar(&o.port, "port", 10250, "port of the kubelet's own server, on "+loopback+" without --client-ca-file")
	flags.IntVar(&o.healthzPort, "healthz-port", 10248, "port of /healthz, on "+loopback)
	flags.Int32Var(&o.maxPods, "max-pods", 110, "pods that fit on the node")
	_ = cmd.MarkFlagRequired("node-name") // fails only for a flag that does not exist
	return cmd
}

func runKubelet(ctx context.Context, o *kubeletOptions) error {
	if o.runtimeEndpoint == "" {
		o.runtimeEndpoint = "unix://" + filepath.Join(o.rootDir, "runtime.sock")
		if err := newContainerRuntime().serve(ctx, o.runtimeEndpoint); err != nil {
			return err
		}
	}
	flags, config, err := kubeletSettings(o)
	if err != nil {
		return err
	}
	server := &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *config}
	dependencies, err := newDependencies(ctx, o, server)
	if err != nil {
		return err
	}
	// Not kubemark's own Run, which never returns and so ignores SIGTERM.
	if err := kubeletapp.RunKubelet(ctx, server, dependencies); err != nil {
		return fmt.Errorf("cannot start the kubelet: %w", err)
	}
	failed := make(chan error, 1)
	go func() { failed <- serveHealthz(ctx, o) }()
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		return fmt.Errorf("cannot tell systemd that the kubelet is up: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// kubeletSettings are upstream's defaults, but for what a host in namespaces lacks and for times
// that suit a lab.
func kubeletSettings(o *kubeletOptions) (*options.KubeletFlags, *kubeletconfig.KubeletConfiguration, error) {
	flags := options.NewKubeletFlags()
	flags.RootDirectory = o.rootDir
	flags.CertDirectory = filepath.Join(o.rootDir, "pki")
	flags.HostnameOverride = o.nodeName
	flags.NodeIP = o.nodeIP

	config, err := options.NewKubeletConfiguration()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make the kubelet's default configuration: %w", err)
	}
	config.Address = loopback
	config.Port = int32(o.port)
	config.ReadOnlyPort = 0
	config.StaticPodPath = o.staticPodDir
	config.FileCheckFrequency.Duration = 2 * time.Second
	config.ContainerRuntimeEndpoint = o.runtimeEndpoint
	config.ImageServiceEndpoint = o.runtimeEndpoint
	config.PodLogsDir = filepath.Join(o.rootDir, "pod-logs")
	config.MaxPods = o.maxPods
	config.RegisterNode = true
	config.EnableControllerAttachDetach = false

	// Heartbeats: the lease is renewed every quarter of its duration, status is compared every 2 s
	// and sent when it differs. A host that dies is known after the controller manager's grace.
	config.NodeLeaseDurationSeconds = 10
	config.NodeStatusUpdateFrequency.Duration = 2 * time.Second

	// The kernel's part is pretended, and the host's own is left alone: no cgroups to nest pods in,
	// no eviction, no packet filter rules, no resolver of which a small host has none.
	config.MakeIPTablesUtilChains = false
	config.ResolverConfig = ""
	config.MaxOpenFiles = 1024
	config.LocalStorageCapacityIsolation = false
	config.CgroupsPerQOS = false
	config.EnforceNodeAllocatable = []string{}
	config.FailSwapOn = false
	config.FailCgroupV1 = false
	config.EvictionHard = map[string]string{}

	serve(o, config)
	if o.realPods {
		// Images of a demo's size are pulled side by side.
		config.SerializeImagePulls = false
		// A lab does not wait until an image is old. At its start the kubelet collects images as of
		// a moment before it sees them, which is an age below zero.
		config.ImageMinimumGCAge.Duration = -time.Minute
		// Whoever takes room looks at what the node offers.
		config.LocalStorageCapacityIsolation = true
	}
	return flags, config, nil
}

// newDependencies gives the kubelet its hands: clients, runtime, and fakes for what a host in
// namespaces lacks. Over a pretended runtime, mounts and probes are pretended, too.
func newDependencies(ctx context.Context, o *kubeletOptions, server *options.KubeletServer) (*kubelet.Dependencies, error) {
	config := &server.KubeletConfiguration
	client, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read the kubeconfig %s: %w", o.kubeconfig, err)
	}
	client.UserAgent = "kubelet"
	client.ContentType = "application/vnd.kubernetes.protobuf"
	client.QPS = float32(config.KubeAPIQPS)
	client.Burst = int(config.KubeAPIBurst)
	clientset, err := kubernetes.NewForConfig(client)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	// As upstream: a heartbeat that hangs must not outlive the next, nor wait for other requests.
	heartbeat := *client
	heartbeat.Timeout = config.NodeStatusUpdateFrequency.Duration
	heartbeat.QPS = -1
	heartbeatset, err := kubernetes.NewForConfig(&heartbeat)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for heartbeats: %w", err)
	}

	runtime, err := newRuntimeService(ctx, o.runtimeEndpoint)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the container runtime at %s: %w", o.runtimeEndpoint, err)
	}
	images, err := newImageService(ctx, o.runtimeEndpoint)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the image service at %s: %w", o.runtimeEndpoint, err)
	}

	auth, err := newAuth(ctx, o, config, clientset)
	if err != nil {
		return nil, err
	}

	if !o.realPods {
		hollow := kubemark.NewHollowKubelet(&server.KubeletFlags, config, clientset, heartbeatset, &machine{}, images, runtime, cm.NewStubContainerManager())
		hollow.KubeletDeps.OSInterface = kubecontainer.RealOS{}
		hollow.KubeletDeps.ProbeManager = runningIsReady{}
		if auth != nil {
			tls, err := kubeletapp.InitializeTLS(ctx, &server.KubeletFlags, config)
			if err != nil {
				return nil, fmt.Errorf("cannot make the kubelet's certificate: %w", err)
			}
			hollow.KubeletDeps.TLSOptions = tls
			hollow.KubeletDeps.Auth = auth
		}
		return hollow.KubeletDeps, nil
	}

	dependencies, err := kubeletapp.UnsecuredDependencies(ctx, server, feature.DefaultFeatureGate)
	if err != nil {
		return nil, fmt.Errorf("cannot prepare the kubelet: %w", err)
	}
	dependencies.Auth = auth
	dependencies.KubeClient = clientset
	dependencies.HeartbeatClient = heartbeatset
	dependencies.Recorder = &record.FakeRecorder{} // a real one reads /dev/kmsg, which a host in namespaces lacks
	dependencies.RemoteRuntimeService = runtime
	dependencies.RemoteImageService = images
	dependencies.PodStartupLatencyTracker = kubeletutil.NewPodStartupLatencyTracker()
	dependencies.NodeStartupLatencyTracker = kubeletutil.NewNodeStartupLatencyTracker()
	dependencies.CAdvisorInterface = &machine{}
	dependencies.ContainerManager = withDisk{cm.NewStubContainerManager()}
	dependencies.OOMAdjuster = oom.NewFakeOOMAdjuster()
	return dependencies, nil
}

// runningIsReady stands in for probes, for which there is no process: a container is ready exactly
// while it runs. Kubemark's own says that every container is, also one that has ended.
type runningIsReady struct {
	probetest.FakeManager
}

// update sets ready and started of each container.
func (runningIsReady) update(status *v1.PodStatus) {
	for _, containers := range [][]v1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range containers {
			running := containers[i].State.Running != nil
			containers[i].Ready = running
			containers[i].Started = &running
		}
	}
}
