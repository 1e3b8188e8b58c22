package source

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"pgregory.net/rapid"

	"github.com/plumbline-dev/plumbline/internal/property"
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

// For any range and any tags, the result is an error of this package or the highest version in the range.
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

// hashOf returns a commit for a reference.
func hashOf(name string) plumbing.Hash {
	return plumbing.ComputeHash(plumbing.CommitObject, []byte(name))
}

// listOf is a host's list of references, in their order.
func listOf(names ...string) string {
	var list strings.Builder
	for i, name := range names {
		line := hashOf(name).String() + " " + name
		if i == 0 {
			line += "\x00shallow side-band-64k allow-tip-sha1-in-want"
		}
		list.WriteString(pkt(line + "\n"))
	}
	return list.String() + pkt("shallow "+hashOf("shallow").String()) + "0000"
}

// many are the references of a large repository.
func many(n int) []string {
	names := []string{"HEAD", "refs/heads/main", "refs/heads/release"}
	for i := range n {
		tag := fmt.Sprintf("refs/tags/v1.%d.0", i)
		names = append(names, fmt.Sprintf("refs/heads/feature-%d", i), fmt.Sprintf("refs/pull/%d/head", i), tag, tag+peeledMark)
	}
	return names
}

// TestReferencesThatNobodyAsksFor: go-git keeps every reference that it reads, and therefore only gets those that
// resolve a GitRef, over HTTP and over SSH.
func TestReferencesThatNobodyAsksFor(t *testing.T) {
	const n = 25_000
	list := listOf(many(n)...)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000"+list)
	}))
	defer host.Close()
	for name, c := range map[string]struct {
		ref  v1alpha1.GitRef
		keep []string
	}{
		"nothing is said": {v1alpha1.GitRef{}, []string{"HEAD", "refs/heads/main"}},
		"a branch":        {v1alpha1.GitRef{Branch: "release"}, []string{"HEAD", "refs/heads/release"}},
		"a tag":           {v1alpha1.GitRef{Tag: "v1.7.0"}, []string{"HEAD", "refs/tags/v1.7.0", "refs/tags/v1.7.0^{}"}},
		"a range":         {v1alpha1.GitRef{SemVer: "<1.9"}, []string{"HEAD", "refs/tags/v1.8.0", "refs/tags/v1.8.0^{}"}},
		"no range":        {v1alpha1.GitRef{SemVer: "<one"}, []string{"HEAD"}},
		"a name":          {v1alpha1.GitRef{Name: "refs/pull/7/head"}, []string{"HEAD", "refs/pull/7/head"}},
		"a commit":        {v1alpha1.GitRef{Commit: hashOf("refs/pull/7/head").String()}, []string{"HEAD", "refs/heads/main", "refs/pull/7/head"}},
		"one of a branch": {v1alpha1.GitRef{Commit: hashOf("x").String(), Branch: "release"}, []string{"HEAD", "refs/heads/main", "refs/heads/release"}},
	} {
		check := func(t *testing.T, ar *packp.AdvRefs, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			kept := slices.Collect(maps.Keys(ar.References))
			for name := range ar.Peeled {
				kept = append(kept, name+peeledMark)
			}
			if ar.Head != nil {
				kept = append(kept, "HEAD")
			}
			if slices.Sort(kept); !slices.Equal(kept, c.keep) {
				t.Errorf("kept %d, want %v: %.200v", len(kept), c.keep, kept)
			}
			if !ar.Capabilities.Supports(capability.Shallow) || len(ar.Shallows) > 0 {
				t.Errorf("capabilities %v, shallow at %v", ar.Capabilities, ar.Shallows)
			}
		}
		t.Run(name+", over HTTP", func(t *testing.T) {
			endpoint, err := transport.NewEndpoint(host.URL + "/x")
			if err != nil {
				t.Fatal(err)
			}
			s, err := openHTTP(endpoint, Request{Ref: c.ref}, &line{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			ar, err := s.AdvertisedReferencesContext(t.Context())
			check(t, ar, err)
		})
		t.Run(name+", over SSH", func(t *testing.T) {
			rest := strings.NewReader(list + "NAK")
			ar, err := readReferences(rest, c.ref, nil)
			check(t, ar, err)
			if rest.Len() != len("NAK") {
				t.Errorf("%d bytes are left to read, want %d", rest.Len(), len("NAK"))
			}
		})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readReferences(strings.NewReader(list), v1alpha1.GitRef{}, nil)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; err != nil || taken > 1<<20 {
		t.Errorf("a list of %d bytes took %d of memory: %v", len(list), taken, err)
	}
}

// TestWhatIsWantedIsEnough shows that a reference resolves to the same among the selected references as among all.
func TestWhatIsWantedIsEnough(t *testing.T) {
	names := []string{"HEAD", "refs/heads/main", "refs/heads/release", "refs/pull/1/head", "refs/tags/v1.0.0", "refs/tags/1.0.0", "refs/tags/v1.2.0", "refs/tags/v2.0.0-rc.1", "refs/tags/nightly"}
	property.Check(t, func(rt *rapid.T) {
		var has []string
		for _, name := range rapid.Permutation(names).Draw(rt, "names")[:rapid.IntRange(1, len(names)).Draw(rt, "how many")] {
			has = append(has, name)
			if strings.HasPrefix(name, tags) && rapid.Bool().Draw(rt, "annotated "+name) {
				has = append(has, name+peeledMark)
			}
		}
		ref := rapid.SampledFrom([]v1alpha1.GitRef{
			{},
			{Branch: "release"},
			{Tag: "v1.0.0"},
			{Tag: "nightly"},
			{Name: "refs/pull/1/head"},
			{Name: "HEAD"},
			{SemVer: "*"},
			{SemVer: "1.0"},
			{SemVer: ">=1.0-0"},
			{SemVer: "<one"},
			{Commit: hashOf("refs/tags/v1.2.0").String()},
			{Commit: hashOf("gone").String()},
			{Commit: hashOf("gone").String(), Branch: "release"},
		}).Draw(rt, "reference")
		all := packp.NewAdvRefs()
		if err := all.Decode(strings.NewReader(listOf(has...))); err != nil {
			rt.Fatal(err)
		}
		want, got := comesTo(rt, scripted{refs: all}, ref), comesTo(rt, scripted{says: []byte(listOf(has...)), ref: ref}, ref)
		if want != got {
			rt.Fatalf("%+v among %v: %s, want %s", ref, has, got, want)
		}
	})
}

// comesTo returns what would be requested from a host.
func comesTo(rt *rapid.T, s scripted, ref v1alpha1.GitRef) string {
	_, has, err := advertised(rt.Context(), s)
	if err != nil {
		rt.Fatal(err)
	}
	found, err := resolve(ref, has, "https://example.com/x")
	below, _ := has.below(ref, "https://example.com/x") // of a commit that is not the tip of any reference
	if ref.Commit == "" {
		below = plumbing.ZeroHash
	}
	return fmt.Sprintf("%+v %v, below %s", found, err, below)
}
