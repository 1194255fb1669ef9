// Command lab-kubernetes is Kubernetes for one machine: the programs of a control plane and of
// a node, in one binary.
//
// The program is chosen by the first argument, or by the name the binary was called by, so that a
// link named kube-apiserver is a kube-apiserver:
//
//	lab-kubernetes kube-apiserver --etcd-servers=...
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the components' client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // and their version
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// programs maps a name to its program. Each reads its own arguments from os.Args[1:].
var programs = map[string]func(){
	"kube-apiserver":          component(apiserver.NewAPIServerCommand),
	"kube-controller-manager": component(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          component(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet":                 component(newKubeletCommand),
	"kube-proxy":              component(proxy.NewProxyCommand),
	"container-runtime":       component(newRuntimeCommand),
	"pki":                     component(newPKICommand),
}

func main() {
	if program, ok := programs[filepath.Base(os.Args[0])]; ok {
		program()
		return
	}
	if len(os.Args) > 1 {
		if program, ok := programs[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			program()
			return
		}
	}
	names := make([]string, 0, len(programs))
	for name := range programs {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintf(os.Stderr, "usage: lab-kubernetes PROGRAM [ARGUMENT...], with one of these programs: %s\n", strings.Join(names, " "))
	os.Exit(2)
}

// component runs a command as the upstream main of its component does. The command is built only
// when it is the one asked for, because building registers flags and feature gates of the process.
func component(build func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(build())) }
}
