package karpenter

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestImageTag(t *testing.T) {
	cases := map[string]string{
		"public.ecr.aws/karpenter/controller:1.14.1@sha256:00": "1.14.1",
		"public.ecr.aws/karpenter/controller:v0.32.1":          "0.32.1",
		"127.0.0.1:5000/controller@sha256:00":                  "",
		"127.0.0.1:5000/controller:1.0.8":                      "1.0.8",
	}
	for image, want := range cases {
		if got := imageTag(image); got != want {
			t.Errorf("tag of %s: got %q, want %q", image, got, want)
		}
	}
}

func TestDivideRoundsUp(t *testing.T) {
	cases := map[string]struct{ amount, divisor, want string }{
		"milli":       {"250m", "1m", "250"},
		"whole":       {"1Gi", "0", "1073741824"},
		"rounded up":  {"1500m", "1", "2"},
		"into a unit": {"3Gi", "1Gi", "3"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := divide(resource.MustParse(c.amount), resource.MustParse(c.divisor)); got != c.want {
				t.Errorf("%s / %s: got %s, want %s", c.amount, c.divisor, got, c.want)
			}
		})
	}
}
