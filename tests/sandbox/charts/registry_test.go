package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const source = "../bin"

func serve(t *testing.T) *Registry {
	t.Helper()

	r, err := Serve(t.Context(), Options{Source: source})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})

	return r
}

func get(t *testing.T, r *Registry, path string) (int, []byte) {
	t.Helper()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Address+path, nil)
	if err != nil {
		t.Fatal(err)
	}

	request.Header.Set("Accept", manifestType)

	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()

	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}

	return answer.StatusCode, body
}

// pull reads a chart like Helm: the manifest by tag, then the layer by digest.
func pull(t *testing.T, r *Registry, name string) (manifest, map[string]string) {
	t.Helper()

	status, body := get(t, r, "/v2/karpenter/"+name+"/manifests/1.14.3")
	if status != http.StatusOK {
		t.Fatalf("manifest of %s: status %d: %s", name, status, body)
	}

	var m manifest
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}

	_, layer := get(t, r, "/v2/karpenter/"+name+"/blobs/"+m.Layers[0].Digest)

	return m, unpack(t, layer)
}

func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()

	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}

	files := map[string]string{}

	for packed := tar.NewReader(zipped); ; {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			return files
		}

		if err != nil {
			t.Fatal(err)
		}

		content, err := io.ReadAll(packed)
		if err != nil {
			t.Fatal(err)
		}

		files[header.Name] = string(content)
	}
}

func TestServeGivesBothChartsAsReleased(t *testing.T) {
	r := serve(t)

	_, crds := pull(t, r, CRDChart)
	m, main := pull(t, r, MainChart)

	if got := []string{m.Config.MediaType, m.Layers[0].MediaType}; !cmp.Equal(got, []string{configType, contentType}) {
		t.Errorf("media types %v", got)
	}

	for _, file := range []string{crds["karpenter-crd/Chart.yaml"], main["karpenter/Chart.yaml"]} {
		var meta struct{ Version, AppVersion string }
		if err := yaml.Unmarshal([]byte(file), &meta); err != nil {
			t.Fatal(err)
		}

		if meta.Version != "1.14.3" || meta.AppVersion != "1.14.3" {
			t.Errorf("version %q, appVersion %q, want 1.14.3", meta.Version, meta.AppVersion)
		}
	}

	var values struct {
		Controller struct{ Image struct{ Tag, Digest string } }
	}
	if err := yaml.Unmarshal([]byte(main["karpenter/values.yaml"]), &values); err != nil {
		t.Fatal(err)
	}

	if got := values.Controller.Image; got.Tag != "1.14.3" || got.Digest != imageDigest("1.14.3") {
		t.Errorf("controller.image %+v", got)
	}

	const want = 5
	if got := count(crds, "karpenter-crd/templates/"); got != want {
		t.Errorf("%d templates in the CRD chart, want %d", got, want)
	}

	if got := count(main, "karpenter/crds/"); got != want {
		t.Errorf("%d CRDs in crds/ of the main chart, want %d", got, want)
	}

	if strings.Contains(main["karpenter/crds/karpenter.sh_nodepools.yaml"], "additionalAnnotations") {
		t.Error("crds/ holds templates, want plain CRDs")
	}
}

func count(files map[string]string, prefix string) int {
	n := 0

	for name := range files {
		if strings.HasPrefix(name, prefix) {
			n++
		}
	}

	return n
}

func TestDigestsAreTheSameInEveryRun(t *testing.T) {
	first, _ := pull(t, serve(t), MainChart)
	second, _ := pull(t, serve(t), MainChart)

	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("manifest of two runs (-first +second):\n%s", diff)
	}
}

func TestInjectedFaultsEnd(t *testing.T) {
	r := serve(t)
	remove := r.Inject(Fault{Path: "/karpenter-crd/manifests/", Status: http.StatusServiceUnavailable})

	if status, _ := get(t, r, "/v2/karpenter/karpenter-crd/manifests/1.14.3"); status != http.StatusServiceUnavailable {
		t.Errorf("status %d with the fault, want 503", status)
	}

	if status, _ := get(t, r, "/v2/karpenter/karpenter/manifests/1.14.3"); status != http.StatusOK {
		t.Errorf("status %d for the other chart, want 200", status)
	}

	remove()

	if status, _ := get(t, r, "/v2/karpenter/karpenter-crd/manifests/1.14.3"); status != http.StatusOK {
		t.Errorf("status %d after the fault, want 200", status)
	}

	if status, _ := get(t, r, "/v2/karpenter/karpenter/manifests/9.9.9"); status != http.StatusNotFound {
		t.Errorf("status %d for a version that does not exist, want 404", status)
	}

	want := Request{Method: http.MethodGet, Path: "/v2/karpenter/karpenter-crd/manifests/1.14.3", Status: http.StatusServiceUnavailable}
	if !slices.Contains(r.Requests(), want) {
		t.Errorf("requests %v lack %v", r.Requests(), want)
	}
}

// TestSpoiledAnswers: half of an archive, another one, and none.
func TestSpoiledAnswers(t *testing.T) {
	r := serve(t)
	m, _ := pull(t, r, MainChart)
	path := "/v2/karpenter/karpenter/blobs/" + m.Layers[0].Digest
	_, whole := get(t, r, path)
	ask := func() ([]byte, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		return io.ReadAll(answer.Body)
	}

	remove := r.Inject(Fault{Path: "/blobs/", Truncate: true})
	if half, err := ask(); !errors.Is(err, io.ErrUnexpectedEOF) || len(half) != len(whole)/2 {
		t.Errorf("truncated: %d bytes of %d, %v", len(half), len(whole), err)
	}
	remove()
	remove = r.Inject(Fault{Path: "/blobs/", Corrupt: true})
	if other, err := ask(); err != nil || len(other) != len(whole) || bytes.Equal(other, whole) {
		t.Errorf("corrupt: %d bytes of %d, %v", len(other), len(whole), err)
	}
	remove()
	remove = r.Inject(Fault{Away: true})
	if _, err := ask(); err == nil {
		t.Error("away: there was an answer")
	}
	remove()
	if again, err := ask(); err != nil || !bytes.Equal(again, whole) {
		t.Errorf("afterwards: %d bytes of %d, %v", len(again), len(whole), err)
	}
}

func TestServeNamesAVersionThatCannotBeHad(t *testing.T) {
	_, err := Serve(t.Context(), Options{Source: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), providerModule) {
		t.Errorf("error %v, want one that names %s", err, providerModule)
	}
}
