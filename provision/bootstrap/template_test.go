package bootstrap

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/iam"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// daemonPolicy has one statement: the real one is plumbline's, in manifests.
const daemonPolicy = `{"Version":"2012-10-17","Statement":[{"Sid":"KnowTheCluster","Effect":"Allow","Action":"eks:DescribeCluster",` +
	`"Resource":"arn:${PARTITION}:eks:${REGION}:${ACCOUNT}:cluster/${CLUSTER_NAME}"}]}`

func specOf(name, region string) Spec {
	return Spec{
		Cluster: iam.Cluster{Name: name, Region: region, Account: "111122223333"}, Version: "1.15.0", Auth: PodIdentity,
		Issuer: "oidc.eks." + region + ".amazonaws.com/id/ABC", AccessEntries: true,
		Controller: ServiceAccount{"kube-system", "karpenter"}, Plumbline: ServiceAccount{"plumbline-system", "plumbline"},
		Daemon: iam.Template{Prefix: "PlumblinePolicy-", Description: "plumbline's role", Text: daemonPolicy},
	}
}

func made(t *testing.T, s Spec) Template {
	t.Helper()
	template, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

// names have 10, 40 and 100 characters.
var names = []string{"production", strings.Repeat("platform-", 4) + "prod", strings.Repeat("platform_-", 10)}

var regions = []string{"eu-west-1", "cn-north-1", "us-gov-west-1"}

func variants() map[string]Spec {
	all := map[string]Spec{}
	for _, name := range names {
		for _, region := range regions {
			all[fmt.Sprintf("%d-%s", len(name), region)] = specOf(name, region)
		}
	}
	irsa := specOf("production", "eu-west-1")
	irsa.Auth, irsa.AccessEntries = IRSA, false
	all["irsa"] = irsa
	return all
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestTemplates(t *testing.T) {
	for name, spec := range variants() {
		t.Run(name, func(t *testing.T) {
			text, err := made(t, spec).YAML()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".yaml", text)
		})
	}
}

// TestCFNLint runs the linter of CloudFormation, which knows the schema of each type of resource.
func TestCFNLint(t *testing.T) {
	lint, err := exec.LookPath("cfn-lint")
	if err != nil {
		t.Skip("cfn-lint is not installed: pip install cfn-lint")
	}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) != len(variants()) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	out, err := exec.CommandContext(t.Context(), lint, append([]string{"--regions", "eu-west-1", "--"}, files...)...).CombinedOutput()
	if err != nil {
		t.Errorf("cfn-lint: %v\n%s", err, out)
	}
}

// TestTerraformFormat: the configuration is valid HCL in Terraform's format.
func TestTerraformFormat(t *testing.T) {
	for _, name := range []string{"10-eu-west-1", "100-cn-north-1", "irsa"} {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			if err := WriteTerraform(&text, variants()[name]); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".tf", text.Bytes())
			terraform, err := exec.LookPath("terraform")
			if err != nil {
				t.Skip("terraform is not installed")
			}
			cmd := exec.CommandContext(t.Context(), terraform, "fmt", "-")
			cmd.Stdin = bytes.NewReader(text.Bytes())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("terraform fmt: %v\n%s", err, out)
			}
		})
	}
}

// TestNamesFit: every name is as long as AWS allows, and unique for clusters whose long names begin alike.
func TestNamesFit(t *testing.T) {
	limits := map[string]int{"RoleName": 64, "InstanceProfileName": 128, "ManagedPolicyName": 128, "QueueName": 80, "Name": 64}
	for _, name := range names {
		spec, other := specOf(name, "eu-west-1"), specOf(name[:len(name)-1]+"x", "eu-west-1")
		template, second := made(t, spec), made(t, other)
		taken := second.NamesIn()
		for id, r := range template.Resources {
			for property, limit := range limits {
				if got, is := r.Properties[property].(string); is && (len(got) > limit || got == taken[id]) {
					t.Errorf("%s of %s: %s (%d)", property, id, got, len(got))
				}
			}
		}
		if stack := spec.Stack(); len(stack) > 128 || strings.Contains(stack, "_") || stack == other.Stack() {
			t.Errorf("stack %s", stack)
		}
		if got := len(spec.AllNames(template)); got != len(template.NamesIn()) {
			t.Errorf("%d names by ID, and %d in the template", got, len(template.NamesIn()))
		}
	}
	if got := StackName("a-b"); got != "plumbline-a-b" || StackName("a_b") == got {
		t.Errorf("stacks %s and %s", got, StackName("a_b"))
	}
	short := specOf(names[2], "eu-west-1")
	if got := short.AllNames(made(t, short)).Shortened(names[2]); got[NodeRole] == "" || len(got[NodeRole]) != 64 {
		t.Errorf("shortened: %v", got)
	}
}

// textOf returns a property as JSON, with the ARN of the queue resolved.
func textOf(t *testing.T, template Template, id, property string) string {
	t.Helper()
	text, err := json.Marshal(template.Resources[id].Properties[property])
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), `{"Fn::GetAtt":["KarpenterQueue","Arn"]}`, `"arn:aws:sqs:eu-west-1:111122223333:production"`)
}

// TestTrust: only the ServiceAccounts of this cluster get the roles, only EC2 that of nodes, and only the rules send.
func TestTrust(t *testing.T) {
	spec := specOf("production", "eu-west-1")
	irsa := spec
	irsa.Auth = IRSA
	arn := func(cluster string) string { return "arn:aws:eks:eu-west-1:111122223333:cluster/" + cluster }
	pods := func(cluster, namespace, name string) iam.Assumption {
		return iam.PodIdentity(arn(cluster), "111122223333", namespace, name, cluster)
	}
	web := func(issuer, name string) iam.Assumption {
		return iam.WebIdentity("aws", "111122223333", issuer, "kube-system", name)
	}
	queue, rule := "arn:aws:sqs:eu-west-1:111122223333:production", "arn:aws:events:eu-west-1:111122223333:rule/"
	for name, c := range map[string]struct {
		spec         Spec
		id, property string
		by           iam.Assumption
		want         iam.Decision
	}{
		"nodes":           {spec, NodeRole, "AssumeRolePolicyDocument", iam.EC2("aws")[0], iam.Allowed},
		"no pods as node": {spec, NodeRole, "AssumeRolePolicyDocument", pods("production", "kube-system", "karpenter"), iam.Denied},
		"controller":      {spec, ControllerRole, "AssumeRolePolicyDocument", pods("production", "kube-system", "karpenter"), iam.Allowed},
		"other cluster":   {spec, ControllerRole, "AssumeRolePolicyDocument", pods("other", "kube-system", "karpenter"), iam.Denied},
		"plumbline":       {spec, PlumblineRole, "AssumeRolePolicyDocument", pods("production", "plumbline-system", "plumbline"), iam.Allowed},
		"web identity":    {irsa, ControllerRole, "AssumeRolePolicyDocument", web(spec.Issuer, "karpenter"), iam.Allowed},
		"other account":   {irsa, ControllerRole, "AssumeRolePolicyDocument", web(spec.Issuer, "other"), iam.Denied},
		"other issuer":    {irsa, ControllerRole, "AssumeRolePolicyDocument", web("oidc.example.com/id/X", "karpenter"), iam.Denied},
		"our rule": {
			spec, QueuePolicy, "PolicyDocument",
			iam.EventBridge(queue, rule+"KarpenterRebalance-production", "111122223333"), iam.Allowed,
		},
		"another rule": {spec, QueuePolicy, "PolicyDocument", iam.EventBridge(queue, rule+"other", "111122223333"), iam.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			answer, _, err := iam.Trusts(textOf(t, made(t, c.spec), c.id, c.property), c.by)
			if err != nil || answer.Decision != c.want {
				t.Errorf("%+v, %v: want %s", answer, err, c.want)
			}
		})
	}
}

func TestInvalidSpecs(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"IRSA without an issuer": func(s *Spec) { s.Auth, s.Issuer = IRSA, "" },
		"unknown version":        func(s *Spec) { s.Version = "0.37.0" },
		"invalid cluster":        func(s *Spec) { s.Cluster.Name = "a*" },
	} {
		t.Run(name, func(t *testing.T) {
			spec := specOf("production", "eu-west-1")
			change(&spec)
			if _, err := New(spec); err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestParse: a template that was given to CloudFormation has the same resources when it is read.
func TestParse(t *testing.T) {
	want := made(t, specOf("production", "eu-west-1"))
	text, err := want.JSON()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	before, err := want.YAML()
	if err != nil {
		t.Fatal(err)
	}
	after, err := got.YAML()
	if diff := cmp.Diff(string(before), string(after)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
