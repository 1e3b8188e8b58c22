package evaluate

import (
	"io/fs"
	"sync"
	"testing"
	"testing/fstest"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// identified are files with identities, like those of a commit, that count how often each is read.
type identified struct {
	fstest.MapFS
	mu    sync.Mutex
	reads map[string]int
}

func (f *identified) Open(name string) (fs.File, error) {
	f.mu.Lock()
	f.reads[name]++
	f.mu.Unlock()
	return f.MapFS.Open(name)
}

func (f *identified) Identity(name string) (string, error) {
	info, err := fs.Stat(f.MapFS, name)
	if err != nil || info.IsDir() {
		return "folder", err
	}
	return string(f.MapFS[name].Data), nil
}

const preparedPool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: batch}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: batch}
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
`

// TestWhatIsPreparedIsNotRenderedAgain shows this; everything else is repeated: warnings about the Set are reported
// with the Set.
func TestWhatIsPreparedIsNotRenderedAgain(t *testing.T) {
	crds, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, crd := range crds {
		objects = append(objects, crd)
	}
	b := newBed(t, desiredNodeSync(desiredUnchanged), objects...)
	const pool = "prod/pool.yaml"
	files := &identified{reads: map[string]int{}, MapFS: fstest.MapFS{
		"prod/plumbline.yaml": {Data: []byte("apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: c, region: eu-west-1}\nmanagement: External\n")},
		pool:                  {Data: []byte(preparedPool)},
		"prod/empty.yaml":     {Data: []byte("# nothing\n")},
	}}
	at := func() *DesiredStep {
		s := b.step()
		s.Karpenter, s.Snapshot = nil, &render.Snapshot{Revision: "main@sha1:1", Commit: "1", FS: files}
		return s
	}
	for range 2 {
		if err := at().Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if b.memory.Set != nil || files.reads[pool] != 1 {
		t.Fatalf("it has a Set: %t; read %d times, want once", b.memory.Set != nil, files.reads[pool])
	}
	pass := at()
	for _, take := range []func() error{
		func() error { return pass.Configure(t.Context()) },
		func() error { return pass.Resolve(t.Context()) },
		func() error { return pass.Render(t.Context()) },
	} {
		if err := take(); err != nil {
			t.Fatal(err)
		}
	}
	if len(pass.Set.Objects) != 1 || files.reads[pool] != 1 {
		t.Errorf("%d objects; read %d times, want one and once", len(pass.Set.Objects), files.reads[pool])
	}
	if len(pass.Set.Warnings) != 1 || len(pass.Notes) != 1 {
		t.Errorf("warnings: %v; reported: %v", pass.Set.Warnings, pass.Notes)
	}
}
