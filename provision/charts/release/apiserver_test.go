package release

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// fakeAPIServer keeps objects by their path. It has four kinds, handles every patch as a merge patch, and records
// writes.
type fakeAPIServer struct {
	server *httptest.Server

	mu      sync.Mutex
	objects map[string]map[string]any
	// writes are requests that change something, in order: "POST <path>".
	writes []string
	// refuse responds to a write in the server's place if it returns a status.
	refuse func(method, path string, dryRun bool) *metav1.Status
}

var served = map[string][]metav1.APIResource{
	"v1":                      {{Name: "secrets", Kind: "Secret", Namespaced: true}, {Name: "configmaps", Kind: "ConfigMap", Namespaced: true}},
	"apps/v1":                 {{Name: "deployments", Kind: "Deployment", Namespaced: true}},
	"apiextensions.k8s.io/v1": {{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition"}},
}

func newFakeAPIServer(t *testing.T) *fakeAPIServer {
	t.Helper()
	f := &fakeAPIServer{objects: map[string]map[string]any{}}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

func (f *fakeAPIServer) config() *rest.Config { return &rest.Config{Host: f.server.URL} }

// takeWrites returns the writes since its last call.
func (f *fakeAPIServer) takeWrites() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	writes := f.writes
	f.writes = nil
	return writes
}

// put stores an object without recording a write.
func (f *fakeAPIServer) put(path string, object map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects[path] = object
}

func (f *fakeAPIServer) get(path string) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects[path]
}

func (f *fakeAPIServer) refuseWith(refuse func(method, path string, dryRun bool) *metav1.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = refuse
}

func (f *fakeAPIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if answer := discover(r.URL.Path); answer != nil {
		reply(w, http.StatusOK, answer)
		return
	}
	if r.Method == http.MethodGet {
		f.read(w, r)
		return
	}
	dryRun := r.URL.Query().Get("dryRun") == "All" || r.Method == http.MethodDelete && isDry(r)
	if f.refuse != nil {
		if status := f.refuse(r.Method, r.URL.Path, dryRun); status != nil {
			reply(w, int(status.Code), status)
			return
		}
	}
	f.write(w, r, dryRun)
}

func (f *fakeAPIServer) read(w http.ResponseWriter, r *http.Request) {
	if object, ok := f.objects[r.URL.Path]; ok {
		reply(w, http.StatusOK, object)
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/secrets") && r.URL.Path != crdsPath {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	items := []any{}
	for _, path := range slices.Sorted(maps.Keys(f.objects)) {
		metadata := f.objects[path]["metadata"].(map[string]any)
		if own, _ := metadata["labels"].(map[string]any); strings.HasPrefix(path, r.URL.Path+"/") && selector.Matches(set(own)) {
			items = append(items, f.objects[path])
		}
	}
	kind := map[string]any{"apiVersion": "v1", "kind": "SecretList", "metadata": map[string]any{}, "items": items}
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
		kind["apiVersion"], kind["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	reply(w, http.StatusOK, kind)
}

func (f *fakeAPIServer) write(w http.ResponseWriter, r *http.Request, dryRun bool) {
	body, err := readJSON(r)
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	path := r.URL.Path
	var object map[string]any
	if r.Method == http.MethodPatch {
		before, _ := json.Marshal(f.objects[path])
		body, _ = jsonpatch.MergePatch(before, body)
	}
	if r.Method != http.MethodDelete {
		if err := json.Unmarshal(body, &object); err != nil {
			fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
	}
	if r.Method == http.MethodPost {
		path += "/" + object["metadata"].(map[string]any)["name"].(string)
	}
	_, exists := f.objects[path]
	switch {
	case r.Method == http.MethodPost && exists:
		fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists)
		return
	case r.Method != http.MethodPost && !exists:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	if !dryRun {
		f.writes = append(f.writes, r.Method+" "+path)
		f.objects[path] = object
	}
	if r.Method == http.MethodDelete {
		if !dryRun {
			delete(f.objects, path)
		}
		object = map[string]any{"apiVersion": "v1", "kind": "Status", "status": metav1.StatusSuccess}
	}
	reply(w, http.StatusOK, object)
}

// isDry reports whether the options of a deletion request a dry run.
func isDry(r *http.Request) bool {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(sent))
	body, err := readJSON(r)
	r.Body = io.NopCloser(bytes.NewReader(sent))
	var options metav1.DeleteOptions
	return err == nil && json.Unmarshal(body, &options) == nil && len(options.DryRun) > 0
}

// readJSON reads a body, which may be protobuf for the kinds of Kubernetes itself.
func readJSON(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !strings.Contains(r.Header.Get("Content-Type"), "protobuf") {
		return body, err
	}
	object, _, err := kubescheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

// discover responds to discovery requests.
func discover(path string) any {
	switch path {
	case "/version":
		return map[string]any{"major": "1", "minor": "36", "gitVersion": "v1.36.0"}
	case "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "/apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for groupVersion := range served {
			if group, version, ok := strings.Cut(groupVersion, "/"); ok {
				v := metav1.GroupVersionForDiscovery{GroupVersion: groupVersion, Version: version}
				list.Groups = append(list.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
			}
		}
		return list
	}
	groupVersion := strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/")
	if resources, ok := served[groupVersion]; ok {
		return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: groupVersion, APIResources: resources}
	}
	return nil
}

func set(own map[string]any) labels.Set {
	s := labels.Set{}
	for k, v := range own {
		s[k] = fmt.Sprint(v)
	}
	return s
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	reply(w, code, refusal(code, reason, ""))
}

func refusal(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}
