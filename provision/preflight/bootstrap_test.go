package preflight

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/manifests"
	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

// TestBootstrapHasWhatIsChecked: the stack of plumbline bootstrap has each rule and each policy that the checks look for, and
// fits into a request with plumbline's real policy.
func TestBootstrapHasWhatIsChecked(t *testing.T) {
	template, err := bootstrap.New(bootstrap.Spec{
		Cluster: iam.Cluster{Name: strings.Repeat("a", 100), Region: "us-gov-west-1", Account: "111122223333"}, Version: "1.15.0", Auth: bootstrap.PodIdentity,
		AccessEntries: true, Daemon: iam.Template{Prefix: "PlumblinePolicy-", Text: manifests.DaemonPolicy},
	})
	if err != nil {
		t.Fatal(err)
	}
	var rules []cloud.Rule
	for _, r := range template.Resources {
		if pattern, is := r.Properties["EventPattern"]; is {
			text, err := json.Marshal(pattern)
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, cloud.Rule{Pattern: string(text), Enabled: true})
		}
	}
	for _, e := range events {
		if !slices.ContainsFunc(rules, e.sentBy) {
			t.Errorf("no rule sends %q", e.detail)
		}
	}
	attached, err := json.Marshal(template.Resources[bootstrap.NodeRole].Properties["ManagedPolicyArns"])
	if err != nil {
		t.Fatal(err)
	}
	for _, needed := range nodePolicies {
		if !strings.Contains(string(attached), "/"+needed.names[0]+`"`) {
			t.Errorf("nodes do not have %s: %s", needed.names[0], attached)
		}
	}
}
