package images

import "testing"

// TestReleases checks what the names of AMIs that AWS publishes say, and which pin them.
func TestReleases(t *testing.T) {
	for name, want := range map[string]struct {
		release Release
		alias   string
	}{
		"amazon-eks-node-al2023-x86_64-standard-1.36-v20251103": {Release{"al2023", "amd64", "standard", "1.36", "v20251103"}, "al2023@v20251103"},
		"amazon-eks-node-al2023-arm64-nvidia-1.36-v20251103":    {Release{"al2023", "arm64", "nvidia", "1.36", "v20251103"}, "al2023@v20251103"},
		"amazon-eks-node-1.32-v20240807":                        {Release{"al2", "amd64", "standard", "1.32", "v20240807"}, "al2@v20240807"},
		"amazon-eks-arm64-node-1.32-v20240807":                  {Release{"al2", "arm64", "standard", "1.32", "v20240807"}, "al2@v20240807"},
		"amazon-eks-gpu-node-1.32-v20240807":                    {Release{"al2", "amd64", "nvidia", "1.32", "v20240807"}, "al2@v20240807"},
		"bottlerocket-aws-k8s-1.36-x86_64-v1.47.0-5d9ac849":     {Release{"bottlerocket", "amd64", "standard", "1.36", "v1.47.0"}, "bottlerocket@v1.47.0"},
		"bottlerocket-aws-k8s-1.36-nvidia-aarch64-v1.47.0":      {Release{"bottlerocket", "arm64", "nvidia", "1.36", "v1.47.0"}, "bottlerocket@v1.47.0"},
		"bottlerocket-aws-k8s-1.36-fips-x86_64-v1.47.0":         {Release{"bottlerocket", "amd64", "fips", "1.36", "v1.47.0"}, ""},
		"Windows_Server-2022-English-Core-EKS_Optimized-1.36-2025.11.03": {
			Release{"windows2022", "amd64", "standard", "1.36", "2025.11.03"}, "",
		},
		"acme-golden-2025": {},
		"amazon-eks-node-al2023-x86_64-standard-1.36-latest": {},
	} {
		got, ok := ReleaseOf(name)
		if got != want.release || ok != (want.release != Release{}) || ok && got.Alias() != want.alias {
			t.Errorf("%s: %+v %q, want %+v %q", name, got, got.Alias(), want.release, want.alias)
		}
	}
}
