package plan

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestEachDriftReasonIsKnown: the drift reasons of the linked Karpenter are those that a Plan may contain, and those
// that no commit causes by itself.
func TestEachDriftReasonIsKnown(t *testing.T) {
	want := sets.New(
		DriftOfPool, driftOfRequirements, driftOfClass, driftOfAMI, driftOfSubnet, driftOfGroup, driftOfReservation,
		"InstanceTypeNotFound", // AWS no longer offers the node's instance type
		"PlacementGroupDrift",  // AWS has another group of that name: another selector has another hash
	)
	got := sets.New[string]()
	for module, file := range map[string]string{
		"sigs.k8s.io/karpenter":                 "pkg/controllers/nodeclaim/disruption/drift.go",
		"github.com/aws/karpenter-provider-aws": "pkg/cloudprovider/drift.go",
	} {
		got = got.Union(driftReasons(t, module, file))
	}
	if diff := cmp.Diff(sets.List(want), sets.List(got)); diff != "" {
		t.Errorf("Karpenter's reasons (-known +there are):\n%s", diff)
	}
}

// TestAPlacementGroupIsHashed: a commit that changes it causes NodeClassDrift, which Karpenter checks first.
func TestAPlacementGroupIsHashed(t *testing.T) {
	name := "web"
	with := &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{PlacementGroupSelector: &awsv1.PlacementGroupSelector{Name: &name}}}
	if (&awsv1.EC2NodeClass{}).Hash(nil) == with.Hash(nil) {
		t.Error("nothing in the hash tells of a placement group")
	}
}

// driftReasons returns the constants of that type in a file of a module.
func driftReasons(t *testing.T, module, file string) sets.Set[string] {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("find %s: %v", module, err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), file))
	if err != nil {
		t.Fatal(err)
	}
	found := sets.New[string]()
	for _, reason := range regexp.MustCompile(`DriftReason += "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		found.Insert(reason[1])
	}
	return found
}
