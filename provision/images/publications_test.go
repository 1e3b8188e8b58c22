package images

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
)

// publishedAWS also lists AMIs by their names.
type publishedAWS struct {
	fakeAWS
	published []resolve.Image
	err       error
	patterns  []string
}

func (p *publishedAWS) Published(_ context.Context, patterns []string) ([]resolve.Image, error) {
	p.patterns = patterns
	return p.published, p.err
}

// TestPublications: releases in which each kind of AMI of the alias is published, the oldest first.
func TestPublications(t *testing.T) {
	old := []resolve.Image{ami("ami-1", "amd64", "standard", "v20251001"), ami("ami-2", "arm64", "standard", "v20251001")}
	older := ami("ami-9", "amd64", "standard", "v20251020")
	older.Name = "amazon-eks-node-al2023-x86_64-standard-1.35-v20251020"
	aws := &publishedAWS{published: []resolve.Image{
		ami("ami-5", "amd64", "standard", "v20251103"), ami("ami-6", "arm64", "standard", "v20251103"), old[0], old[1],
		ami("ami-7", "amd64", "standard", "v20251120"), // not yet for arm64
		ami("ami-8", "amd64", "nvidia", "v20251103"), older,
	}}
	r := &Reader{AWS: aws, Kubernetes: "1.36", Now: func() time.Time { return today }}
	c := Compare(class(alias("al2023@v20251001")), nil, Answers{Kubernetes: "1.36", Now: old}, today)
	found, err := r.Publications(t.Context(), aws, "al2023@v20251001", c.Images)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := Date("v20251001")
	second, _ := Date("v20251103")
	notes := "https://github.com/awslabs/amazon-eks-ami/releases/tag/"
	want := []Publication{
		{Alias: "al2023@v20251001", At: first, Notes: notes + "v20251001"}, {Alias: "al2023@v20251103", At: second, Notes: notes + "v20251103"},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	patterns := []string{"amazon-eks-node-al2023-arm64-standard-1.36-v*", "amazon-eks-node-al2023-x86_64-standard-1.36-v*"}
	if diff := cmp.Diff(patterns, aws.patterns); diff != "" {
		t.Error(diff)
	}
	aws.err = errors.New("denied")
	if _, err := r.Publications(t.Context(), aws, "al2023@v20251001", c.Images); err == nil {
		t.Error("a denied query is no error")
	}
}

// TestPatterns: each matches the names of ReleaseOf.
func TestPatterns(t *testing.T) {
	for name, want := range map[string]string{
		"amazon-eks-gpu-node-1.32-v20251103":                     "amazon-eks-gpu-node-1.32-v*",
		"amazon-eks-arm64-node-1.32-v20251103":                   "amazon-eks-arm64-node-1.32-v*",
		"amazon-eks-node-1.32-v20251103":                         "amazon-eks-node-1.32-v*",
		"bottlerocket-aws-k8s-1.36-nvidia-x86_64-v1.47.0-abcd12": "bottlerocket-aws-k8s-1.36-nvidia-x86_64-v*",
		"bottlerocket-aws-k8s-1.36-x86_64-v1.47.0":               "bottlerocket-aws-k8s-1.36-x86_64-v*",
	} {
		of, ok := ReleaseOf(name)
		if got := of.pattern(); !ok || len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %v, want %s", name, got, want)
		}
	}
}
