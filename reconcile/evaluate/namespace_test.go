package evaluate_test

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
)

// TestCheckNamespace shows that a commit is refused that names a namespace in which the daemon may not read.
func TestCheckNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		served []string
		want   string
	}{
		"all":         {nil, ""},
		"served":      {[]string{"kube-system", "karpenter"}, ""},
		"another one": {[]string{"kube-system"}, `refused: namespace is "karpenter", but the daemon reads Karpenter's objects only in kube-system: set karpenterNamespace`},
	} {
		t.Run(name, func(t *testing.T) {
			err := evaluate.CheckNamespace("karpenter", c.served)
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
