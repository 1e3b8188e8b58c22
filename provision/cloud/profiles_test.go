package cloud

import "testing"

// TestRegionOf: the region is that of this cluster's path, and of no other one's.
func TestRegionOf(t *testing.T) {
	for path, want := range map[string]string{
		"/karpenter/us-east-1/demo/uid/": "us-east-1", "/karpenter/us-east-1/demo/": "us-east-1",
		"/karpenter/us-east-1/demo2/uid/": "", "/karpenter/us-east-1/": "", "/": "", "/app/us-east-1/demo/": "",
	} {
		if got := regionOf(path, "demo"); got != want {
			t.Errorf("%s is of %q, want %q", path, got, want)
		}
	}
}
