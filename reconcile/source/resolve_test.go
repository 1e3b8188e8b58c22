package source

import (
	"errors"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

func TestResolveRefusesWhatItCannotRead(t *testing.T) {
	for name, ref := range map[string]v1alpha1.GitRef{
		"range":        {SemVer: ">=one"},
		"short commit": {Commit: "abc123"},
	} {
		_, err := resolve(ref, refs{}, "https://example.com/x")
		var e *RefError
		if !errors.As(err, &e) {
			t.Errorf("%s: error %v, want a RefError", name, err)
		}
	}
}

// Whatever a person or a host writes, the answer is an error of this package or
// the highest version in the range.
func FuzzResolveSemVer(f *testing.F) {
	f.Add(">=1.0.0", "v1.2.3 1.2.4-rc.1 nightly v2")
	f.Add("~1.2 || 3.x", "1.2.9 v1.2.10 3.0.0+build 3.0.0")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, within, names string) {
		has := refs{tips: map[string]plumbing.Hash{}}
		for _, name := range strings.Fields(names) {
			has.tips[tags+name] = plumbing.ComputeHash(plumbing.CommitObject, []byte(name))
		}
		got, err := resolve(v1alpha1.GitRef{SemVer: within, Branch: "main"}, has, "https://example.com/x")
		if err != nil {
			if !ours(err) {
				t.Fatalf("error %T: %v", err, err)
			}
			return
		}
		if within == "" {
			t.Fatal("a branch was found among tags")
		}
		constraint, err := semver.NewConstraint(within)
		if err != nil {
			t.Fatal(err)
		}
		best, err := semver.StrictNewVersion(strings.TrimPrefix(got.label, "v"))
		if err != nil || !constraint.Check(best) || got.commit != has.tips[tags+got.label] {
			t.Fatalf("%+v for %q in %q: %v", got, within, names, err)
		}
		for _, name := range strings.Fields(names) {
			if v, err := semver.StrictNewVersion(strings.TrimPrefix(name, "v")); err == nil && constraint.Check(v) && v.GreaterThan(best) {
				t.Fatalf("%s was taken, and %s is higher", best, v)
			}
		}
	})
}
