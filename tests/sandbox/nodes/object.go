package nodes

import (
	"maps"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// kwokAnnotation marks the Nodes whose kubelet kwok plays.
	kwokAnnotation, kwokValue = "kwok.x-k8s.io/node", "fake"
	// attachAnnotation says that the attach-detach controller, not the kubelet, attaches volumes. Every kubelet sets it.
	attachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
	// zoneIDLabel is set by AWS' cloud-controller-manager.
	zoneIDLabel = "topology.k8s.aws/zone-id"
)

// machine is all that a Node is made from.
type machine struct {
	Name, InstanceID, Type, Zone, ZoneID, IP string
	// Arch is Kubernetes' word for it: amd64 or arm64.
	Arch string
	Size size
	Join join
	// KubeletVersion has a leading v.
	KubeletVersion string
}

func (m machine) region() string { return strings.TrimRight(m.Zone, "abcdef") }

func (m machine) providerID() string { return "aws:///" + m.Zone + "/" + m.InstanceID }

// node is what the machine's kubelet posts when it registers: its own labels, those that the cloud tells, and a first status,
// which is not Ready yet.
func (m machine) node(now meta.Time) *core.Node {
	capacity, allocatable := m.Size.resources()
	labels := maps.Clone(m.Join.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, map[string]string{
		core.LabelHostname:           m.Name,
		core.LabelOSStable:           "linux",
		core.LabelArchStable:         m.Arch,
		core.LabelInstanceTypeStable: m.Type,
		core.LabelTopologyRegion:     m.region(),
		core.LabelTopologyZone:       m.Zone,
		zoneIDLabel:                  m.ZoneID,
	})
	return &core.Node{
		ObjectMeta: meta.ObjectMeta{
			Name:        m.Name,
			Labels:      labels,
			Annotations: map[string]string{kwokAnnotation: kwokValue, attachAnnotation: "true"},
		},
		Spec: core.NodeSpec{ProviderID: m.providerID(), Taints: m.Join.Taints},
		Status: core.NodeStatus{
			Capacity:    capacity,
			Allocatable: allocatable,
			Addresses: []core.NodeAddress{
				{Type: core.NodeInternalIP, Address: m.IP},
				{Type: core.NodeInternalDNS, Address: m.Name},
				{Type: core.NodeHostName, Address: m.Name},
			},
			Conditions: []core.NodeCondition{readiness(core.ConditionFalse, "KubeletNotReady", "container runtime network not ready", now)},
			NodeInfo: core.NodeSystemInfo{
				MachineID:               strings.TrimPrefix(m.InstanceID, "i-"),
				KernelVersion:           "6.12",
				OSImage:                 "Amazon Linux 2023",
				OperatingSystem:         "linux",
				Architecture:            m.Arch,
				ContainerRuntimeVersion: "containerd://2.1.5",
				KubeletVersion:          m.KubeletVersion,
			},
		},
	}
}

func readiness(status core.ConditionStatus, reason, message string, now meta.Time) core.NodeCondition {
	return core.NodeCondition{
		Type:               core.NodeReady,
		Status:             status,
		Reason:             reason,
		Message:            message,
		LastHeartbeatTime:  now,
		LastTransitionTime: now,
	}
}
