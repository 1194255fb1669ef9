//go:build !minor34

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// UpdatePodStatus is called for each status that the kubelet is about to report.
func (ready runningIsReady) UpdatePodStatus(_ context.Context, _ *v1.Pod, status *v1.PodStatus) {
	ready.update(status)
}
