package allowance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRequests(t *testing.T) {
	public := Request{Repository: "oci://public.ecr.aws/karpenter", Version: "1.14.1"}
	for name, c := range map[string]struct {
		allow   Allowance
		request Request
		want    string // of the Refusal; empty: none
	}{
		"the public repository":   {Allowance{}, public, ""},
		"another by default":      {Allowance{}, Request{Repository: "oci://evil.example.com/karpenter"}, `repository oci://evil.example.com/karpenter is not one that this NodeSync takes charts from, which are oci://public.ecr.aws/karpenter (to allow it: spec.charts.allow.repositories: ["oci://evil.example.com/karpenter"])`},
		"one that begins alike":   {Allowance{}, Request{Repository: "oci://public.ecr.aws/karpenter/../evil"}, "repository"},
		"one with a longer name":  {Allowance{}, Request{Repository: "oci://public.ecr.aws/karpenter.evil"}, "repository"},
		"one by another protocol": {Allowance{}, Request{Repository: "https://public.ecr.aws/karpenter"}, "repository"},
		"charts in Git":           {Allowance{}, Request{Repository: "./charts"}, `to allow it: spec.charts.allow.repositories: ["./charts"]`},
		"those that are allowed":  {Allowance{Repositories: []string{"charts/"}}, Request{Repository: "./charts"}, ""},
		"other charts in Git":     {Allowance{Repositories: []string{"./charts"}}, Request{Repository: "../charts"}, "repository ../charts"},
		"named, with a slash":     {Allowance{Repositories: []string{"oci://mirror/karpenter/"}}, Request{Repository: "oci://mirror/karpenter"}, ""},
		"public beside a mirror":  {Allowance{Repositories: []string{"oci://mirror/karpenter"}}, public, "repository oci://public.ecr.aws/karpenter is not one"},
		"a version in range":      {Allowance{Versions: ">=1.14 <1.16"}, public, ""},
		"a version out of range":  {Allowance{Versions: ">=1.15"}, public, `version 1.14.1 is not in the range >=1.15 (to allow it: spec.charts.allow.versions: ">=1.15 || 1.14.1")`},
		"a range that is none":    {Allowance{Versions: "newest"}, public, "version 1.14.1 is not in the range newest"},
		"no version":              {Allowance{Versions: ">=1.15"}, Request{Repository: "oci://public.ecr.aws/karpenter"}, ""},
		"a role":                  {Allowance{}, Request{Repository: "oci://public.ecr.aws/karpenter", ControllerRole: "arn:aws:iam::1:role/admin"}, `cluster.controllerRole arn:aws:iam::1:role/admin changes the identity that Karpenter has in AWS (to allow it: spec.charts.allow.controllerRoles: ["arn:aws:iam::1:role/admin"])`},
		"the role that is named":  {Allowance{ControllerRoles: []string{"arn:aws:iam::1:role/k"}}, Request{Repository: "oci://public.ecr.aws/karpenter", ControllerRole: "arn:aws:iam::1:role/k"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := Refuse(c.allow.Check(c.request))
			if (err == nil) != (c.want == "") {
				t.Fatalf("refused: %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused: %v, want %q", err, c.want)
			}
		})
	}
}

func TestDigests(t *testing.T) {
	if found := (Allowance{}).CheckDigests("sha256:a", "sha256:b"); found != nil {
		t.Errorf("refused by default: %v", found)
	}
	found := (Allowance{Digests: []string{"sha256:a"}}).CheckDigests("sha256:a", "sha256:b")
	want := []Refusal{{What: "a chart with digest sha256:b", Why: "is none of those that this NodeSync names", Field: fieldDigests, Entry: "sha256:b"}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

func TestAMessageIsBounded(t *testing.T) {
	err := Refuse(make([]Refusal, 8))
	if !strings.HasSuffix(err.Error(), "; and 3 more") {
		t.Errorf("%v", err)
	}
}
