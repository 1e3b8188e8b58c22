package bootstrap

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// TestDiffs: a newer version's permission is a line of the diff, and policies that do not change have none.
func TestDiffs(t *testing.T) {
	before, after := specOf("production", "eu-west-1"), specOf("production", "eu-west-1")
	before.Version = "1.14.1"
	text, err := made(t, before).JSON()
	if err != nil {
		t.Fatal(err)
	}
	deployed, err := Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	diffs, err := Diffs(deployed, made(t, after))
	if err != nil || len(diffs) != 1 || diffs[0].Resource != "KarpenterControllerPolicy" {
		t.Fatalf("%+v, %v", diffs, err)
	}
	if !strings.Contains(diffs[0].Text, `+        "ec2:RebootInstances",`) || strings.Count(diffs[0].Text, "\n+") != 1+1 {
		t.Errorf("diff:\n%s", diffs[0].Text)
	}
	if diffs, err := Diffs(Template{}, made(t, after)); err != nil || len(diffs) != 0 {
		t.Errorf("of a new stack: %v, %v", diffs, err)
	}
}

// facts are those of a cluster without a stack.
func facts() Facts {
	return Facts{
		Account: "111122223333", Agent: true, Provider: true,
		Cluster: cloud.Cluster{
			Name: "production", ARN: "arn:aws-cn:eks:cn-north-1:111122223333:cluster/production", Status: "ACTIVE",
			Issuer: "oidc.example.com/id/A", AuthenticationMode: "API_AND_CONFIG_MAP",
		},
	}
}

func TestDecide(t *testing.T) {
	deployed := func(f *Facts) {
		f.Stack = &cloud.Stack{Status: "CREATE_COMPLETE", Outputs: map[string]string{OutputVersion: "1.14.1", OutputAuth: "irsa"}}
	}
	for name, c := range map[string]struct {
		facts func(*Facts)
		wish  Wish
		// version and auth are those of the stack, or fails is in the error.
		version string
		auth    Auth
		entries bool
		fails   string
	}{
		"new":                  {func(*Facts) {}, Wish{}, "1.15.0", PodIdentity, true, ""},
		"as the stack":         {deployed, Wish{}, "1.14.1", IRSA, true, ""},
		"another version":      {deployed, Wish{Version: "1.15.0"}, "", "", true, "is for Karpenter 1.14.1: --upgrade"},
		"upgrade":              {deployed, Wish{Upgrade: true}, "1.15.0", IRSA, true, ""},
		"no access entries":    {func(f *Facts) { f.Cluster.AuthenticationMode = "CONFIG_MAP" }, Wish{}, "1.15.0", PodIdentity, false, ""},
		"entry of another":     {func(f *Facts) { f.Entry = true }, Wish{}, "1.15.0", PodIdentity, false, ""},
		"no agent":             {func(f *Facts) { f.Agent = false }, Wish{}, "", "", true, "aws eks create-addon --region cn-north-1"},
		"no agent, but IRSA":   {func(f *Facts) { f.Agent = false }, Wish{Auth: IRSA}, "1.15.0", IRSA, true, ""},
		"no provider":          {func(f *Facts) { f.Provider = false }, Wish{Auth: IRSA}, "", "", true, "create-open-id-connect-provider --url https://oidc.example.com/id/A"},
		"deleting":             {func(f *Facts) { f.Cluster.Status = "DELETING" }, Wish{}, "", "", true, "is DELETING"},
		"association by hand":  {func(f *Facts) { f.Links = map[string]string{ControllerLink: "arn:x"} }, Wish{}, "", "", true, "has the role arn:x"},
		"after a failed start": {func(f *Facts) { deployed(f); f.Stack.Status = "ROLLBACK_COMPLETE" }, Wish{}, "1.15.0", PodIdentity, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts()
			c.facts(&f)
			c.wish.Region = "cn-north-1"
			spec, _, err := Decide(c.wish, f)
			switch {
			case c.fails != "":
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("got %v, want %q", err, c.fails)
				}
			case err != nil || spec.Version != c.version || spec.Auth != c.auth || spec.AccessEntries != c.entries:
				t.Errorf("%+v, %v", spec, err)
			case spec.AuthMap != (f.Cluster.AuthenticationMode == "CONFIG_MAP"):
				t.Errorf("AuthMap is %v", spec.AuthMap)
			case spec.NodeRoleARN() != "arn:aws-cn:iam::111122223333:role/KarpenterNodeRole-production":
				t.Errorf("role %s", spec.NodeRoleARN())
			}
		})
	}
}
