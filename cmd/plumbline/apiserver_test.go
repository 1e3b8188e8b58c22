package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// apiServer serves objects by path, to the extent that the commands need.
type apiServer struct {
	t *testing.T
	// objects by path, such as /apis/plumbline.dev/v1alpha1/namespaces/fleet/nodesyncs/prod
	objects map[string]any
	// texts are responses that are not objects, by path.
	texts map[string]string
	// refused are statuses to respond with, by the prefix of the path.
	refused map[string]int
	// patched, if set, is called after each patch.
	patched func(s *apiServer, path string)
	// user is the requesting user; unlisted are the kinds that discovery omits.
	user     string
	unlisted map[string]bool
	// undeletable makes it refuse each deletion; if deleter is set, only that user may delete definitions.
	undeletable bool
	deleter     string
	// unpatchable, if set, makes it refuse each patch with this message.
	unpatchable string
	// created, if set, is called after an object is created.
	created func(s *apiServer)
	// deleted, if set, is called for each deletion that is not a dry run.
	deleted func(s *apiServer, path string)
	// answered, if set, is called after an object is read.
	answered func(path string)
	// watched, if set, is called with each watch. The watch returns the returned NodeSync as an event, and ends.
	watched func(s *apiServer, since string) *v1alpha1.NodeSync
	asked   []string
	// close makes it refuse connections.
	close func() error

	mu sync.Mutex
}

const syncPath = "/apis/plumbline.dev/v1alpha1/namespaces/fleet/nodesyncs/"

// serve starts a server with NodeSyncs and other objects, and returns it with a kubeconfig whose namespace is fleet.
func serve(t *testing.T, syncs ...*v1alpha1.NodeSync) (*apiServer, string) {
	t.Helper()
	s := &apiServer{t: t, objects: map[string]any{}, texts: map[string]string{}, refused: map[string]int{}}
	for _, sync := range syncs {
		s.objects[strings.Replace(syncPath, "fleet", sync.Namespace, 1)+sync.Name] = sync
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.close = func() error {
		server.Config.SetKeepAlivesEnabled(false)
		return server.Listener.Close()
	}
	return s, kubeconfigFor(t, server.URL)
}

// kubeconfigFor returns a kubeconfig with a server and the namespace fleet.
func kubeconfigFor(t *testing.T, url string) string {
	t.Helper()
	return folder(t, map[string]string{"config": fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "%s"}}]
contexts: [{name: a, context: {cluster: a, namespace: fleet}}]
current-context: a
`, url)}) + "/config"
}

// served returns the kinds that discovery lists, by group and version.
func served() map[string][]metav1.APIResource {
	of := func(name, kind string, namespaced bool) metav1.APIResource {
		return metav1.APIResource{Name: name, Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"get", "list", "patch"}}
	}
	return map[string][]metav1.APIResource{
		"v1":                     {of("namespaces", "Namespace", false), of("pods", "Pod", true), of("events", "Event", true), of("nodes", "Node", false), of("configmaps", "ConfigMap", true), of("secrets", "Secret", true), of("serviceaccounts", "ServiceAccount", true), of("services", "Service", true), of("persistentvolumes", "PersistentVolume", false)},
		"plumbline.dev/v1alpha1": {of("nodesyncs", "NodeSync", true), of("approvals", "Approval", true)},
		"admissionregistration.k8s.io/v1": {
			of("validatingadmissionpolicies", "ValidatingAdmissionPolicy", false),
			of("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", false),
		},
		"authentication.k8s.io/v1":       {of("selfsubjectreviews", "SelfSubjectReview", false)},
		"coordination.k8s.io/v1":         {of("leases", "Lease", true)},
		"apps/v1":                        {of("deployments", "Deployment", true), of("daemonsets", "DaemonSet", true)},
		"rbac.authorization.k8s.io/v1":   {of("clusterrolebindings", "ClusterRoleBinding", false), of("clusterroles", "ClusterRole", false), of("rolebindings", "RoleBinding", true), of("roles", "Role", true)},
		"policy/v1":                      {of("poddisruptionbudgets", "PodDisruptionBudget", true)},
		"storage.k8s.io/v1":              {of("csidrivers", "CSIDriver", false)},
		"apiextensions.k8s.io/v1":        {of("customresourcedefinitions", "CustomResourceDefinition", false)},
		"karpenter.sh/v1":                {of("nodepools", "NodePool", false), of("nodeclaims", "NodeClaim", false)},
		"karpenter.k8s.aws/v1":           {of("ec2nodeclasses", "EC2NodeClass", false)},
		"kustomize.toolkit.fluxcd.io/v1": {of("kustomizations", "Kustomization", true)},
		"argoproj.io/v1alpha1":           {of("applications", "Application", true)},
	}
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery)
	for path, status := range s.refused {
		if strings.HasPrefix(r.URL.Path, path) {
			s.fail(w, status, map[int]metav1.StatusReason{401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden}[status])
			return
		}
	}
	if text, ok := s.texts[r.URL.Path]; ok {
		fmt.Fprint(w, text)
		return
	}
	if found := discover(r.URL.Path); found != nil {
		if list, ok := found.(metav1.APIResourceList); ok {
			list.APIResources = slices.DeleteFunc(slices.Clone(list.APIResources), func(r metav1.APIResource) bool { return s.unlisted[r.Kind] })
			found = list
		}
		s.answer(w, found)
		return
	}
	if r.Method == http.MethodPost {
		s.create(w, r)
		return
	}
	if r.URL.Query().Get("watch") != "" && s.watched != nil {
		if sync := s.watched(s, r.URL.Query().Get("resourceVersion")); sync != nil {
			s.answer(w, map[string]any{"type": "MODIFIED", "object": sync})
		}
		return
	}
	if list := s.list(r.URL.Path); list != nil {
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
			list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
		}
		s.answer(w, list)
		return
	}
	object, ok := s.objects[r.URL.Path]
	if !ok {
		s.fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	switch r.Method {
	case http.MethodPatch:
		if s.unpatchable != "" {
			s.failWith(w, http.StatusForbidden, metav1.StatusReasonForbidden, s.unpatchable)
			return
		}
		object = s.patch(r, object)
	case http.MethodDelete:
		guarded := s.deleter != "" && !strings.HasPrefix(r.URL.Path, syncPath) && r.Header.Get("Impersonate-User") != s.deleter
		if s.undeletable || guarded {
			s.fail(w, http.StatusForbidden, metav1.StatusReasonForbidden)
			return
		}
		options := metav1.DeleteOptions{}
		if err := json.NewDecoder(r.Body).Decode(&options); err != nil {
			s.t.Error(err)
		}
		if len(options.DryRun) == 0 && s.deleted != nil {
			s.deleted(s, r.URL.Path)
		}
	}
	s.answer(w, object)
	if s.answered != nil {
		s.answered(r.URL.Path)
	}
}

// discover responds to the requests of a RESTMapper; nil for another path.
func discover(path string) any {
	group, isGroup := strings.CutPrefix(path, "/apis/")
	switch {
	case path == "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case path == "/api/v1":
		return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1", APIResources: served()["v1"]}
	case path == "/apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for gv := range served() {
			group, version, named := strings.Cut(gv, "/")
			if !named {
				continue
			}
			v := metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version}
			list.Groups = append(list.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		}
		return list
	case isGroup && served()[group] != nil:
		return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group, APIResources: served()[group]}
	case isGroup && !strings.Contains(group, "/"):
		for gv := range served() {
			if g, version, _ := strings.Cut(gv, "/"); g == group {
				v := metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version}
				return metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: g, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}
			}
		}
	}
	return nil
}

// list returns the objects of the kind that a path names; nil for another path.
func (s *apiServer) list(path string) map[string]any {
	resource := path[strings.LastIndexByte(path, '/')+1:]
	all := served()
	all["v1"] = append(all["v1"], metav1.APIResource{Name: "secrets", Kind: "Secret", Namespaced: true})
	for gv, kinds := range all {
		i := slices.IndexFunc(kinds, func(k metav1.APIResource) bool { return k.Name == resource })
		if i < 0 {
			continue
		}
		items := []any{}
		for _, at := range slices.Sorted(maps.Keys(s.objects)) {
			if strings.Contains(at, "/"+resource+"/") && (strings.HasPrefix(at, path) || !strings.Contains(path, "/namespaces/")) {
				items = append(items, s.objects[at])
			}
		}
		return map[string]any{"apiVersion": gv, "kind": kinds[i].Kind + "List", "metadata": map[string]any{"resourceVersion": "7"}, "items": items}
	}
	return nil
}

// create stores an object, and responds to a SelfSubjectReview with the user.
func (s *apiServer) create(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") { // requested in protobuf
		s.answer(w, map[string]any{
			"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
			"status": map[string]any{"userInfo": map[string]any{"username": s.user}},
		})
		return
	}
	object := map[string]any{}
	if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
		s.t.Error(err)
	}
	metadata, _ := object["metadata"].(map[string]any)
	metadata["name"] = fmt.Sprint(metadata["generateName"], "1")
	metadata["uid"] = metadata["name"]
	s.objects[fmt.Sprint(r.URL.Path, "/", metadata["name"])] = object
	s.answer(w, object)
	if s.created != nil {
		s.created(s)
	}
}

func (s *apiServer) patch(r *http.Request, object any) any {
	if r.URL.Query().Get("dryRun") != "" {
		return object
	}
	before, err := json.Marshal(object)
	if err != nil {
		s.t.Error(err)
	}
	var change json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&change); err != nil {
		s.t.Error(err)
	}
	var after []byte
	if r.Header.Get("Content-Type") == "application/json-patch+json" {
		operations, _ := jsonpatch.DecodePatch(change) // an invalid patch changes nothing
		after, err = operations.Apply(before)
	} else {
		after, err = jsonpatch.MergePatch(before, change)
	}
	if err != nil {
		s.t.Error(err)
	}
	s.objects[r.URL.Path] = json.RawMessage(after)
	if strings.Contains(r.URL.Path, "/nodesyncs/") {
		sync := &v1alpha1.NodeSync{}
		if err := json.Unmarshal(after, sync); err != nil {
			s.t.Error(err)
		}
		s.objects[r.URL.Path] = sync
	}
	if s.patched != nil {
		s.patched(s, r.URL.Path)
	}
	return s.objects[r.URL.Path]
}

func (s *apiServer) answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object); err != nil {
		s.t.Error(err)
	}
}

func (s *apiServer) fail(w http.ResponseWriter, status int, reason metav1.StatusReason) {
	s.failWith(w, status, reason, fmt.Sprintf("nodesyncs.plumbline.dev is %s", strings.ToLower(string(reason))))
}

func (s *apiServer) failWith(w http.ResponseWriter, status int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	s.answer(w, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(status), Reason: reason, Message: message,
	})
}
