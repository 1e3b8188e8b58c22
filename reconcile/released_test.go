package reconcile

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAReleaseIsForOnce shows that, if a person has released a removal and Git contains the entry again, status and one
// event report it, and the UID releases nothing any more.
func TestAReleaseIsForOnce(t *testing.T) {
	shared := newPlannedShelf(t)
	w := &plannedWorld{sync: nodeSync(unchanged), server: applytest.New(t), files: fstest.MapFS{"prod/plumbline.yaml": {Data: []byte(plannedYAML)}}}
	w.install(shared.identity)
	w.files["prod/nodes/class.yaml"] = &fstest.MapFile{Data: []byte(plannedClass)}
	object := w.server.Definition(t, plannedClass).Desired
	object.SetLabels(map[string]string{v1alpha1.OwnerLabel: namespace + ".prod"})
	if err := w.server.ApplyAs(t.Context(), object, v1alpha1.FieldManager, true); err != nil {
		t.Fatal(err)
	}
	uid := w.server.Object(render.Ref{Kind: render.EC2NodeClass, Name: "default"}).GetUID()
	w.sync.Status.LastAppliedRevision = "main@sha1:0"
	w.sync.Annotations = map[string]string{v1alpha1.RemoveAnnotation: string(uid)}
	b := w.bed(t, shared)
	for range 2 {
		p := b.pass()
		p.attempts(t.Context())
		if _, err := p.conclude(t.Context()); err != nil {
			t.Fatal(err)
		}
		if used := b.read().Status.UsedReleases; len(used) != 1 || used[0] != uid {
			t.Fatalf("used: %v, want %s; %v", used, uid, p.Fault)
		}
	}
	if got := strings.Count(strings.Join(b.told(), "\n"), "ReleaseUsed EC2NodeClass/default is in Git"); got != 1 {
		t.Errorf("%d events say that the release is used", got)
	}
}
