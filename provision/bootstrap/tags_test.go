package bootstrap

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUntagged: only what no tool has tagged for the cluster gets the tags, also after an interruption, and a tag of another
// cluster is never replaced.
func TestUntagged(t *testing.T) {
	spec := specOf("production", "eu-west-1")
	const stack = "plumbline-production"
	for name, c := range map[string]struct {
		tags    map[string]string
		want    []string
		refused string
	}{
		"no tags":                  {nil, []string{"subnet-1"}, ""},
		"tagged":                   {map[string]string{DiscoveryTag: "production", Tag: stack}, nil, ""},
		"another tool":             {map[string]string{DiscoveryTag: "production"}, nil, ""},
		"Terraform has reverted":   {map[string]string{Tag: stack}, []string{"subnet-1"}, ""},
		"another cluster":          {map[string]string{DiscoveryTag: "staging"}, nil, "subnet-1 has the tag karpenter.sh/discovery=staging"},
		"another bootstrap":        {map[string]string{Tag: "plumbline-staging"}, nil, "tagged it for another cluster"},
		"another cluster, marked":  {map[string]string{DiscoveryTag: "staging", Tag: "plumbline-staging"}, nil, "karpenter.sh/discovery=staging"},
		"an empty discovery value": {map[string]string{DiscoveryTag: ""}, nil, "karpenter.sh/discovery="},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := spec.Untagged([]Taggable{{ID: "subnet-1", Tags: c.tags}})
			if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Fatalf("error %v, want %q", err, c.refused)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
