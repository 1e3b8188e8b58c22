package karpenter

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCheckTested: what is newer than the tables is named, until it is accepted by
// that very name.
func TestCheckTested(t *testing.T) {
	cases := map[string]struct {
		kubernetes, karpenter string
		accepted              []string
		want                  []string
	}{
		"known":                        {kubernetes: "v1.36.3", karpenter: newest},
		"a patch of the newest":        {kubernetes: "1.36", karpenter: "1.14.9"},
		"an older karpenter":           {kubernetes: "1.36", karpenter: "1.8.6"},
		"kubernetes":                   {kubernetes: "v1.99.0-eks-1", karpenter: newest, want: []string{"kubernetes 1.99"}},
		"kubernetes, accepted":         {kubernetes: "v1.99.0-eks-1", karpenter: newest, accepted: []string{"kubernetes 1.99"}},
		"another kubernetes, accepted": {kubernetes: "v1.99.0", karpenter: newest, accepted: []string{"kubernetes 1.98"}, want: []string{"kubernetes 1.99"}},
		"karpenter":                    {kubernetes: "1.36", karpenter: "1.99.0", want: []string{"karpenter 1.99.0"}},
		"karpenter, accepted":          {kubernetes: "1.36", karpenter: "1.99.0", accepted: []string{"karpenter 1.99.0"}},
		"another patch, accepted":      {kubernetes: "1.36", karpenter: "1.99.1", accepted: []string{"karpenter 1.99.0"}, want: []string{"karpenter 1.99.1"}},
		"both":                         {kubernetes: "1.99", karpenter: "2.0.0", want: []string{"karpenter 2.0.0", "kubernetes 1.99"}},
		"both, one accepted":           {kubernetes: "1.99", karpenter: "2.0.0", accepted: []string{"karpenter 2.0.0"}, want: []string{"kubernetes 1.99"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := CheckTested(c.kubernetes, c.karpenter, c.accepted)
			var untested *UntestedError
			if err != nil && !errors.As(err, &untested) {
				t.Fatal(err)
			}
			var names []string
			if untested != nil {
				names = untested.Names
				if line := "acceptUntested: [" + strings.Join(names, ", ") + "]"; !strings.Contains(err.Error(), line) {
					t.Errorf("%q does not say %q", err, line)
				}
			}
			if diff := cmp.Diff(c.want, names); diff != "" {
				t.Error(diff)
			}
		})
	}
	if err := CheckTested("main", newest, nil); err == nil {
		t.Error("no error for a Kubernetes without a version")
	}
}
