package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// TestAConversionWebhookIsNamed: who reads the condition can take it out.
func TestAConversionWebhookIsNamed(t *testing.T) {
	failed := func(kind string) error {
		return errors.New("failed to list " + kind + ": conversion webhook for " + kind + ` failed: Post "https://karpenter.kube-system.svc:8443/?timeout=30s": service "karpenter" not found`)
	}
	for kind, crd := range map[string]string{
		"karpenter.sh/v1beta1, Kind=NodePool":          "nodepools.karpenter.sh",
		"karpenter.sh/v1beta1, Kind=NodeClaim":         "nodeclaims.karpenter.sh",
		"karpenter.k8s.aws/v1beta1, Kind=EC2NodeClass": "ec2nodeclasses.karpenter.k8s.aws",
	} {
		got := fault.Classify(fmt.Errorf("watch: %w", failed(kind)))
		said := got.Error()
		if got.Class != fault.Terminal || !strings.Contains(said, `service "karpenter" not found: no controller serves the conversion webhook of crd `+crd) || !strings.Contains(said, "kubectl patch crd "+crd+" ") {
			t.Errorf("%s: %v %s", kind, got.Class, said)
		}
		if again := fault.Classify(fmt.Errorf("see: %w", got)).Error(); strings.Count(again, "kubectl patch") != 1 {
			t.Errorf("%s, wrapped: %s", kind, again)
		}
	}
}
