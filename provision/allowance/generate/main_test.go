package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatTheChartsConsistOfIsFresh(t *testing.T) {
	want, err := generate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../charted.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("charted.json is stale, run make generate (-want +got):\n%s", diff)
	}
}
