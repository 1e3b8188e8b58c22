package main

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/provision/audit"
	"github.com/plumbline-dev/plumbline/provision/cloud"
)

func (refusingAWS) Clusters(context.Context) ([]string, error) {
	return nil, refuse("eks:ListClusters")
}

func (refusingAWS) Network(context.Context) ([]cloud.Subnet, []cloud.SecurityGroup, error) {
	return nil, nil, refuse("ec2:DescribeSubnets")
}

func (refusingAWS) Trail(context.Context, string, time.Time, time.Time, int) ([]cloud.TrailCall, error) {
	return nil, refuse("cloudtrail:LookupEvents")
}

// audited runs the command in an account that denies everything.
func audited(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	s, kubeconfig := serve(t)
	s.refused["/"] = http.StatusForbidden
	flags := genericclioptions.NewConfigFlags(true)
	cmd := newAuditCommand(flags, auditor{now: time.Now, dial: func(context.Context, string, string) (audit.AWS, error) { return refusingAWS{}, nil }})
	flags.AddFlags(cmd.PersistentFlags())
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var stdout, stderr bytes.Buffer
	cmd.SetArgs(append([]string{"--kubeconfig", kubeconfig}, args...))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	code = exitCode(cmd.ExecuteContext(t.Context()), &stderr)
	return stdout.String(), stderr.String(), code
}

// TestAuditIsDenied: without any permission, everything is unknown, and the exit code is that of an error.
func TestAuditIsDenied(t *testing.T) {
	out, errs, code := audited(t, "--regions", "eu-west-1", "--profiles", "dev", "--contexts", "*")
	if code != exitFailed || !strings.Contains(errs, "could not be read") {
		t.Errorf("code %d, says %q", code, errs)
	}
	for _, text := range []string{
		"unknown: the EKS clusters in eu-west-1 with profile dev: AWS denies eks:ListClusters", "fix: allow eks:ListClusters on *",
		"unknown: Karpenter's controllers of context", "unknown: the cluster of context", "account unknown",
	} {
		if !strings.Contains(out, text) {
			t.Errorf("%q is missing in:\n%s", text, out)
		}
	}
}

func TestAuditArguments(t *testing.T) {
	for args, want := range map[string]string{
		"":                                     "--regions or --contexts is required",
		"--profiles dev":                       "--regions or --contexts is required",
		"--contexts none":                      `the kubeconfig has no context "none"`,
		"--profiles dev --contexts *":          "--profiles needs --regions",
		"--regions eu-west-1 --name-pattern (": "--name-pattern: error parsing regexp",
		"--contexts * --cloudtrail 90d":        "--cloudtrail needs --regions",
		"--regions eu-west-1 --cloudtrail 91d": `--cloudtrail "91d": want a time such as 12h, or 1d to 90d`,
		"--regions eu-west-1 --cloudtrail -1h": `--cloudtrail "-1h": want`,
		"--regions eu-west-1 --cloudtrail d":   `--cloudtrail "d": want`,
	} {
		if _, errs, code := audited(t, strings.Fields(args)...); code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d, says %q", args, code, errs)
		}
	}
}

// TestAuditPrints: each format has the clusters and the findings; one that is found decides the exit code.
func TestAuditPrints(t *testing.T) {
	report := audit.Report{
		Clusters: []audit.Cluster{
			{Account: "111122223333", Region: "eu-west-1", Name: "blue", Context: "admin@blue", Endpoint: "https://blue", Tags: map[string]string{"b": "2", "a": "1"}, Controllers: []audit.Controller{
				{Namespace: "kube-system", Name: "karpenter", Version: "1.15.0", ClusterName: "green", Queue: "q", RoleARN: "arn:aws:iam::111122223333:role/x/karpenter"},
			}},
			{Account: "111122223333", Region: "us-east-1", Name: "green"},
		},
		Findings: []audit.Finding{
			{Kind: audit.SameName, Message: "blue and green use one | name", Fix: "rename one"}, {Kind: audit.Unknown, Message: "denied"},
		},
	}
	for output, texts := range map[format][]string{
		formatTable: {
			"account 111122223333, eu-west-1", "account 111122223333, us-east-1", "admin@blue   1.15.0", "karpenter", "a=1,b=2",
			"same-name: blue and green use one | name\n  fix: rename one", "unknown: denied", "green     -         unknown",
		},
		formatJSON:     {`"clusterName": "green"`, `"kind": "same-name"`, `"queue": "q"`, `"endpoint": "https://blue"`},
		formatMarkdown: {"| 111122223333 | eu-west-1 | blue | admin@blue | 1.15.0 | green | q | karpenter | https://blue | a=1,b=2 |", `- **same-name**: blue and green use one \| name`},
	} {
		var out bytes.Buffer
		if err := writeAudit(&out, output, report); err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s: %q is missing in:\n%s", output, text, out.String())
			}
		}
	}
	var errs bytes.Buffer
	if code := exitCode(exitOfAudit(report), &errs); code != exitChanges {
		t.Errorf("code %d", code)
	}
	if err := exitOfAudit(audit.Report{}); err != nil {
		t.Error(err)
	}
}
