package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
)

// Publication is a release that AWS publishes, and that an alias can pin.
type Publication struct {
	// Alias pins it, such as al2023@v20251103.
	Alias string
	// At is when its last AMI was made.
	At time.Time
	// Notes is the address of its release notes; empty if there is none.
	Notes string
}

// PublishedAWS is what Publications queries.
type PublishedAWS interface {
	AWS
	Published(ctx context.Context, patterns []string) ([]resolve.Image, error)
}

// Publications returns the releases of the family of an alias for the Kubernetes version of the cluster, in which each
// kind of AMI (architecture and variant) that the alias resolves to is published; the oldest first. Deprecated ones are
// not among them. found are the AMIs that the alias resolves to; if there are none, those of the newest release count.
func (r *Reader) Publications(ctx context.Context, aws PublishedAWS, alias string, found []Image) ([]Publication, error) {
	family, _, _ := strings.Cut(alias, "@")
	lines := map[Release]bool{}
	for _, i := range found {
		if release, ok := ReleaseOf(i.Name); ok && release.Family == family {
			lines[r.lineOf(release)] = true
		}
	}
	if len(lines) == 0 {
		newest, err := r.Newest(ctx, family)
		if errors.As(err, new(*resolve.EmptyError)) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, i := range newest {
			if release, ok := ReleaseOf(i.Name); ok {
				lines[r.lineOf(release)] = true
			}
		}
	}
	var patterns []string
	for line := range lines {
		patterns = append(patterns, line.pattern()...)
	}
	if len(patterns) == 0 {
		return nil, nil
	}
	slices.Sort(patterns)
	all, err := aws.Published(ctx, patterns)
	if err != nil {
		return nil, err
	}
	return r.publications(all, lines), nil
}

// lineOf returns what a release has in common with those for the Kubernetes version of the cluster that replace it.
func (r *Reader) lineOf(of Release) Release {
	line := of.line()
	line.Kubernetes = cmp.Or(r.Kubernetes, of.Kubernetes)
	return line
}

// pattern returns the patterns of the names of the AMIs of a line, for a filter of EC2.
func (r Release) pattern() []string {
	arch := "x86_64"
	if r.Arch == "arm64" {
		arch = "arm64"
	}
	switch r.Family {
	case "al2023":
		return []string{fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-v*", arch, r.Variant, r.Kubernetes)}
	case "al2":
		kind := map[Release]string{{Arch: "amd64", Variant: "nvidia"}: "gpu-", {Arch: "arm64", Variant: "standard"}: "arm64-"}
		return []string{fmt.Sprintf("amazon-eks-%snode-%s-v*", kind[Release{Arch: r.Arch, Variant: r.Variant}], r.Kubernetes)}
	case "bottlerocket":
		variant := ""
		if r.Variant != "standard" {
			variant = r.Variant + "-"
		}
		patterns := []string{fmt.Sprintf("bottlerocket-aws-k8s-%s-%s%s-v*", r.Kubernetes, variant, arch)}
		if r.Arch == "arm64" {
			patterns = append(patterns, fmt.Sprintf("bottlerocket-aws-k8s-%s-%saarch64-v*", r.Kubernetes, variant))
		}
		return patterns
	}
	return nil // Windows has no aliases of one release
}

// publications groups AMIs by release.
func (r *Reader) publications(all []resolve.Image, lines map[Release]bool) (found []Publication) {
	type group struct {
		Publication
		has map[Release]bool
	}
	groups := map[string]*group{}
	for _, i := range all {
		release, ok := ReleaseOf(i.Name)
		line := r.lineOf(release)
		if !ok || release.Alias() == "" || !lines[line] || release.Kubernetes != line.Kubernetes {
			continue
		}
		g := groups[release.Alias()]
		if g == nil {
			g = &group{Publication: Publication{Alias: release.Alias(), Notes: release.Notes()}, has: map[Release]bool{}}
			groups[release.Alias()] = g
		}
		g.has[line] = true
		if g.At.Before(i.Created) {
			g.At = i.Created.UTC()
		}
	}
	for _, g := range groups {
		if len(g.has) == len(lines) {
			found = append(found, g.Publication)
		}
	}
	slices.SortFunc(found, func(a, b Publication) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Alias, b.Alias)) })
	return found
}

// Resolves reports whether an alias resolves to an AMI: a release may be published without the parameters by which
// Karpenter finds it.
func (r *Reader) Resolves(ctx context.Context, alias string) (bool, error) {
	_, err := r.patiently(ctx, &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "pinned"},
		Spec:       awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: alias}}},
	})
	var empty *resolve.EmptyError
	var unsupported *resolve.UnsupportedError
	if errors.As(err, &empty) || errors.As(err, &unsupported) {
		return false, nil
	}
	return err == nil, err
}

// AliasOf returns the alias of an EC2NodeClass; empty if it has other terms, or a malformed one.
func AliasOf(class *awsv1.EC2NodeClass) string {
	if family, version, ok := aliasOf(class); ok {
		return family + "@" + version
	}
	return ""
}

// NotesOf returns the address of the release notes of a pinned alias; empty if there is none.
func NotesOf(alias string) string {
	family, version, _ := strings.Cut(alias, "@")
	return Release{Family: family, Version: version}.Notes()
}
