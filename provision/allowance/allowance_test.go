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
		want    string // of the Refusal; empty if none
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
	public, inGit := Request{Repository: "oci://public.ecr.aws/karpenter"}, Request{Repository: "./charts", Secrets: true}
	const reads = "would let everyone who can change the chart with digest sha256:a read the Secret"
	for name, c := range map[string]struct {
		digests []string
		request Request
		want    []Refusal
	}{
		"by default": {nil, public, nil},
		"another": {[]string{"sha256:b"}, public, []Refusal{
			{What: "a chart with digest sha256:a", Why: "is none of those that this NodeSync names", Field: fieldDigests, Entry: "sha256:a"},
		}},
		"Secrets with charts of a registry": {nil, Request{Repository: "oci://mirror/karpenter", Secrets: true}, nil},
		"Secrets with the public charts":    {nil, Request{Secrets: true}, nil},
		"charts in Git without Secrets":     {nil, Request{Repository: "./charts"}, nil},
		"Secrets with charts in Git": {nil, inGit, []Refusal{
			{What: "valuesFrom a Secret with charts in Git", Why: reads, Field: fieldDigests, Entry: "sha256:a"},
			{What: "valuesFrom a Secret with charts in Git", Why: strings.Replace(reads, "sha256:a", "sha256:b", 1), Field: fieldDigests, Entry: "sha256:b"},
		}},
		"Secrets with charts in Git that are fixed": {[]string{"sha256:a", "sha256:b"}, inGit, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Allowance{Digests: c.digests}.CheckDigests(c.request, "sha256:a", "sha256:b")); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPathsAreWrittenInTwoWays: an entry of charts.allow.values means the same with dots and with brackets, and never
// matches a path that only has the same prefix.
func TestPathsAreWrittenInTwoWays(t *testing.T) {
	for name, c := range map[string]struct {
		values  string
		entries []string
		allowed bool
	}{
		"a label":               {"podLabels: {token: x}", []string{"podLabels.token", "podLabels[token]", "podLabels", "*"}, true},
		"another label":         {"podLabels: {tokens: x}", []string{"podLabels.token", "podLabels[token]", "podLabel"}, false},
		"a label with dots":     {"podLabels: {example.com/a.b: x}", []string{"podLabels.example.com/a.b", "podLabels[example.com/a.b]"}, true},
		"the parts of one":      {"podLabels: {example.com/a.b: x}", []string{"podLabels.example", "podLabels.example.com/a", "podLabels[example][com/a][b]"}, false},
		"a role":                {"serviceAccount: {annotations: {eks.amazonaws.com/role-arn: x}}", []string{"serviceAccount.annotations.eks.amazonaws.com/role-arn", "serviceAccount[annotations]"}, true},
		"a variable":            {"controller: {env: [{name: HTTPS_PROXY, value: x}]}", []string{"controller.env.HTTPS_PROXY", "controller.env[HTTPS_PROXY]", "controller[env][HTTPS_PROXY]"}, true},
		"another variable":      {"controller: {env: [{name: HTTPS_PROXY_X, value: x}]}", []string{"controller.env.HTTPS_PROXY", "controller.env[HTTPS_PROXY]"}, false},
		"a name with a bracket": {"controller: {env: [{name: \"HTTPS_PROXY].x\", value: x}]}", []string{"controller.env[HTTPS_PROXY]"}, false},
		"a key with a bracket":  {"podLabels: {\"token].x\": x}", []string{"podLabels[token]", "podLabels.token"}, false},
		"a part":                {"controller: {image: {tag: x}}", []string{"controller.image.tag", "controller[image].tag", "controller.image[tag]"}, true},
		"dots in a key":         {"controller: {image.tag: x}", []string{"controller.image.tag", "controller.image"}, false},
		"a device":              {"controller: {resources: {limits: {example.com/gpu: 1}}}", []string{"controller.resources.limits[example.com/gpu]", "controller.resources[limits]"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, entry := range c.entries {
				found := Allowance{Values: []string{entry}}.CheckValues(read(t, c.values))
				if (len(found) == 0) != c.allowed {
					t.Errorf("with %s: %v", entry, found)
				}
			}
		})
	}
}

func TestAMessageIsBounded(t *testing.T) {
	err := Refuse(make([]Refusal, 8))
	if !strings.HasSuffix(err.Error(), "; and 3 more") {
		t.Errorf("%v", err)
	}
}
