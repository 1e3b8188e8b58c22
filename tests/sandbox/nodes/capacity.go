package nodes

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// memoryOverhead is the share of an instance's memory that its kernel and firmware use, as Karpenter assumes, too
// (karpenter-provider-aws, setting vmMemoryOverheadPercent).
const memoryOverhead = 0.075

// Nodes have the root volume of EKS' images, in GiB, of which kubelet reserves some.
const (
	diskGiB            = 20
	allocatableDiskGiB = 17
)

// size contains a machine's resources.
type size struct {
	VCPU      int
	MemoryMiB int64
	MaxPods   int
	// GPUs are counted by their device plugin under this resource name.
	GPUs        int64
	GPUResource corev1.ResourceName
}

// resources returns what a machine's kubelet reports. EKS' images reserve a share of the CPUs that shrinks with their
// number, memory by the number of pods, and 100 MiB below which pods are evicted (awslabs/amazon-eks-ami,
// nodeadm/internal/kubelet).
func (s size) resources() (capacity, allocatable corev1.ResourceList) {
	memory := int64(math.Ceil(float64(s.MemoryMiB) * (1 - memoryOverhead)))
	reservedMemory := int64(11*s.MaxPods+255) + 100

	capacity = corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse(fmt.Sprint(s.VCPU)),
		corev1.ResourceMemory:           mebibytes(memory),
		corev1.ResourcePods:             resource.MustParse(fmt.Sprint(s.MaxPods)),
		corev1.ResourceEphemeralStorage: mebibytes(diskGiB << 10),
	}
	allocatable = capacity.DeepCopy()
	allocatable[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(s.VCPU)*1000-reservedMilliCPU(s.VCPU), resource.DecimalSI)
	allocatable[corev1.ResourceMemory] = mebibytes(memory - reservedMemory)
	allocatable[corev1.ResourceEphemeralStorage] = mebibytes(allocatableDiskGiB << 10)

	if s.GPUs > 0 {
		capacity[s.GPUResource] = *resource.NewQuantity(s.GPUs, resource.DecimalSI)
		allocatable[s.GPUResource] = *resource.NewQuantity(s.GPUs, resource.DecimalSI)
	}
	return capacity, allocatable
}

// reservedMilliCPU returns 6% of the first CPU, 1% of the second, 0.5% of the next two and 0.25% of all others.
func reservedMilliCPU(cpus int) int64 {
	reserved := 0.0
	for i := range cpus {
		switch {
		case i == 0:
			reserved += 60
		case i == 1:
			reserved += 10
		case i < 4:
			reserved += 5
		default:
			reserved += 2.5
		}
	}
	return int64(reserved)
}

func mebibytes(n int64) resource.Quantity { return *resource.NewQuantity(n<<20, resource.BinarySI) }
