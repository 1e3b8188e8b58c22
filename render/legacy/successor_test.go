package legacy_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/render/legacy"
)

func TestSuccessorOf(t *testing.T) {
	for name, tc := range map[string]struct {
		apiVersion, kind string
		now, nowKind     string
	}{
		"Provisioner":          {"karpenter.sh/v1alpha5", "Provisioner", "karpenter.sh/v1", "NodePool"},
		"AWSNodeTemplate":      {"karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", "karpenter.k8s.aws/v1", "EC2NodeClass"},
		"Machine":              {"karpenter.sh/v1alpha5", "Machine", "karpenter.sh/v1", "NodeClaim"},
		"beta NodePool":        {"karpenter.sh/v1beta1", "NodePool", "karpenter.sh/v1", "NodePool"},
		"beta EC2NodeClass":    {"karpenter.k8s.aws/v1beta1", "EC2NodeClass", "karpenter.k8s.aws/v1", "EC2NodeClass"},
		"a NodePool of today":  {"karpenter.sh/v1", "NodePool", "", ""},
		"a kind of other make": {"example.com/v1alpha5", "Provisioner", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			now, ok := legacy.SuccessorOf(schema.FromAPIVersionAndKind(tc.apiVersion, tc.kind))
			if ok != (tc.now != "") || now.APIVersion != tc.now || now.Kind != tc.nowKind {
				t.Errorf("became %+v, %v", now, ok)
			}
			if ok && now.Hint == "" {
				t.Error("no hint")
			}
		})
	}
}
