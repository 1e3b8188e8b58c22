package charts

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// fakeRegistry is an OCI registry, as far as pulls go.
type fakeRegistry struct {
	server *httptest.Server
	// spoiled answers for a part of the paths.
	spoiled atomic.Pointer[spoiled]

	mu sync.Mutex
	// content by path, /v2/… without the host.
	content map[string][]byte
	// fault answers in the registry's place when it is not zero.
	fault    int
	requests int
}

// spoiled is what answers in the registry's place.
type spoiled struct {
	part   string
	answer http.HandlerFunc
}

func newFakeRegistry(t *testing.T) *fakeRegistry {
	t.Helper()
	f := &fakeRegistry{content: map[string][]byte{}}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

func (f *fakeRegistry) ref(version string) Ref {
	return Ref{Repository: strings.Replace(f.server.URL, "http://", "oci://", 1) + "/karpenter", Version: version}
}

// push serves a chart's archive, and returns the path of its content.
func (f *fakeRegistry) push(t *testing.T, name, version string, archive []byte) string {
	t.Helper()
	config := []byte(`{}`)
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    ocispec.Descriptor{MediaType: "application/vnd.cncf.helm.config.v1+json", Digest: digest.FromBytes(config), Size: int64(len(config))},
		Layers:    []ocispec.Descriptor{{MediaType: contentType, Digest: digest.FromBytes(archive), Size: int64(len(archive))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	base := "/v2/karpenter/" + name
	f.content[base+"/manifests/"+version] = manifest
	f.content[base+"/manifests/"+digest.FromBytes(manifest).String()] = manifest
	path := base + "/blobs/" + digest.FromBytes(archive).String()
	f.content[path] = archive
	tags, err := json.Marshal(map[string]any{"name": "karpenter/" + name, "tags": []string{version}})
	if err != nil {
		t.Fatal(err)
	}
	f.content[base+"/tags/list"] = tags
	return path
}

func (f *fakeRegistry) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeRegistry) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

func (f *fakeRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s := f.spoiled.Load(); s != nil && strings.Contains(r.URL.Path, s.part) {
		s.answer(w, r)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	if f.fault != 0 {
		w.WriteHeader(f.fault)
		return
	}
	content, ok := f.content[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if strings.Contains(r.URL.Path, "/manifests/") {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.Header().Set("Docker-Content-Digest", digest.FromBytes(content).String())
	}
	_, _ = w.Write(content)
}
