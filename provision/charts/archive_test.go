package charts

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/opencontainers/go-digest"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
)

// vendored returns both charts of a version in a checkout, as archives.
func vendored(t *testing.T, version string) fstest.MapFS {
	t.Helper()
	return fstest.MapFS{
		"prod/charts/karpenter-crd-" + version + ".tgz": {Data: chartstest.CRDs(t, version)},
		"prod/charts/karpenter-" + version + ".tgz":     {Data: chartstest.Controller(t, version)},
	}
}

// unpacked returns both charts as folders with these names.
func unpacked(t *testing.T, version, crd, controller string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	for dir, archive := range map[string][]byte{crd: chartstest.CRDs(t, version), controller: chartstest.Controller(t, version)} {
		loaded, err := loader.LoadArchiveFiles(strings.NewReader(string(archive)))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range loaded {
			files["prod/charts/"+dir+"/"+file.Name] = &fstest.MapFile{Data: file.Data}
		}
	}
	return files
}

func TestChartsInTheCheckout(t *testing.T) {
	ref := Ref{Repository: "prod/charts", Version: "1.14.1"}
	for name, files := range map[string]fstest.MapFS{
		"archives":               vendored(t, "1.14.1"),
		"folders":                unpacked(t, "1.14.1", "karpenter-crd", "karpenter"),
		"folders with a version": unpacked(t, "1.14.1", "karpenter-crd-1.14.1", "karpenter-1.14.1"),
	} {
		t.Run(name, func(t *testing.T) {
			store := NewStore(StoreOptions{Dir: t.TempDir()})
			first, err := store.Resolve(t.Context(), ref, Access{Files: files})
			if err != nil {
				t.Fatal(err)
			}
			if crds, err := first.CRDs(t.Context()); err != nil || len(crds) != 2 {
				t.Errorf("%d CRDs, %v", len(crds), err)
			}
			if objects, err := first.Controller(t.Context(), Installation{Namespace: "kube-system", Cluster: "a", Region: "eu-west-1"}); err != nil || len(objects) != 1 {
				t.Errorf("%d objects, %v", len(objects), err)
			}
			again, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), ref, Access{Files: files})
			if err != nil || again.Digest != first.Digest || again.CRDDigest != first.CRDDigest {
				t.Errorf("elsewhere the same files have digests %s, %s (%v) and not %s, %s", again.CRDDigest, again.Digest, err, first.CRDDigest, first.Digest)
			}
			// The same version with other content is another chart.
			changed := fstest.MapFS{}
			for path, file := range files {
				changed[path] = file
			}
			const archived = "prod/charts/karpenter-1.14.1.tgz"
			if files[archived] != nil {
				changed[archived] = &fstest.MapFile{Data: chartstest.Archive(t, ControllerChart, "1.14.1", map[string]string{"other.yaml": "kind: Other\n"})}
			} else {
				for path := range files {
					if strings.HasSuffix(path, "deployment.yaml") {
						changed[path] = &fstest.MapFile{Data: []byte("kind: Other\n")}
					}
				}
			}
			after, err := store.Resolve(t.Context(), ref, Access{Files: changed})
			if err != nil || after.Digest == first.Digest || after.CRDDigest != first.CRDDigest {
				t.Errorf("changed: digests %s, %s (%v) after %s, %s", after.CRDDigest, after.Digest, err, first.CRDDigest, first.Digest)
			}
		})
	}
}

func TestTheDigestOfAnArchiveIsItsOwn(t *testing.T) {
	files := vendored(t, "1.14.1")
	want := digest.FromBytes(files["prod/charts/karpenter-1.14.1.tgz"].Data).String()
	found, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), Ref{Repository: "prod/charts", Version: "1.14.1"}, Access{Files: files})
	if err != nil || found.Digest != want {
		t.Errorf("digest %s, %v; want %s", found.Digest, err, want)
	}
}

func TestCheckoutsThatCannotBeUsed(t *testing.T) {
	const controller, crd = "prod/charts/karpenter-1.14.1.tgz", "prod/charts/karpenter-crd-1.14.1.tgz"
	tests := map[string]struct {
		spoil func(files fstest.MapFS)
		want  any
		text  string
	}{
		"no folder":      {func(files fstest.MapFS) { clear(files) }, new(*NotFoundError), "run plumbline vendor"},
		"one of the two": {func(files fstest.MapFS) { delete(files, controller) }, new(*NotFoundError), "chart karpenter 1.14.1 is not in prod/charts"},
		"one of another": {func(files fstest.MapFS) {
			files["prod/charts/karpenter-1.14.0.tgz"] = files[controller]
			delete(files, controller)
		}, new(*NotFoundError), "the nearest versions are 1.14.0"},
		"another inside": {func(files fstest.MapFS) {
			files[controller] = &fstest.MapFile{Data: chartstest.Controller(t, "1.13.0")}
		}, new(*MalformedError), "its Chart.yaml says version 1.13.0"},
		"exchanged":  {func(files fstest.MapFS) { files[controller] = files[crd] }, new(*MalformedError), `its Chart.yaml names it "karpenter-crd"`},
		"no archive": {func(files fstest.MapFS) { files[crd] = &fstest.MapFile{Data: []byte("nonsense")} }, new(*MalformedError), "chart karpenter-crd 1.14.1 cannot be used"},
		"a pointer of LFS": {func(files fstest.MapFS) {
			files[crd] = &fstest.MapFile{Data: []byte("version https://git-lfs.github.com/spec/v1\noid sha256:aa\n")}
		}, new(*MalformedError), "Git LFS"},
		"an endless archive": {func(files fstest.MapFS) { files[crd] = &fstest.MapFile{Data: make([]byte, maxArchive+1)} }, new(*MalformedError), "16777217 bytes"},
		"an empty folder":    {func(files fstest.MapFS) { delete(files, crd); files["prod/charts/karpenter-crd/x"] = &fstest.MapFile{} }, new(*MalformedError), "chart karpenter-crd 1.14.1 cannot be used"},
		"an endless folder": {func(files fstest.MapFS) {
			delete(files, crd)
			files["prod/charts/karpenter-crd/x"] = &fstest.MapFile{Data: make([]byte, maxArchive+1)}
		}, new(*MalformedError), "size"},
		"a CRD of a stranger": {func(files fstest.MapFS) { files[crd] = &fstest.MapFile{Data: foreignArchive(t)} }, new(*ForeignCRDsError), "widgets.example.com"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			files := vendored(t, "1.14.1")
			test.spoil(files)
			_, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), Ref{Repository: "prod/charts", Version: "1.14.1"}, Access{Files: files})
			if err == nil || !errors.As(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("Resolve() = %T: %v, want %T that says %q", err, err, test.want, test.text)
			}
		})
	}
	var invalid *InvalidRefError
	if _, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), Ref{Repository: "charts", Version: "1.14.1"}, Access{}); !errors.As(err, &invalid) {
		t.Errorf("without a checkout: %v", err)
	}
}

// foreignArchive returns a CRD chart with a CRD that is not Karpenter's, and one that only looks like it.
func foreignArchive(t *testing.T) []byte {
	t.Helper()
	widget := strings.NewReplacer("karpenter.sh", "example.com").Replace(chartstest.CRDTemplate("widgets", "Widget"))
	request := strings.NewReplacer("karpenter.sh", "autoscaling.x-k8s.io").Replace(chartstest.CRDTemplate("provisioningrequests", "ProvisioningRequest"))
	return chartstest.Archive(t, CRDChart, "1.14.1", map[string]string{
		"nodepools.yaml": chartstest.CRDTemplate("nodepools", "NodePool"), "widgets.yaml": widget, "requests.yaml": request,
	})
}

// TestForeignCRDsAreRefused: they are refused from any origin, and not recorded in a memo.
func TestForeignCRDsAreRefused(t *testing.T) {
	registry := serve(t, "1.14.1")
	registry.push(t, CRDChart, "1.14.1", foreignArchive(t))
	dir := t.TempDir()
	for range 2 {
		_, err := NewStore(StoreOptions{Dir: dir}).Resolve(t.Context(), registry.ref("1.14.1"), Access{})
		var foreign *ForeignCRDsError
		if !errors.As(err, &foreign) || strings.Join(foreign.Names, " ") != "provisioningrequests.autoscaling.x-k8s.io widgets.example.com" {
			t.Errorf("Resolve() = %v", err)
		}
	}
	if versions := cached(t, dir, "versions", "*"); len(versions) > 0 {
		t.Errorf("they are remembered: %v", versions)
	}
}

// TestChartsWithHiddenLines: text after a hidden line break in a comment would be a field, which a review of the chart
// would not show.
func TestChartsWithHiddenLines(t *testing.T) {
	const version = "1.14.1"
	for name, c := range map[string]struct{ file, text, want string }{
		"a template":            {"templates/a.yaml", "# a\n# b \u2028kind: Secret\n", "karpenter/templates/a.yaml:2: it has the character U+2028"},
		"a helper":              {"templates/_h.tpl", "# b \u2029kind: Secret\n", "karpenter/templates/_h.tpl:1: it has the character U+2029"},
		"values":                {"values.yaml", "# b \u0085replicas: 9\n", "karpenter/values.yaml:1: it has the character U+0085"},
		"values in UTF-16":      {"values.yaml", "\xff\xfe#\x00\x28\x20b\x00", "karpenter/values.yaml:1: it has the character U+2028"},
		"a carriage return":     {"values.yaml", "# b \rreplicas: 9\n", "karpenter/values.yaml:1: it has the character U+000D"},
		"what a template reads": {"files/a.txt", "# b \rreplicas: 9\n", "karpenter/files/a.txt:1: it has the character U+000D"},
		"lines of Windows":      {"templates/_h.tpl", "{{/* a */}}\r\n", ""},
		"a picture":             {"icon.png", "\x89PNG\r\n\x1a\n\r\xff", ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{
				"charts/karpenter-crd-" + version + ".tgz": {Data: chartstest.CRDs(t, version)},
				"charts/karpenter/Chart.yaml":              {Data: []byte(chartYAML)},
				"charts/karpenter/templates/d.yaml":        {Data: []byte(chartstest.DeploymentTemplate)},
				"charts/karpenter/" + c.file:               {Data: []byte(c.text)},
			}
			found, err := NewStore(StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), Ref{Repository: "charts", Version: version}, Access{Files: files})
			if err == nil {
				_, err = found.Values()
			}
			var refused *MalformedError
			if errors.As(err, &refused) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
