package hashv5_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/plumbline-dev/plumbline/reconcile/plan/hashv5"
)

// recorded is an EC2NodeClass and the hash that Karpenter 1.14.3 computes of it.
type recorded struct {
	Spec    map[string]any `json:"spec"`
	Bundle  string         `json:"bundle"`
	Version string         `json:"version"`
	Hash    string         `json:"hash"`
}

func TestHashesAreThoseOfKarpenter(t *testing.T) {
	text, err := os.ReadFile("testdata/ec2nodeclasses.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if len(lines) < 300 {
		t.Fatalf("%d EC2NodeClasses: too few to tell", len(lines))
	}
	for i, line := range lines {
		var class recorded
		if err := json.Unmarshal(line, &class); err != nil {
			t.Fatal(err)
		}
		got, err := hashv5.Hash(class.Spec, familyOf(class.Spec), class.Bundle)
		if err != nil || got != class.Hash || hashv5.Version != class.Version {
			t.Errorf("line %d: %s %s (%v), want %s %s", i+1, hashv5.Version, got, err, class.Version, class.Hash)
		}
	}
}

// familyOf returns the AMI family of a recorded class: the field, or that of its alias, or Custom.
func familyOf(spec map[string]any) string {
	if family, ok := spec["amiFamily"].(string); ok {
		return family
	}
	for _, term := range spec["amiSelectorTerms"].([]any) {
		if alias, ok := term.(map[string]any)["alias"].(string); ok {
			family, _, _ := strings.Cut(alias, "@")
			return map[string]string{"al2": "AL2", "al2023": "AL2023", "bottlerocket": "Bottlerocket", "windows2022": "Windows2022"}[family]
		}
	}
	return "Custom"
}

// TestATypeOfAnotherVersion: a field that Karpenter 1.14 cannot read has no hash of it.
func TestATypeOfAnotherVersion(t *testing.T) {
	if hash, err := hashv5.Hash(map[string]any{"kubelet": map[string]any{"maxPods": "vcpus * 10"}}, "AL2023", ""); err == nil {
		t.Errorf("hash %s of an expression", hash)
	}
}
