package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// snapshotOf writes a file with a pool of two nodes that the example does not contain, owned by NodeSync fleet/prod;
// edit may change it.
func snapshotOf(t *testing.T, edit func(*simulate.Capture)) string {
	t.Helper()
	labels := map[string]any{"plumbline.dev/nodesync": "fleet.prod"}
	c := &simulate.Capture{Version: simulate.Version, TakenAt: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), Settings: simulate.Settings{Settings: offers.Defaults()}}
	c.Definitions = []map[string]any{{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
		"metadata": map[string]any{"name": "gone", "uid": "gone", "labels": labels, "managedFields": []any{map[string]any{
			"manager": "plumbline", "operation": "Apply", "apiVersion": "karpenter.sh/v1", "fieldsType": "FieldsV1",
			"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:plumbline.dev/nodesync": map[string]any{}}}},
		}}},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": []any{},
		}}},
	}}
	for _, name := range []string{"n1", "n2"} {
		of := map[string]string{karpv1.NodePoolLabelKey: "gone", corev1.LabelTopologyRegion: "us-east-1", karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true", corev1.LabelInstanceTypeStable: "m5.large"}
		c.Nodes = append(c.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: of}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/" + name}})
		c.NodeClaims = append(c.NodeClaims, karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: of}, Status: karpv1.NodeClaimStatus{NodeName: name, ProviderID: "aws:///us-east-1a/" + name}})
		c.Pods = append(c.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "of-" + name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: name}, Status: corev1.PodStatus{Phase: corev1.PodRunning}})
	}
	edit(c)
	file, packed := filepath.Join(t.TempDir(), "s.json.gz"), &bytes.Buffer{}
	if err := c.Encode(packed); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func withTypes(t *testing.T) func(*simulate.Capture) {
	return func(c *simulate.Capture) {
		c.Catalog = &offers.Catalog{}
		text := `{"region":"us-east-1","zones":{"m5.large":["us-east-1a"]},"types":[{"InstanceType":"m5.large","VCpuInfo":{"DefaultVCpus":2},"MemoryInfo":{"SizeInMiB":8192},"ProcessorInfo":{},
			"SupportedUsageClasses":["on-demand"],"NetworkInfo":{"MaximumNetworkInterfaces":4,"Ipv4AddressesPerInterface":15,"DefaultNetworkCardIndex":0,"NetworkCards":[{"MaximumNetworkInterfaces":4}]}}]}`
		if err := json.Unmarshal([]byte(text), c.Catalog); err != nil {
			t.Fatal(err)
		}
	}
}

const exampleFolder = "../../examples/basic"

// TestWhatIfOfASnapshot needs no cluster: the pool is removed, and what can be known is printed.
func TestWhatIfOfASnapshot(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*simulate.Capture)
		want []string
	}{
		"with instance types": {withTypes(t), []string{"NodePool/gone", "2 nodes terminated, 2 pods are rescheduled", "2 pods unschedulable afterwards", "web/of-n1 (gone, node n1)", "compared with a snapshot of 2026-11-24 12:00:00 UTC"}},
		"without":             {func(*simulate.Capture) {}, []string{"NodePool/gone", "unavailable: the instance types of us-east-1 are unknown without AWS"}},
		"a broken catalog":    {func(c *simulate.Capture) { withTypes(t)(c); c.Catalog.Types[0].VCpuInfo = nil }, []string{`"m5.large" lacks its vCPUs`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := plumbline(t, "plan", exampleFolder, "--what-if", "--snapshot", snapshotOf(t, c.edit))
			for _, want := range c.want {
				if !strings.Contains(got.out, want) {
					t.Errorf("no %q in:\n%s%s", want, got.out, got.err)
				}
			}
		})
	}
}

// TestCostsSayWhatTheyLack, in one line for each.
func TestCostsSayWhatTheyLack(t *testing.T) {
	whole := "hourly list prices (Karpenter " + schema.EmbeddedVersion + "): 1.50 now, 0.50 to 2.25 afterwards"
	for name, c := range map[string]struct {
		cost simulate.Cost
		want []string
	}{
		"nothing":            {simulate.Cost{}, nil},
		"a price":            {simulate.Cost{Unpriced: 1}, []string{"  1 node without a list price, not included in either sum"}},
		"prices":             {simulate.Cost{Unpriced: 12}, []string{"  12 nodes without a list price, not included in either sum"}},
		"those of a region":  {simulate.Cost{PricesOf: "us-east-1"}, []string{"  these are prices of us-east-1, because the list has none for this region: use them only to compare"}},
		"those of spot, too": {simulate.Cost{Spot: 1, Unpriced: 1}, []string{"  1 spot node is counted at the on-demand price, because the list has no spot prices", "  1 node without a list price, not included in either sum"}},
	} {
		c.cost.Before, c.cost.Lowest, c.cost.Highest = 1.5, 0.5, 2.25
		if diff := cmp.Diff(append([]string{whole}, c.want...), costs(c.cost)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestWhatIfIsJSONAndMarkdown: both formats contain the pods.
func TestWhatIfIsJSONAndMarkdown(t *testing.T) {
	file := snapshotOf(t, withTypes(t))
	report := planReport{}
	got := plumbline(t, "plan", exampleFolder, "--what-if", "--snapshot", file, "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || report.WhatIf == nil || report.WhatIf.Ending != 2 || len(report.WhatIf.Nowhere) != 2 {
		t.Errorf("%v: %s", err, got.out)
	}
	got = plumbline(t, "plan", exampleFolder, "--what-if", "--snapshot", file, "-o", "markdown")
	if !strings.Contains(got.out, "<details><summary>What if") || !strings.Contains(got.out, "  - `web/of-n1` (`gone`, node `n1`)") {
		t.Error(got.out)
	}
}

// TestWhatIfWithoutAClusterOrASnapshot tells which flag is missing.
func TestWhatIfWithoutAClusterOrASnapshot(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":                 {[]string{"plan", exampleFolder, "--what-if"}, "--snapshot FILE"},
		"no folder":               {[]string{"plan", "prod", "--snapshot", "x"}, "not a folder"},
		"no file":                 {[]string{"plan", exampleFolder, "--snapshot", "nowhere"}, "read the snapshot"},
		"another NodeSync":        {[]string{"plan", exampleFolder, "--snapshot", snapshotOf(t, func(*simulate.Capture) {}), "--against", "other"}, "no definition of NodeSync other"},
		"a file of something":     {[]string{"plan", exampleFolder, "--snapshot", "whatif_test.go"}, "no file of plumbline snapshot"},
		"a definition that is no": {[]string{"plan", exampleFolder, "--snapshot", snapshotOf(t, func(c *simulate.Capture) { c.Definitions[0]["spec"] = "none" })}, "read the snapshot"},
	} {
		if got := plumbline(t, c.args...); got.code != 1 || !strings.Contains(got.err, c.want) {
			t.Errorf("%s: %d, %s", name, got.code, got.err)
		}
	}
}
