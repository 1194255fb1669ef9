package main

import (
	"os"
	"strings"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"golang.org/x/sys/unix"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
)

// What a node offers to the scheduler. The same on every machine, so that the same pods fit.
const (
	cores       = 8
	memoryBytes = 16 << 30
)

// machine describes the host to the kubelet in place of cAdvisor, which wants cgroups that a host in
// namespaces does not have. Identity is real (machine id, boot id, kernel, OS), size is pretended.
type machine struct {
	cadvisortest.Fake
}

// MachineInfo becomes status.capacity and the ids of status.nodeInfo of the Node.
func (machine) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	return &cadvisorapi.MachineInfo{
		NumCores:       cores,
		MemoryCapacity: memoryBytes,
		MachineID:      firstLine("/etc/machine-id"),
		SystemUUID:     firstLine("/etc/machine-id"),
		BootID:         firstLine("/proc/sys/kernel/random/boot_id"),
	}, nil
}

// VersionInfo becomes kernelVersion and osImage of status.nodeInfo of the Node.
func (machine) VersionInfo() (*cadvisorapi.VersionInfo, error) {
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return nil, err
	}
	return &cadvisorapi.VersionInfo{
		KernelVersion:      unix.ByteSliceToString(uname.Release[:]),
		ContainerOsVersion: prettyName("/etc/os-release"),
	}, nil
}

// firstLine is empty where the file cannot be read: a missing id is a missing field of the Node.
func firstLine(path string) string {
	text, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

func prettyName(path string) string {
	text, _ := os.ReadFile(path)
	for _, line := range strings.Split(string(text), "\n") {
		if value, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(value, `"`)
		}
	}
	return "unknown"
}
