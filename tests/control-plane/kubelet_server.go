package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	kubeletserver "k8s.io/kubernetes/pkg/kubelet/server"
)

// loopback is where a kubelet answers that knows no caller by a certificate.
const loopback = "127.0.0.1"

// readOnlyPort is where a kubelet that serves the API server answers callers without a certificate.
const readOnlyPort = 10255

// serve has the kubelet's server answer for logs of the host's services, as `oc adm node-logs` asks
// for them, and has it know the API server by its client certificate.
func serve(o *kubeletOptions, config *kubeletconfig.KubeletConfiguration) {
	config.EnableSystemLogHandler = true
	config.EnableSystemLogQuery = true
	if o.clientCA == "" {
		return
	}
	config.Address = "0.0.0.0"
	config.ReadOnlyPort = readOnlyPort
	config.Authentication.Anonymous.Enabled = false
	config.Authentication.Webhook.Enabled = false
	config.Authentication.X509.ClientCAFile = o.clientCA
	config.Authorization.Mode = kubeletconfig.KubeletAuthorizationModeAlwaysAllow
}

// newAuth says who may ask the kubelet; nil where nobody outside the host does.
func newAuth(ctx context.Context, o *kubeletOptions, config *kubeletconfig.KubeletConfiguration, client kubernetes.Interface) (kubeletserver.AuthInterface, error) {
	if o.clientCA == "" {
		return nil, nil
	}
	auth, reloadCA, err := kubeletapp.BuildAuth(types.NodeName(o.nodeName), client, *config)
	if err != nil {
		return nil, fmt.Errorf("cannot authenticate callers by %s: %w", o.clientCA, err)
	}
	reloadCA(ctx.Done())
	return auth, nil
}

// serveHealthz answers as the kubelet's health port does, `ok`, but truthfully: it passes on the
// answer of the kubelet's server, which checks the sync loop, and the real port does not.
func serveHealthz(ctx context.Context, o *kubeletOptions) error {
	port := o.port
	if o.clientCA != "" {
		port = readOnlyPort // the other one wants TLS and a client's certificate
	}
	syncLoop := "http://" + net.JoinHostPort(loopback, strconv.Itoa(port)) + "/healthz"
	client := &http.Client{Timeout: 2 * time.Second}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		answer, err := client.Get(syncLoop)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer answer.Body.Close()
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body) // a caller that is gone asks again
	})
	server := &http.Server{Addr: net.JoinHostPort(loopback, strconv.Itoa(o.healthzPort)), Handler: mux, ReadHeaderTimeout: 2 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve /healthz on %s: %w", server.Addr, err)
	}
	return nil
}
