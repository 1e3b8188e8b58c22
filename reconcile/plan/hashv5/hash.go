// Package hashv5 computes hash version v5 of EC2NodeClasses, which Karpenter 1.12 to 1.14 use. The linked library
// computes the version of the newest Karpenter, and most clusters run one of the LTS lines.
//
// Its input is the object as the API server stores it, and its output is the value of Karpenter's annotation
// karpenter.k8s.aws/ec2nodeclass-hash. It does no I/O.
//
// testdata has objects with the hashes that Karpenter 1.14.3 computes of them, written by testdata/record.go.
package hashv5

import (
	"fmt"
	"strconv"

	"github.com/mitchellh/hashstructure/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Version is the value of Karpenter's annotation karpenter.k8s.aws/ec2nodeclass-hash-version.
const Version = "v5"

// Hash returns the hash of the spec of an EC2NodeClass. family is its AMI family, if that is not set by the one in the
// alias of its AMIs; bundle is the CA bundle of the cluster in base64. A field that has another type than in the schema
// of Karpenter 1.14 is an error.
// Source: EC2NodeClass.Hash in karpenter-provider-aws pkg/apis/v1/ec2nodeclass.go, 1.14.3.
func Hash(spec map[string]any, family, bundle string) (string, error) {
	var typed EC2NodeClassSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &typed); err != nil {
		return "", fmt.Errorf("read the spec for hash version %s: %w", Version, err)
	}
	sum, err := hashstructure.Hash([]any{typed, family, bundle}, hashstructure.FormatV2, &hashstructure.HashOptions{
		SlicesAsSets:    true,
		IgnoreZeroValue: true,
		ZeroNil:         true,
	})
	if err != nil {
		return "", fmt.Errorf("compute hash version %s: %w", Version, err)
	}
	return strconv.FormatUint(sum, 10), nil
}

// The fields that are hashed. The library hashes the names of structs and of fields too, so that none of them may be
// renamed. Selector terms, amiFamily and ipPrefixCount are not hashed.
type (
	// EC2NodeClassSpec is the part of a spec that is hashed.
	EC2NodeClassSpec struct {
		PlacementGroupSelector   *PlacementGroupSelector `json:"placementGroupSelector"`
		AssociatePublicIPAddress *bool                   `json:"associatePublicIPAddress"`
		UserData                 *string                 `json:"userData"`
		Role                     string                  `json:"role"`
		InstanceProfile          *string                 `json:"instanceProfile"`
		Tags                     map[string]string       `json:"tags"`
		Kubelet                  *KubeletConfiguration   `json:"kubelet"`
		BlockDeviceMappings      []*BlockDeviceMapping   `json:"blockDeviceMappings"`
		InstanceStorePolicy      *string                 `json:"instanceStorePolicy"`
		NetworkInterfaces        []*NetworkInterface     `json:"networkInterfaces"`
		DetailedMonitoring       *bool                   `json:"detailedMonitoring"`
		MetadataOptions          *MetadataOptions        `json:"metadataOptions"`
		ConnectionTracking       *ConnectionTracking     `json:"connectionTracking"`
		Context                  *string                 `json:"context"`
		CPUOptions               *CPUOptions             `json:"cpuOptions"`
	}

	// PlacementGroupSelector is spec.placementGroupSelector.
	PlacementGroupSelector struct {
		Name *string `json:"name"`
		ID   *string `json:"id"`
	}

	// KubeletConfiguration is spec.kubelet.
	KubeletConfiguration struct {
		ClusterDNS                  []string                   `json:"clusterDNS"`
		MaxPods                     *int32                     `json:"maxPods"`
		PodsPerCore                 *int32                     `json:"podsPerCore"`
		SystemReserved              map[string]string          `json:"systemReserved"`
		KubeReserved                map[string]string          `json:"kubeReserved"`
		EvictionHard                map[string]string          `json:"evictionHard"`
		EvictionSoft                map[string]string          `json:"evictionSoft"`
		EvictionSoftGracePeriod     map[string]metav1.Duration `json:"evictionSoftGracePeriod"`
		EvictionMaxPodGracePeriod   *int32                     `json:"evictionMaxPodGracePeriod"`
		ImageGCHighThresholdPercent *int32                     `json:"imageGCHighThresholdPercent"`
		ImageGCLowThresholdPercent  *int32                     `json:"imageGCLowThresholdPercent"`
		CPUCFSQuota                 *bool                      `json:"cpuCFSQuota"`
	}

	// BlockDeviceMapping is an item of spec.blockDeviceMappings.
	BlockDeviceMapping struct {
		DeviceName *string      `json:"deviceName"`
		EBS        *BlockDevice `json:"ebs"`
		RootVolume bool         `json:"rootVolume"`
	}

	// BlockDevice is ebs of a BlockDeviceMapping.
	BlockDevice struct {
		DeleteOnTermination      *bool              `json:"deleteOnTermination"`
		Encrypted                *bool              `json:"encrypted"`
		IOPS                     *int64             `json:"iops"`
		KMSKeyID                 *string            `json:"kmsKeyID"`
		SnapshotID               *string            `json:"snapshotID"`
		Throughput               *int64             `json:"throughput"`
		VolumeInitializationRate *int32             `json:"volumeInitializationRate"`
		VolumeSize               *resource.Quantity `json:"volumeSize" hash:"string"`
		VolumeType               *string            `json:"volumeType"`
	}

	// NetworkInterface is an item of spec.networkInterfaces.
	NetworkInterface struct {
		NetworkCardIndex int32  `json:"networkCardIndex"`
		DeviceIndex      int32  `json:"deviceIndex"`
		InterfaceType    string `json:"interfaceType"`
	}

	// MetadataOptions is spec.metadataOptions.
	MetadataOptions struct {
		HTTPEndpoint            *string `json:"httpEndpoint"`
		HTTPProtocolIPv6        *string `json:"httpProtocolIPv6"`
		HTTPPutResponseHopLimit *int64  `json:"httpPutResponseHopLimit"`
		HTTPTokens              *string `json:"httpTokens"`
	}

	// ConnectionTracking is spec.connectionTracking.
	ConnectionTracking struct {
		TCPEstablishedTimeout *int32 `json:"tcpEstablishedTimeout"`
		UDPStreamTimeout      *int32 `json:"udpStreamTimeout"`
		UDPTimeout            *int32 `json:"udpTimeout"`
	}

	// CPUOptions is spec.cpuOptions.
	CPUOptions struct {
		NestedVirtualization *string `json:"nestedVirtualization"`
	}
)
