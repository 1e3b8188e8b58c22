package catalog

// family contains what the sizes of an instance family have in common.
type family struct {
	arch, manufacturer string
	clockGHz           float64
	burstable          bool
	encryptsTransit    bool
	gpu                GPU // per instance of the smallest size; zero if none
}

const (
	amd64 = "x86_64"
	arm64 = "arm64"
)

func families() map[string]family {
	return map[string]family{
		"c5":   {arch: amd64, manufacturer: "Intel", clockGHz: 3.4},
		"c6g":  {arch: arm64, manufacturer: "AWS", clockGHz: 2.5},
		"c6i":  {arch: amd64, manufacturer: "Intel", clockGHz: 3.5, encryptsTransit: true},
		"c7g":  {arch: arm64, manufacturer: "AWS", clockGHz: 2.6, encryptsTransit: true},
		"g4dn": {arch: amd64, manufacturer: "Intel", clockGHz: 2.5, encryptsTransit: true, gpu: GPU{Name: "T4", Manufacturer: "NVIDIA", Count: 1, MemoryMiB: 16384}},
		"g5":   {arch: amd64, manufacturer: "AMD", clockGHz: 2.8, encryptsTransit: true, gpu: GPU{Name: "A10G", Manufacturer: "NVIDIA", Count: 1, MemoryMiB: 24576}},
		"m5":   {arch: amd64, manufacturer: "Intel", clockGHz: 3.1},
		"m5d":  {arch: amd64, manufacturer: "Intel", clockGHz: 3.1},
		"m6g":  {arch: arm64, manufacturer: "AWS", clockGHz: 2.5},
		"m6i":  {arch: amd64, manufacturer: "Intel", clockGHz: 3.5, encryptsTransit: true},
		"m7g":  {arch: arm64, manufacturer: "AWS", clockGHz: 2.6, encryptsTransit: true},
		"m7i":  {arch: amd64, manufacturer: "Intel", clockGHz: 3.2, encryptsTransit: true},
		"r5":   {arch: amd64, manufacturer: "Intel", clockGHz: 3.1},
		"r6g":  {arch: arm64, manufacturer: "AWS", clockGHz: 2.5},
		"t3":   {arch: amd64, manufacturer: "Intel", clockGHz: 2.5, burstable: true},
		"t4g":  {arch: arm64, manufacturer: "AWS", clockGHz: 2.5, burstable: true, encryptsTransit: true},
	}
}

// size is one line of the price list.
type size struct {
	name          string
	vcpu, mib     int64
	enis, ips     int64 // network interfaces, and IPv4 addresses on each
	usd           float64
	instanceStore int64 // GB of local NVMe
}

func sizes() []size {
	return []size{
		{"c5.large", 2, 4096, 3, 10, 0.085, 0},
		{"c5.xlarge", 4, 8192, 4, 15, 0.17, 0},
		{"c6g.large", 2, 4096, 3, 10, 0.068, 0},
		{"c6g.xlarge", 4, 8192, 4, 15, 0.136, 0},
		{"c6i.large", 2, 4096, 3, 10, 0.085, 0},
		{"c6i.2xlarge", 8, 16384, 4, 15, 0.34, 0},
		{"c7g.large", 2, 4096, 3, 10, 0.0725, 0},
		{"c7g.xlarge", 4, 8192, 4, 15, 0.145, 0},
		{"c7g.2xlarge", 8, 16384, 4, 15, 0.29, 0},
		{"g4dn.xlarge", 4, 16384, 3, 10, 0.526, 125},
		{"g5.xlarge", 4, 16384, 4, 15, 1.006, 250},
		{"g5.2xlarge", 8, 32768, 4, 15, 1.212, 450},
		{"m5.large", 2, 8192, 3, 10, 0.096, 0},
		{"m5.xlarge", 4, 16384, 4, 15, 0.192, 0},
		{"m5.2xlarge", 8, 32768, 4, 15, 0.384, 0},
		{"m5.metal", 96, 393216, 15, 50, 4.608, 0},
		{"m5d.4xlarge", 16, 65536, 8, 30, 0.904, 600},
		{"m6g.large", 2, 8192, 3, 10, 0.077, 0},
		{"m6g.xlarge", 4, 16384, 4, 15, 0.154, 0},
		{"m6i.large", 2, 8192, 3, 10, 0.096, 0},
		{"m6i.xlarge", 4, 16384, 4, 15, 0.192, 0},
		{"m6i.4xlarge", 16, 65536, 8, 30, 0.768, 0},
		{"m7g.large", 2, 8192, 3, 10, 0.0816, 0},
		{"m7g.xlarge", 4, 16384, 4, 15, 0.1632, 0},
		{"m7g.2xlarge", 8, 32768, 4, 15, 0.3264, 0},
		{"m7i.large", 2, 8192, 3, 10, 0.1008, 0},
		{"m7i.xlarge", 4, 16384, 4, 15, 0.2016, 0},
		{"r5.large", 2, 16384, 3, 10, 0.126, 0},
		{"r5.xlarge", 4, 32768, 4, 15, 0.252, 0},
		{"r6g.large", 2, 16384, 3, 10, 0.1008, 0},
		{"r6g.xlarge", 4, 32768, 4, 15, 0.2016, 0},
		{"t3.medium", 2, 4096, 3, 6, 0.0416, 0},
		{"t3.large", 2, 8192, 3, 12, 0.0832, 0},
		{"t4g.medium", 2, 4096, 3, 6, 0.0336, 0},
		{"t4g.large", 2, 8192, 3, 12, 0.0672, 0},
	}
}
