package nodes

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// kwokAnnotation marks the Nodes whose kubelet kwok simulates.
	kwokAnnotation, kwokValue = "kwok.x-k8s.io/node", "fake"
	// attachAnnotation means that the attach-detach controller, not the kubelet, attaches volumes. Every kubelet sets
	// it.
	attachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
	// zoneIDLabel is set by AWS' cloud-controller-manager.
	zoneIDLabel = "topology.k8s.aws/zone-id"
)

// machine contains everything that a Node is created from.
type machine struct {
	Name, InstanceID, Type, Zone, ZoneID, IP string
	// Arch is Kubernetes' name for it: amd64 or arm64.
	Arch string
	Size size
	Join join
	// KubeletVersion has a leading v.
	KubeletVersion string
}

func (m machine) region() string { return strings.TrimRight(m.Zone, "abcdef") }

func (m machine) providerID() string { return "aws:///" + m.Zone + "/" + m.InstanceID }

// node returns what the machine's kubelet posts when it registers: its own labels, those from the cloud, and an initial
// status, which is not Ready yet.
func (m machine) node(now metav1.Time) *corev1.Node {
	capacity, allocatable := m.Size.resources()
	labels := maps.Clone(m.Join.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, map[string]string{
		corev1.LabelHostname:           m.Name,
		corev1.LabelOSStable:           "linux",
		corev1.LabelArchStable:         m.Arch,
		corev1.LabelInstanceTypeStable: m.Type,
		corev1.LabelTopologyRegion:     m.region(),
		corev1.LabelTopologyZone:       m.Zone,
		zoneIDLabel:                    m.ZoneID,
	})
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        m.Name,
			Labels:      labels,
			Annotations: map[string]string{kwokAnnotation: kwokValue, attachAnnotation: "true"},
		},
		Spec: corev1.NodeSpec{ProviderID: m.providerID(), Taints: m.Join.Taints},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: allocatable,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: m.IP},
				{Type: corev1.NodeInternalDNS, Address: m.Name},
				{Type: corev1.NodeHostName, Address: m.Name},
			},
			Conditions: []corev1.NodeCondition{readiness(corev1.ConditionFalse, "KubeletNotReady", "container runtime network not ready", now)},
			NodeInfo: corev1.NodeSystemInfo{
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

func readiness(status corev1.ConditionStatus, reason, message string, now metav1.Time) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type:               corev1.NodeReady,
		Status:             status,
		Reason:             reason,
		Message:            message,
		LastHeartbeatTime:  now,
		LastTransitionTime: now,
	}
}
