package removal

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestWhatIsGoneIsNamed: nobody is told that a pool is gone whose name a living one has.
func TestWhatIsGoneIsNamed(t *testing.T) {
	for uid, want := range map[types.UID]string{"p1": "NodePool/general is gone, and", "p0": "the former NodePool/general is gone, and"} {
		s := newBed(t).step(general)
		s.reportDriven(DriveResult{Removals: []v1alpha1.Removal{{Kind: general.Kind, Name: general.Name, UID: uid, Phase: v1alpha1.RemovalGone}}})
		if len(s.Notes) != 1 || !strings.HasPrefix(s.Notes[0].Message, want) {
			t.Errorf("of %s it says %v", uid, s.Notes)
		}
	}
}
