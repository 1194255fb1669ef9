package main

import (
	"fmt"
	"os"
	"strings"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	cadvisorapiv2 "github.com/google/cadvisor/info/v2"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
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

// diskFile stands in for what the file system says of itself: capacity and free bytes.
const diskFile = "/etc/lab/disk"

// GetDirFsInfo is the file system below a path, by which the kubelet collects images.
func (machine) GetDirFsInfo(path string) (cadvisorapiv2.FsInfo, error) {
	var info cadvisorapiv2.FsInfo
	if _, err := fmt.Sscan(firstLine(diskFile), &info.Capacity, &info.Available); err != nil {
		var stat unix.Statfs_t
		if err := unix.Statfs(path, &stat); err != nil {
			return info, fmt.Errorf("cannot ask for the file system of %s: %w", path, err)
		}
		info.Capacity = stat.Blocks * uint64(stat.Bsize)
		info.Available = stat.Bavail * uint64(stat.Bsize)
	}
	info.Usage = info.Capacity - info.Available
	return info, nil
}

// RootFsInfo is the file system of the kubelet's own files.
func (m machine) RootFsInfo() (cadvisorapiv2.FsInfo, error) {
	return m.GetDirFsInfo("/var")
}

// withDisk has a node offer its disk to pods: upstream's stub offers none.
type withDisk struct {
	cm.ContainerManager
}

// GetCapacity becomes status.capacity of the Node, beside what MachineInfo says.
func (d withDisk) GetCapacity(localStorageCapacityIsolation bool) v1.ResourceList {
	capacity := d.ContainerManager.GetCapacity(localStorageCapacityIsolation)
	disk, err := machine{}.RootFsInfo()
	if err == nil {
		capacity[v1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(disk.Capacity), resource.BinarySI)
	}
	return capacity
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
