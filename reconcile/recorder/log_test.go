package recorder

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// TestWhatIsKeptIsWhatIsWritten checks this also after a restart, and for the existing NodeSync only.
func TestWhatIsKeptIsWhatIsWritten(t *testing.T) {
	w := newWorld(t)
	prod := types.NamespacedName{Namespace: "plumbline-system", Name: "prod"}
	for _, when := range []string{"at first", "after a restart"} {
		w.r.Keep()
		claim := w.launch(when[:2])
		must(t, w.after(writeInterval))
		w.delete(claim.Name)
		w.end(claim.Name)
		must(t, w.after(writeInterval))
		kept := w.r.Kept(prod, "11")
		if kept == nil || len(kept.Records) == 0 {
			t.Fatalf("%s: kept is %+v", when, kept)
		}
		if diff := cmp.Diff(w.log(), kept); diff != "" {
			t.Errorf("%s: kept (-written +kept):\n%s", when, diff)
		}
		w.start()
	}
	if len(w.log().Records) != 2 {
		t.Errorf("recorded: %+v", w.log().Records)
	}
	must(t, w.after(writeInterval))
	if kept := w.r.Kept(prod, "11"); kept != nil {
		t.Errorf("kept without being asked to: %+v", kept)
	}
	w.start()
	w.r.Keep()
	must(t, w.after(writeInterval))
	if kept := w.r.Kept(prod, "12"); kept != nil {
		t.Errorf("kept of another NodeSync of the name: %+v", kept)
	}
	if kept := w.r.Kept(prod, "11"); kept == nil || len(kept.Records) != 2 {
		t.Errorf("kept after a start in which nothing ends: %+v", kept)
	}
}
