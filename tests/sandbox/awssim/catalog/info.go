package catalog

import (
	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"
)

// Info describes t as DescribeInstanceTypes does.
func (t InstanceType) Info() *ec2.InstanceTypeInfo {
	info := &ec2.InstanceTypeInfo{
		InstanceType:                  aws.String(t.Name),
		CurrentGeneration:             aws.Bool(true),
		FreeTierEligible:              aws.Bool(false),
		SupportedUsageClasses:         aws.StringSlice([]string{"on-demand", "spot"}),
		SupportedRootDeviceTypes:      aws.StringSlice([]string{"ebs"}),
		SupportedVirtualizationTypes:  aws.StringSlice([]string{"hvm"}),
		SupportedBootModes:            aws.StringSlice([]string{"uefi"}),
		BareMetal:                     aws.Bool(t.Metal),
		BurstablePerformanceSupported: aws.Bool(t.family.burstable),
		HibernationSupported:          aws.Bool(false),
		DedicatedHostsSupported:       aws.Bool(!t.family.burstable),
		AutoRecoverySupported:         aws.Bool(!t.Metal),
		InstanceStorageSupported:      aws.Bool(t.InstanceStoreGB > 0),
		ProcessorInfo: &ec2.ProcessorInfo{
			Manufacturer:             aws.String(t.family.manufacturer),
			SupportedArchitectures:   aws.StringSlice([]string{t.Arch}),
			SustainedClockSpeedInGhz: aws.Float64(t.family.clockGHz),
		},
		VCpuInfo:   t.vcpuInfo(),
		MemoryInfo: &ec2.MemoryInfo{SizeInMiB: aws.Int64(t.MemoryMiB)},
		EbsInfo:    t.ebsInfo(),
		NetworkInfo: &ec2.NetworkInfo{
			MaximumNetworkInterfaces:     aws.Int64(t.Interfaces),
			MaximumNetworkCards:          aws.Int64(1),
			DefaultNetworkCardIndex:      aws.Int64(0),
			Ipv4AddressesPerInterface:    aws.Int64(t.AddressesPerInterface),
			Ipv6AddressesPerInterface:    aws.Int64(t.AddressesPerInterface),
			Ipv6Supported:                aws.Bool(true),
			EnaSupport:                   aws.String("required"),
			EfaSupported:                 aws.Bool(false),
			EncryptionInTransitSupported: aws.Bool(t.family.encryptsTransit),
			NetworkCards: []*ec2.NetworkCardInfo{{
				NetworkCardIndex:         aws.Int64(0),
				MaximumNetworkInterfaces: aws.Int64(t.Interfaces),
			}},
		},
		PlacementGroupInfo: &ec2.PlacementGroupInfo{
			SupportedStrategies: aws.StringSlice([]string{"cluster", "partition", "spread"}),
		},
	}
	if !t.Metal {
		info.Hypervisor = aws.String("nitro")
	}
	if t.GPU.Count > 0 {
		info.GpuInfo = t.gpuInfo()
	}
	if t.InstanceStoreGB > 0 {
		info.InstanceStorageInfo = &ec2.InstanceStorageInfo{
			NvmeSupport:   aws.String("required"),
			TotalSizeInGB: aws.Int64(t.InstanceStoreGB),
		}
	}
	return info
}

// vcpuInfo: Graviton has one thread on a core, the others have two.
func (t InstanceType) vcpuInfo() *ec2.VCpuInfo {
	threads := int64(2)
	if t.Arch == arm64 {
		threads = 1
	}
	return &ec2.VCpuInfo{
		DefaultVCpus:          aws.Int64(t.VCPU),
		DefaultCores:          aws.Int64(t.VCPU / threads),
		DefaultThreadsPerCore: aws.Int64(threads),
	}
}

func (t InstanceType) ebsInfo() *ec2.EbsInfo {
	mbps := min(int64(19000), max(int64(4750), t.VCPU*600))
	return &ec2.EbsInfo{
		EbsOptimizedSupport: aws.String("default"),
		EncryptionSupport:   aws.String("supported"),
		NvmeSupport:         aws.String("required"),
		EbsOptimizedInfo: &ec2.EbsOptimizedInfo{
			BaselineBandwidthInMbps:  aws.Int64(mbps / 4),
			BaselineIops:             aws.Int64(mbps),
			BaselineThroughputInMBps: aws.Float64(float64(mbps) / 32),
			MaximumBandwidthInMbps:   aws.Int64(mbps),
			MaximumIops:              aws.Int64(mbps * 4),
			MaximumThroughputInMBps:  aws.Float64(float64(mbps) / 8),
		},
	}
}

func (t InstanceType) gpuInfo() *ec2.GpuInfo {
	return &ec2.GpuInfo{
		TotalGpuMemoryInMiB: aws.Int64(t.GPU.Count * t.GPU.MemoryMiB),
		Gpus: []*ec2.GpuDeviceInfo{{
			Name:         aws.String(t.GPU.Name),
			Manufacturer: aws.String(t.GPU.Manufacturer),
			Count:        aws.Int64(t.GPU.Count),
			MemoryInfo:   &ec2.GpuDeviceMemoryInfo{SizeInMiB: aws.Int64(t.GPU.MemoryMiB)},
		}},
	}
}
