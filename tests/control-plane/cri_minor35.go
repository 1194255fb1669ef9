//go:build minor35 || minor34

package main

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	internalapi "k8s.io/cri-api/pkg/apis"
	criclient "k8s.io/cri-client/pkg"
	"k8s.io/klog/v2"
)

// criTimeout is how long the kubelet waits for an answer of its runtime.
const criTimeout = 15 * time.Second

// Before 1.36, the clients take a logger in place of a context.
func newRuntimeService(ctx context.Context, endpoint string) (internalapi.RuntimeService, error) {
	logger := klog.FromContext(ctx)
	return criclient.NewRemoteRuntimeService(endpoint, criTimeout, noop.NewTracerProvider(), &logger)
}

func newImageService(ctx context.Context, endpoint string) (internalapi.ImageManagerService, error) {
	logger := klog.FromContext(ctx)
	return criclient.NewRemoteImageService(endpoint, criTimeout, noop.NewTracerProvider(), &logger)
}
