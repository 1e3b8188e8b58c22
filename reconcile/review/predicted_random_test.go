package review_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var (
	draws = flag.Int("draws", 0, "how many random changes are held against the controller")
	seed  = flag.Uint64("seed", 0, "what they are drawn from; 0 takes another one each time")
)

// TestRandomPredictionsEqualKarpenter: for random changes, several at a time and each compared with the definitions
// that all nodes were created from, the Plan names exactly the nodes that the real controller finds Drifted. Changes
// are applied one after another without a reset, because Drifted depends on the live objects only.
func TestRandomPredictionsEqualKarpenter(t *testing.T) {
	if *karpenter == "" || *draws == 0 {
		t.Skip("needs a cluster with Karpenter, and -draws: go test ./property in tests starts one")
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed=%d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	f := newFleet(t)
	f.grow(t)
	f.drifts(t, prediction{})
	before := f.live(t)
	began, touched := time.Now(), 0
	for i := range *draws {
		f.read(t)
		words := f.draw(t, random)
		will := f.predictFrom(t, before)
		if len(will.upTo) > 0 {
			t.Errorf("draw %d (%s): up to %d nodes", i, words, len(will.upTo))
		}
		f.apply(t, "classes.yaml", "pools.yaml")
		f.drifts(t, will)
		if len(will.exact) > 0 {
			touched++
		}
		t.Logf("draw %d: %d nodes: %s", i, len(will.exact), words)
	}
	t.Logf("%d draws, %d of them on nodes, in %s", *draws, touched, time.Since(began).Round(time.Second))
}

// draw changes one to four fields of the definitions, and returns which.
func (f *fleet) draw(t *testing.T, random *rand.Rand) string {
	t.Helper()
	all := drawers()
	var words []string
	for _, i := range random.Perm(len(all))[:1+random.IntN(4)] {
		d := all[i]
		to := d.to[random.IntN(len(d.to))]
		documents := strings.Split(f.files[d.file], "---\n")
		if !strings.Contains(documents[d.document], d.from) {
			t.Fatalf("document %d of %s has no %q", d.document, d.file, d.from)
		}
		documents[d.document] = strings.Replace(documents[d.document], d.from, to, 1)
		f.files[d.file] = strings.Join(documents, "---\n")
		words = append(words, fmt.Sprintf("%s %d: %s", d.file, d.document, strings.TrimSpace(to)))
	}
	return strings.Join(words, "; ")
}

// drawer is a field in one of the documents of a file, and its possible values.
type drawer struct {
	file     string
	document int
	from     string
	to       []string
}

// drawers returns fields that do not overlap: of both classes and of three pools.
func drawers() []drawer {
	var found []drawer
	for class := range 2 {
		place := func(from string, to ...string) {
			found = append(found, drawer{"classes.yaml", class, from, to})
		}
		place("  amiSelectorTerms: [{alias: al2023@latest}]\n", drawnAMIs()...)
		place("  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]\n", drawnSubnets()...)
		place("  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]\n", drawnGroups()...)
		place("spec:\n", "spec:\n  detailedMonitoring: true\n", "spec:\n  userData: '# drawn'\n", "spec:\n  associatePublicIPAddress: false\n")
	}
	pool := func(document int, from string, to ...string) {
		found = append(found, drawer{"pools.yaml", document, from, to})
	}
	pool(0, "values: [amd64, arm64]", "values: [arm64]", "values: [amd64]", "values: [arm64, amd64]")
	pool(0, "labels: {pool-of: arm}", "labels: {pool-of: arm, drawn: x}", "labels: {pool-of: arm}")
	pool(0, `values: ["2"]`, `values: ["3"]`, `values: ["5"]`, `values: ["6"]`, `values: ["7"]`)
	pool(1, "values: [spot, on-demand]", "values: [on-demand]", "values: [spot]")
	pool(2, "values: [eu-west-1a, eu-west-1b, eu-west-1c]", "values: [eu-west-1a]", "values: [eu-west-1b, eu-west-1c]", "values: [eu-west-1c, eu-west-1b, eu-west-1a]")
	pool(2, "expireAfter: 720h", "expireAfter: 721h", "expireAfter: 43200m")
	pool(2, "limits: {cpu: \"1000\"}", "limits: {cpu: \"1\"}", "limits: {cpu: 1000}")
	return found
}

func drawnAMIs() []string {
	var found []string
	for _, terms := range []string{
		"{alias: al2023@" + olderRelease + "}", "{alias: al2023@" + newerRelease + "}", "{alias: bottlerocket@latest}",
	} {
		found = append(found, "  amiSelectorTerms: ["+terms+"]\n")
	}
	for _, amd64 := range []string{olderRelease, newerRelease} {
		for _, arm64 := range []string{olderRelease, newerRelease} {
			found = append(found, fmt.Sprintf("  amiFamily: AL2023\n  amiSelectorTerms: [{id: %s}, {id: %s}]\n", ami("x86_64", amd64), ami("arm64", arm64)))
		}
		found = append(found, "  amiFamily: AL2023\n  amiSelectorTerms: [{name: amazon-eks-node-al2023-*-standard-1.36-"+amd64+"}]\n")
	}
	return found
}

func drawnSubnets() []string {
	var found []string
	for _, zones := range []string{"a", "b", "c", "ab", "bc", "ca", "abc"} {
		var terms []string
		for _, zone := range zones {
			terms = append(terms, fmt.Sprintf("{tags: {Name: sandbox-eu-west-1%c}}", zone))
		}
		found = append(found, "  subnetSelectorTerms: ["+strings.Join(terms, ", ")+"]\n")
	}
	return found
}

func drawnGroups() []string {
	return []string{
		"  securityGroupSelectorTerms: [{name: default}]\n",
		"  securityGroupSelectorTerms: [{name: eks-cluster-sg-sandbox}]\n",
		"  securityGroupSelectorTerms: [{name: default}, {tags: {aws:eks:cluster-name: sandbox}}]\n",
		`  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: "*"}}]` + "\n",
	}
}
