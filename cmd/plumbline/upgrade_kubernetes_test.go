package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestUpgradeKubernetes without a cluster: only the tables are used.
func TestUpgradeKubernetes(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"supported":       {[]string{"--from", "1.12.1", "--kubernetes", "1.35"}, exitDone, "karpenter   1.12.1 supports it"},
		"not yet":         {[]string{"--from", "1.12.1", "--kubernetes", "1.36"}, exitChanges, "Karpenter 1.12.1 supports Kubernetes 1.26 to 1.35, not 1.36: upgrade Karpenter to 1.13.0 or later first"},
		"of a folder":     {[]string{at(t, "1.12.1", ""), "--kubernetes", "v1.36.2"}, exitChanges, "upgrade Karpenter to 1.13.0 or later first"},
		"by no version":   {[]string{"--from", "1.12.1", "--kubernetes", "1.99"}, exitChanges, "no version of Karpenter that this plumbline knows supports Kubernetes 1.99"},
		"of a fork":       {[]string{"--from", "1.12.1+acme.3", "--kubernetes", "1.35"}, exitChanges, "unknown whether Karpenter 1.12.1+acme.3 supports Kubernetes 1.35"},
		"nodes":           {[]string{"--from", "1.12.1", "--kubernetes", "1.35"}, exitDone, "nodes were not examined: --against NODESYNC reads those"},
		"no version":      {[]string{"--from", "1.12.1", "--kubernetes", "next"}, exitFailed, `version "next" of Kubernetes is invalid`},
		"with a target":   {[]string{"--from", "1.12.1", "--kubernetes", "1.35", "--to", "1.14.1"}, exitFailed, "kubernetes"},
		"folder and from": {[]string{at(t, "1.12.1", ""), "--from", "1.12.1", "--kubernetes", "1.35"}, exitFailed, "a folder and --from cannot be combined"},
	} {
		t.Run(name, func(t *testing.T) {
			got := plumbline(t, append([]string{"upgrade"}, c.args...)...)
			if got.code != c.code || !strings.Contains(got.out+got.err, c.says) {
				t.Errorf("code %d, prints %s%s; want %q", got.code, got.out, got.err, c.says)
			}
		})
	}
}

// TestUpgradeKubernetesAgainst a cluster without aliases: AWS is not queried, and the installed version counts, not that
// in Git.
func TestUpgradeKubernetesAgainst(t *testing.T) {
	sync := nodeSync("prod", func(n *v1alpha1.NodeSync) {
		n.Status.Karpenter = &v1alpha1.KarpenterStatus{Version: "1.12.1", Cluster: "demo", Region: "eu-west-1"}
	})
	s, kubeconfig := serve(t, sync)
	s.texts["/version"] = `{"gitVersion": "v1.34.1-eks-113cf36"}`
	s.objects["/apis/karpenter.k8s.aws/v1/ec2nodeclasses/tagged"] = map[string]any{
		"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": map[string]any{"name": "tagged"},
		"spec": map[string]any{"amiFamily": "AL2023", "amiSelectorTerms": []any{map[string]any{"tags": map[string]any{"a": "b"}}}},
	}
	for _, name := range []string{"a", "b"} {
		s.objects["/apis/karpenter.sh/v1/nodeclaims/"+name] = map[string]any{
			"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
			"metadata": map[string]any{"name": name, "labels": map[string]any{"karpenter.sh/nodepool": "general"}},
			"spec":     map[string]any{"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "tagged"}, "requirements": []any{}},
		}
	}
	got := plumbline(t, "upgrade", at(t, "1.14.1", ""), "--kubernetes", "1.36", "--against", "prod", "-o", "json", "--kubeconfig", kubeconfig)
	var report kubernetesReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exitChanges {
		t.Fatalf("code %d, %v: %s%s", got.code, err, got.out, got.err)
	}
	want := []plan.ClassForecast{{
		Class: "tagged", Pools: []string{"general"}, Nodes: 2, Outcome: plan.AliasStays,
		Message: "its amiSelectorTerms do not depend on the Kubernetes version: nodes keep their AMIs",
	}}
	if diff := cmp.Diff(want, report.Classes); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
	if report.ClusterKubernetes != "1.34" || report.Karpenter != "1.12.1" || report.Nodes != 2 || report.Replaced != 0 ||
		!strings.Contains(report.Unsupported, "upgrade Karpenter to 1.13.0") {
		t.Errorf("%+v", report)
	}
	if diff := cmp.Diff([]string{"EKS upgrades a control plane by one minor version at a time: 1.35 is next"}, report.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// TestKubernetesReport prints a line for each class, and counts the nodes.
func TestKubernetesReport(t *testing.T) {
	report, err := newKubernetesReport("1.36", "v1.35.2-eks-113cf36", "1.12.1")
	if err != nil {
		t.Fatal(err)
	}
	report.Channels, report.LTSOrKubernetes = nil, "choose one" // those of the tables change with each version
	report.add([]plan.ClassForecast{
		{Class: "default", Alias: "al2023@latest", Nodes: 12, Replaced: 12, Outcome: plan.AliasMoves, Message: "the alias resolves to ami-1: Karpenter replaces 12 nodes at the pace of the budgets (AMIDrift)"},
		{Class: "gpu", Alias: "al2023@v20250904", Nodes: 3, Outcome: plan.AliasUnpublished, Message: "AWS publishes no AMI for alias al2023@v20250904 and Kubernetes 1.36"},
		{Class: "own", Nodes: 1, Outcome: plan.AliasStays, Message: "its amiSelectorTerms do not depend on the Kubernetes version: nodes keep their AMIs"},
		{Class: "slow", Alias: "bottlerocket@latest", Nodes: 4, Replaced: 4, UpTo: true, Outcome: plan.AliasUnknown, Message: "AWS throttles ssm:GetParameter"},
	})
	var out strings.Builder
	report.print(&out)
	golden(t, "upgrade-kubernetes.table", out.String())
	for _, outcome := range []plan.AliasOutcome{plan.AliasMoves, plan.AliasUnpublished, plan.AliasUnsupported, plan.AliasUnknown, plan.AliasStays} {
		r := &kubernetesReport{Classes: []plan.ClassForecast{{Outcome: outcome}}}
		if r.affects() != (outcome != plan.AliasStays) {
			t.Errorf("%s: %t", outcome, r.affects())
		}
	}
}

// resolvingCloud is an account with the cluster of a certificate, whose answers about AMIs name the Kubernetes version.
type resolvingCloud struct {
	account.Cloud
	authority []byte
}

func (r *resolvingCloud) Cluster(context.Context, string) (cloud.Cluster, error) {
	return cloud.Cluster{Version: "1.36", CertificateAuthority: r.authority}, nil
}

func (r *resolvingCloud) AMIs(_ context.Context, _ *awsv1.EC2NodeClass, kubernetes string) ([]awsv1.AMI, error) {
	return []awsv1.AMI{{ID: "ami-for-" + kubernetes}}, nil
}

// TestQueryForAnotherKubernetes: aliases are resolved for the version that is asked for; by default, that of the cluster.
func TestQueryForAnotherKubernetes(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	authority := authorityOf(server)
	dial := func(context.Context, string) (account.Cloud, error) {
		return &resolvingCloud{authority: authority}, nil
	}
	ref := render.Ref{Kind: render.EC2NodeClass, Name: "default"}
	for version, want := range map[string]string{"": "ami-for-1.36", "1.37": "ami-for-1.37"} {
		answers := queryWith(dial, authority, version)("demo", "eu-west-1")(t.Context(), []plan.Question{{Ref: ref, Class: &awsv1.EC2NodeClass{}, AMIs: true}})
		if found := answers[ref].AMIs.Found; len(found) != 1 || found[0].ID != want {
			t.Errorf("for %q: %+v", version, answers[ref])
		}
	}
}
