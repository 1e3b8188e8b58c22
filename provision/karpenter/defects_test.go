package karpenter

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDefects: a version has the known defects from the first version on that has them until the one that fixes them;
// those of static NodePools concern only clusters that have some. A fork may have fixed them.
func TestDefects(t *testing.T) {
	const leaks, wedges = "aws/karpenter-provider-aws/issues/9479", "kubernetes-sigs/karpenter/issues/3176"
	for version, want := range map[string]struct{ dynamic, static []string }{
		"1.12.1":        {},
		"1.13.0":        {dynamic: []string{leaks}, static: []string{leaks}},
		"1.14.0":        {dynamic: []string{leaks}, static: []string{leaks, wedges}},
		"v1.14.0":       {dynamic: []string{leaks}, static: []string{leaks, wedges}},
		"1.14.1":        {static: []string{wedges}},
		"1.14.2":        {static: []string{wedges}},
		"1.14.2+acme.1": {},
		"1.14.1-acme.3": {},
		"1.14.0-rc.1":   {dynamic: []string{leaks}, static: []string{leaks}},
		"1.14.3":        {},
		"1.15.0":        {},
	} {
		for static, sources := range map[bool][]string{false: want.dynamic, true: want.static} {
			found, err := Defects(version, static)
			var got []string
			for _, d := range found {
				got = append(got, d.Source)
			}
			if diff := cmp.Diff(sources, got); err != nil || diff != "" {
				t.Errorf("%s, static %t: %v (-want +got):\n%s", version, static, err, diff)
			}
			if slices.Contains(got, "") {
				t.Errorf("%s: a defect without a source", version)
			}
		}
	}
	var invalid *VersionError
	if _, err := Defects("latest", true); !errors.As(err, &invalid) {
		t.Errorf("of no version: %v", err)
	}
}
