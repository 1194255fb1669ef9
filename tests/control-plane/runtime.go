package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	genericapiserver "k8s.io/apiserver/pkg/server"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	fakecri "k8s.io/cri-client/pkg/fake"
	criutil "k8s.io/cri-client/pkg/util"
)

// stopsAfterAnnotation, on a pod, says how long its containers take to end once told to: a Go
// duration such as "3s", or "never" for a process that ignores SIGTERM and is killed when its grace
// period is over. A pod without it ends at once.
const stopsAfterAnnotation = "lab.slipway/stops-after"

// containerRuntime is the CRI's fake runtime (Kubernetes' own, as kubemark runs it), with containers
// that take their time to stop: the fake's stop at once, whatever grace period the pod has. They also
// say where their logs would be: the fake's are nowhere, and a kubelet that cleans up after a container
// removes what the path begins, so it would remove whatever is in its working directory.
type containerRuntime struct {
	*fakecri.RemoteRuntime

	mu         sync.Mutex
	containers map[string]container // by id
}

// container is what the fake does not know of one.
type container struct {
	stopsAfter time.Duration
	logPath    string
}

// newContainerRuntime makes a runtime that is ready, network included.
func newContainerRuntime() *containerRuntime {
	r := &containerRuntime{RemoteRuntime: fakecri.NewFakeRemoteRuntime(), containers: map[string]container{}}
	r.RuntimeService.FakeStatus = &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: cri.RuntimeReady, Status: true},
		{Type: cri.NetworkReady, Status: true},
	}}
	r.ImageService.SetFakeImageSize(1 << 20) // the kubelet takes none for an image it cannot read
	return r
}

// serve answers on endpoint (unix:///path) until ctx is done.
func (r *containerRuntime) serve(ctx context.Context, endpoint string) error {
	path := strings.TrimPrefix(endpoint, "unix://")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("cannot make the folder of %s: %w", endpoint, err)
	}
	listener, err := criutil.CreateListener(endpoint)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", endpoint, err)
	}
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, r)
	cri.RegisterImageServiceServer(server, r)
	context.AfterFunc(ctx, server.Stop)
	go func() { _ = server.Serve(listener) }() // ends with an error exactly when it is stopped
	return nil
}

// CreateContainer notes what the fake does not.
func (r *containerRuntime) CreateContainer(ctx context.Context, req *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	stopsAfter, err := parseStopsAfter(req.GetSandboxConfig().GetAnnotations())
	if err != nil {
		return nil, err
	}
	answer, err := r.RemoteRuntime.CreateContainer(ctx, req)
	if err == nil {
		logPath := filepath.Join(req.GetSandboxConfig().GetLogDirectory(), req.GetConfig().GetLogPath())
		r.mu.Lock()
		r.containers[answer.ContainerId] = container{stopsAfter: stopsAfter, logPath: logPath}
		r.mu.Unlock()
	}
	return answer, err
}

// ContainerStatus adds the path of the log, which nobody writes.
func (r *containerRuntime) ContainerStatus(ctx context.Context, req *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	answer, err := r.RemoteRuntime.ContainerStatus(ctx, req)
	if err == nil {
		r.mu.Lock()
		answer.Status.LogPath = r.containers[req.ContainerId].logPath
		r.mu.Unlock()
	}
	return answer, err
}

// StopContainer lets the container run on for as long as it takes to stop, at most its grace period.
func (r *containerRuntime) StopContainer(ctx context.Context, req *cri.StopContainerRequest) (*cri.StopContainerResponse, error) {
	r.mu.Lock()
	stopsAfter := r.containers[req.ContainerId].stopsAfter
	r.mu.Unlock()
	select {
	case <-time.After(min(stopsAfter, time.Duration(req.Timeout)*time.Second)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return r.RemoteRuntime.StopContainer(ctx, req)
}

// RemoveContainer forgets what CreateContainer noted.
func (r *containerRuntime) RemoveContainer(ctx context.Context, req *cri.RemoveContainerRequest) (*cri.RemoveContainerResponse, error) {
	r.mu.Lock()
	delete(r.containers, req.ContainerId)
	r.mu.Unlock()
	return r.RemoteRuntime.RemoveContainer(ctx, req)
}

func parseStopsAfter(annotations map[string]string) (time.Duration, error) {
	text, ok := annotations[stopsAfterAnnotation]
	switch {
	case !ok:
		return 0, nil
	case text == "never":
		return math.MaxInt64, nil
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("annotation %s: %w", stopsAfterAnnotation, err)
	}
	return duration, nil
}

// newRuntimeCommand is a container runtime as a service of its own, so that containers outlive a
// restart of the kubelet, and end with the host.
func newRuntimeCommand() *cobra.Command {
	var endpoint string
	cmd := &cobra.Command{
		Use:   "container-runtime",
		Short: "a CRI runtime that pretends its containers",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx := genericapiserver.SetupSignalContext()
			if err := newContainerRuntime().serve(ctx, endpoint); err != nil {
				return err
			}
			if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
				return fmt.Errorf("cannot tell systemd that the runtime is up: %w", err)
			}
			<-ctx.Done()
			return nil
		},
	}
	cmd.Flags().StringVar(&endpoint, "listen", "unix:///run/crio/crio.sock", "socket to answer on")
	return cmd
}
