//go:build !minor35 && !minor34

package main

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	internalapi "k8s.io/cri-api/pkg/apis"
	criclient "k8s.io/cri-client/pkg"
)

// criTimeout is how long the kubelet waits for an answer of its runtime.
const criTimeout = 15 * time.Second

func newRuntimeService(ctx context.Context, endpoint string) (internalapi.RuntimeService, error) {
	return criclient.NewRemoteRuntimeService(ctx, endpoint, criTimeout, noop.NewTracerProvider(), false)
}

func newImageService(ctx context.Context, endpoint string) (internalapi.ImageManagerService, error) {
	return criclient.NewRemoteImageService(ctx, endpoint, criTimeout, noop.NewTracerProvider(), false)
}
