package charts

import (
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// pullAt is like pull, for another release.
func pullAt(t *testing.T, r *Registry, name, tag string) map[string]string {
	t.Helper()

	status, body := get(t, r, "/v2/karpenter/"+name+"/manifests/"+tag)
	if status != http.StatusOK {
		t.Fatalf("manifest of %s %s: status %d: %s", name, tag, status, body)
	}

	var m manifest
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}

	_, layer := get(t, r, "/v2/karpenter/"+name+"/blobs/"+m.Layers[0].Digest)

	return unpack(t, layer)
}

// versions returns the versions in a chart.
func versions(t *testing.T, file string) []string {
	t.Helper()

	var meta struct{ Version, AppVersion string }
	if err := yaml.Unmarshal([]byte(file), &meta); err != nil {
		t.Fatal(err)
	}

	return []string{meta.Version, meta.AppVersion}
}

// TestEachReleaseIsServedOnDemand counts the CRDs that upstream has released with each version.
func TestEachReleaseIsServedOnDemand(t *testing.T) {
	r := serve(t)

	if got := slices.Collect(maps.Keys(r.packed)); !cmp.Equal(got, []string{binaries.KarpenterVersion}) {
		t.Errorf("packaged before anyone has asked: %v", got)
	}

	cases := map[string]int{"1.0.8": 3, "1.3.3": 3, "1.6.3": 3, "1.8.6": 4, "1.9.3": 4, "1.12.1": 4, "1.14.1": 5, "1.14.3": 5, "1.15.0": 5}
	for version, want := range cases {
		t.Run(version, func(t *testing.T) {
			crds, main := pullAt(t, r, CRDChart, version), pullAt(t, r, MainChart, version)

			for _, file := range []string{crds["karpenter-crd/Chart.yaml"], main["karpenter/Chart.yaml"]} {
				if got := versions(t, file); !cmp.Equal(got, []string{version, version}) {
					t.Errorf("version and appVersion %v, want %s", got, version)
				}
			}

			if image := "tag: " + version + "\n"; !strings.Contains(main["karpenter/values.yaml"], image) {
				t.Errorf("values.yaml lacks %q", image)
			}

			if got := count(crds, "karpenter-crd/templates/"); got != want {
				t.Errorf("%d templates in the CRD chart, want %d", got, want)
			}

			if got := count(main, "karpenter/crds/"); got != want {
				t.Errorf("%d CRDs in crds/ of the main chart, want %d", got, want)
			}
		})
	}

	if got := slices.Sorted(maps.Keys(r.packed)); len(got) != len(binaries.KarpenterReleases()) || len(cases) != len(got) {
		t.Errorf("packaged %v, want each of %v", got, binaries.KarpenterReleases())
	}
}

func TestTagsAndDigestsBringAllReleases(t *testing.T) {
	first := serve(t)
	_, body := get(t, first, "/v2/karpenter/karpenter-crd/tags/list")

	var list struct{ Tags []string }
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatal(err)
	}

	slices.Sort(list.Tags)

	if diff := cmp.Diff(slices.Sorted(slices.Values(binaries.KarpenterReleases())), list.Tags); diff != "" {
		t.Errorf("tags (-releases +listed):\n%s", diff)
	}

	_, body = get(t, first, "/v2/karpenter/karpenter/manifests/1.6.3")

	if status, _ := get(t, serve(t), "/v2/karpenter/karpenter/manifests/"+digest(body)); status != http.StatusOK {
		t.Errorf("the digest of a release that was not asked for before: status %d", status)
	}
}

func TestLies(t *testing.T) {
	r := serve(t)
	_, truth := get(t, r, "/v2/karpenter/karpenter-crd/manifests/1.12.1")

	cases := map[string]struct {
		lie  Lie
		file string
		want string
	}{
		"another version in Chart.yaml": {
			Lie{Chart: CRDChart, Version: "1.14.1", Tag: "1.16.0", Says: "1.14.0"}, "Chart.yaml", "version: 1.14.0\n",
		},
		"the version that it is served as": {
			Lie{Chart: MainChart, Version: "1.14.1", Tag: "1.16.1"}, "Chart.yaml", "version: 1.16.1\n",
		},
		"an image that nobody has": {
			Lie{Chart: MainChart, Version: "1.14.1", Tag: "1.16.2", Image: "1.16.2"}, "values.yaml", "tag: 1.16.2\n",
		},
		"the image of its origin": {
			Lie{Chart: MainChart, Version: "1.14.1", Tag: "1.16.3"}, "values.yaml", "tag: 1.14.1\n",
		},
		"a foreign file in a release": {
			Lie{Chart: CRDChart, Version: "1.12.1", Tag: "1.12.1", Files: map[string][]byte{"templates/foreign.yaml": []byte("kind: X\n")}},
			"templates/foreign.yaml", "kind: X\n",
		},
		"the same in one that nobody has asked for": {
			Lie{Chart: CRDChart, Version: "1.8.6", Tag: "1.8.6", Files: map[string][]byte{"templates/foreign.yaml": []byte("kind: X\n")}},
			"templates/foreign.yaml", "kind: X\n",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			withdraw, err := r.Publish(t.Context(), c.lie)
			if err != nil {
				t.Fatal(err)
			}

			if got := pullAt(t, r, c.lie.Chart, c.lie.Tag)[path.Join(c.lie.Chart, c.file)]; !strings.Contains(got, c.want) {
				t.Errorf("%s lacks %q:\n%s", c.file, c.want, got)
			}

			if err := withdraw(t.Context()); err != nil {
				t.Fatal(err)
			}

			if c.lie.Tag != c.lie.Version {
				if status, _ := get(t, r, "/v2/karpenter/"+c.lie.Chart+"/manifests/"+c.lie.Tag); status != http.StatusNotFound {
					t.Errorf("status %d after it was withdrawn, want 404", status)
				}
			}
		})
	}

	if _, again := get(t, r, "/v2/karpenter/karpenter-crd/manifests/1.12.1"); string(again) != string(truth) {
		t.Errorf("the release is not served again:\n%s", cmp.Diff(string(truth), string(again)))
	}
}

func TestALieLeavesFilesOut(t *testing.T) {
	r := serve(t)
	const file = "templates/karpenter.sh_nodepools.yaml"

	_, err := r.Publish(t.Context(), Lie{Chart: CRDChart, Version: "1.14.1", Tag: "1.16.4", Files: map[string][]byte{file: nil}})
	if err != nil {
		t.Fatal(err)
	}

	if _, ok := pullAt(t, r, CRDChart, "1.16.4")["karpenter-crd/"+file]; ok {
		t.Errorf("%s is in the chart", file)
	}
}
