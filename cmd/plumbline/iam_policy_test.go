package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/iam"
)

func TestIAMPolicy(t *testing.T) {
	prod := []string{"iam-policy", "--cluster", "prod-eu", "--region", "eu-west-1"}
	for file, args := range map[string][]string{
		"iam-policy.table":                {"--account", "111122223333"},
		"iam-policy.json":                 {"--account", "111122223333", "-o", "json"},
		"iam-policy-1.0.json":             {"--account", "111122223333", "--version", "1.0.8", "--queue", "", "-o", "json"},
		"iam-policy.cloudformation.yaml":  {"--node-role", "nodes", "-o", "cloudformation"},
		"iam-policy.tf":                   {"--partition", "aws-us-gov", "--region", "us-gov-west-1", "-o", "terraform"},
		"iam-policy-cn.tf":                {"--region", "cn-north-1", "--account", "111122223333", "-o", "terraform"},
		"iam-policy-plumbline.tf":         {"--for", "plumbline", "-o", "terraform"},
		"iam-policy-plumbline-gone.table": {"--for", "plumbline", "--teardown", "--account", "111122223333"},
	} {
		t.Run(file, func(t *testing.T) {
			got := plumbline(t, append(prod[:len(prod):len(prod)], args...)...)
			if got.code != exitDone || got.err != "" {
				t.Fatalf("code %d, says %q", got.code, got.err)
			}
			golden(t, file, got.out)
		})
	}
}

// TestIAMPolicyOfPlumbline: the command prints the policies of manifests, filled in as with envsubst.
func TestIAMPolicyOfPlumbline(t *testing.T) {
	for file, flag := range map[string]string{
		"iam-policy.json": "--read-only", "iam-policy-verify.json": "--verify", "iam-policy-teardown.json": "--teardown",
		"iam-policy-doctor.json": "--doctor", "iam-policy-migrate.json": "--migrate",
	} {
		text, err := os.ReadFile("../../manifests/" + file)
		if err != nil {
			t.Fatal(err)
		}
		fill := strings.NewReplacer("${PARTITION}", "aws", "${REGION}", "eu-west-1", "${ACCOUNT}", "111122223333", "${CLUSTER_NAME}", "prod-eu")
		want, err := iam.Parse([]byte(fill.Replace(string(text))))
		if err != nil {
			t.Fatal(err)
		}
		got := plumbline(t, "iam-policy", "--for", "plumbline", flag, "--cluster", "prod-eu", "--region", "eu-west-1", "--account", "111122223333", "-o", "json")
		var policies []iam.Policy
		if err := json.Unmarshal([]byte(got.out), &policies); err != nil || len(policies) == 0 {
			t.Fatalf("%v in %s%s", err, got.out, got.err)
		}
		if diff := cmp.Diff(want, policies[len(policies)-1].Document); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

func TestIAMPolicyRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no cluster":      {[]string{"--region", "eu-west-1"}, "--cluster and --region are required"},
		"no account":      {[]string{"--cluster", "a", "--region", "eu-west-1", "-o", "json"}, "--account is required with -o json"},
		"another role":    {[]string{"--cluster", "a", "--region", "eu-west-1", "--account", "111122223333", "--for", "nodes"}, `--for "nodes"`},
		"verify of none":  {[]string{"--cluster", "a", "--region", "eu-west-1", "--account", "111122223333", "--verify"}, "need --for plumbline"},
		"two of them":     {[]string{"--for", "plumbline", "--verify", "--teardown"}, "none of the others can be"},
		"an old version":  {[]string{"--cluster", "a", "--region", "eu-west-1", "--account", "111122223333", "--version", "0.37.7"}, "Karpenter 1.0.0 to"},
		"a variable name": {[]string{"--cluster", "${x}", "--region", "eu-west-1", "-o", "terraform"}, `cluster "${x}"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := plumbline(t, append([]string{"iam-policy"}, c.args...)...)
			if got.code != exitFailed || got.out != "" || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, prints %q, says %q", got.code, got.out, got.err)
			}
		})
	}
}
