package cluster_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

const pairYAML = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: %[1]s
spec:
  role: KarpenterNodeRole-bench
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: bench}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: bench}}]
  tags: {team: data, revision: "1"}
  blockDeviceMappings:
    - deviceName: /dev/xvda
      ebs: {volumeSize: 100Gi, volumeType: gp3, encrypted: true}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: %[1]s
spec:
  weight: %[2]d
  limits: {cpu: "100"}
  template:
    metadata:
      labels: {team: data}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %[1]s}
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand, spot]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
        - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["4"]}
      expireAfter: 720h
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized
    consolidateAfter: 1m
    budgets: [{nodes: 10%%}]
`

// TestWhatAnObjectInGitTakes limits the memory of a definition that is in Git and, unchanged, in the cluster, after a
// first Plan: most of it is stored once.
func TestWhatAnObjectInGitTakes(t *testing.T) {
	const pairs, most = 500, 25_000
	files := fstest.MapFS{"nodes/plumbline.yaml": {Data: []byte("apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: test, region: eu-west-1}\nmanagement: External\n")}}
	for i := range pairs {
		name := fmt.Sprintf("pair-%04d", i)
		files["nodes/"+name+".yaml"] = &fstest.MapFile{Data: fmt.Appendf(nil, pairYAML, name, i%100+1)}
	}
	crds, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	validator, err := schema.New(crds)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{validator: validator, files: files}
	w.render(t) // rules are compiled
	live := w.server(t)
	w.set, w.cache = nil, render.Cache{}

	before := heap()
	transform := cluster.CacheOptions(&cluster.Refusals{}).DefaultTransform
	stores := map[string]toolscache.Indexer{}
	for _, kind := range render.Kinds() {
		stores[kind.GVK.Kind] = toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	}
	for _, text := range live {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		trimmed, err := transform(object)
		if err != nil {
			t.Fatal(err)
		}
		if err := stores[object.GetKind()].Add(trimmed); err != nil {
			t.Fatal(err)
		}
	}
	inCluster := heap()
	w.render(t)
	inGit := heap()
	memo := w.plan(t, stores)
	planned := heap()
	runtime.KeepAlive(stores)
	runtime.KeepAlive(memo)
	runtime.KeepAlive(w)
	each := func(from, to uint64) int64 { return (int64(to) - int64(from)) / int64(len(live)) }
	t.Logf("of each: %d bytes in the cache, %d more in Git, %d more of the Plan", each(before, inCluster), each(inCluster, inGit), each(inGit, planned))
	if got := each(before, planned); got > most {
		t.Errorf("each takes %d bytes, want at most %d", got, most)
	}
}

// world is a repository and what is built from it.
type world struct {
	validator *schema.Validator
	files     fstest.MapFS
	cache     render.Cache
	set       *render.Set
}

func (w *world) render(t *testing.T) {
	t.Helper()
	snapshot := render.Snapshot{Revision: "main@sha1:1", Commit: "1", FS: w.files}
	karpenter := &render.Karpenter{Nodes: []string{"."}}
	set, err := render.Render(t.Context(), snapshot, "./nodes", karpenter, w.validator, render.WithCache(&w.cache))
	if err != nil {
		t.Fatal(err)
	}
	w.set = set
}

// server returns each object as the API server has it after an apply.
func (w *world) server(t *testing.T) [][]byte {
	t.Helper()
	var live [][]byte
	for i, object := range w.set.Objects {
		applied := plan.Desired(object, owner)
		fields, err := w.validator.FieldSet(applied)
		if err != nil {
			t.Fatal(err)
		}
		written, err := fields.ToJSON()
		if err != nil {
			t.Fatal(err)
		}
		applied.SetUID("5f6d2f5e-7a51-4f6f-9f5b-0c1f0b9d8a11")
		applied.SetResourceVersion(fmt.Sprint(1000 + i))
		applied.SetGeneration(1)
		metadata := applied.Object["metadata"].(map[string]any)
		metadata["creationTimestamp"] = "2026-11-22T00:00:00Z"
		metadata["managedFields"] = []any{
			map[string]any{"manager": "plumbline", "operation": "Apply", "apiVersion": applied.GetAPIVersion(), "time": "2026-11-22T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": json.RawMessage(written)},
			map[string]any{"manager": "karpenter", "operation": "Update", "subresource": "status", "apiVersion": applied.GetAPIVersion(), "time": "2026-11-22T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": json.RawMessage(`{"f:status":{"f:conditions":{}}}`)},
		}
		applied.Object["status"] = map[string]any{"conditions": []any{ready("True", 1)}}
		text, err := json.Marshal(applied.Object)
		if err != nil {
			t.Fatal(err)
		}
		live = append(live, text)
	}
	return live
}

var owner = plan.OwnerOf("plumbline-system", "bench")

// plan makes a Plan that changes nothing.
func (w *world) plan(t *testing.T, stores map[string]toolscache.Indexer) plan.Memo {
	t.Helper()
	live := plan.Live{Served: true, Objects: map[render.Ref]*plan.Object{}}
	for _, store := range stores {
		for _, object := range store.List() {
			u := object.(*unstructured.Unstructured)
			live.Objects[render.Ref{Kind: u.GetKind(), Name: u.GetName()}] = plan.NewObject(u)
		}
	}
	made, err := plan.Make(t.Context(), w.set, live, plan.Policy{Owner: owner, Now: time.Unix(1, 0)}, w.validator)
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Changes) > 0 {
		t.Fatalf("%d changes, the first %s: %s", len(made.Changes), made.Changes[0].Ref, made.Changes[0].Message)
	}
	return made.Memo
}
