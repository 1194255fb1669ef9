//go:build minor34

package main

import v1 "k8s.io/api/core/v1"

// UpdatePodStatus is called for each status that the kubelet is about to report; without a context
// before 1.35.
func (ready runningIsReady) UpdatePodStatus(_ *v1.Pod, status *v1.PodStatus) {
	ready.update(status)
}
