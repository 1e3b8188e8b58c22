package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKarpentersRulesAreFresh(t *testing.T) {
	want, err := render()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../rbac-charts/karpenter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("rbac-charts/karpenter.yaml is stale, run make generate (-want +got):\n%s", diff)
	}
}

func TestThePoliciesAreFresh(t *testing.T) {
	want, err := renderPolicies()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../rbac-charts/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("rbac-charts/policy.yaml is stale, run make generate (-want +got):\n%s", diff)
	}
}
