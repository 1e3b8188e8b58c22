package promotion_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/promotion"
)

// TestOverview shows what each cluster has taken, what it waits for, and how far each commit has come.
func TestOverview(t *testing.T) {
	commits := line(parse(t, fleetFile), "a", "b", "c")
	records := promotion.Records{
		of("dev"): reports("dev", verdict("c", promotion.Succeeded, 5, time.Hour), verdict("a", promotion.Succeeded, 0, 50*time.Hour)),
		of("qa"):  reports("qa", verdict("b", promotion.InProgress, 5, time.Hour), verdict("a", promotion.Succeeded, 0, 50*time.Hour)),
		of("eu"):  reports("eu", verdict("a", promotion.Succeeded, 0, 40*time.Hour)),
		of("us"):  {Problem: "the record was deleted"},
	}
	fleet, err := promotion.Overview(promotion.NewHistory("c", commits), records, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, ring := range fleet.Rings {
		for _, c := range ring.Clusters {
			words := ring.Name + " " + c.Commit + " " + string(c.State)
			if c.Silent {
				words += " silent: " + c.Reason
			}
			if c.Waits != nil {
				words += ", waits " + string(c.Waits.Reason)
			}
			got[c.Cluster] = words
		}
	}
	want := map[string]string{
		"dev": "canary c Succeeded", "qa": "staging b InProgress, waits Passes", "eu": "prod a Succeeded, waits WaitsForRing",
		"us": "prod   silent: the record was deleted, waits WaitsForRing",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("clusters (-want +got):\n%s", d)
	}
	at := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.Sub(now).String()
	}
	var expected []string
	for _, ring := range fleet.Rings {
		expected = append(expected, ring.Name+" "+at(ring.Done)+" "+at(ring.Expected))
	}
	// canary succeeded an hour ago, staging has a short soak of 10 minutes, and us is silent
	if d := cmp.Diff([]string{"canary -1h0m0s -", "staging - 0s", "prod - -"}, expected); d != "" {
		t.Errorf("expected (-want +got):\n%s", d)
	}
	counts := map[string][]promotion.FleetCount{}
	for _, c := range fleet.Commits {
		counts[c.Commit] = c.Rings
	}
	if d := cmp.Diff(map[string][]promotion.FleetCount{
		"c": {{Ring: "canary", Clusters: 1, Succeeded: 1}, {Ring: "staging", Clusters: 1}, {Ring: "prod", Clusters: 2}},
		"b": {{Ring: "canary", Clusters: 1, Contained: 1}, {Ring: "staging", Clusters: 1, InProgress: 1}, {Ring: "prod", Clusters: 2}},
		"a": {{Ring: "canary", Clusters: 1, Succeeded: 1}, {Ring: "staging", Clusters: 1, Succeeded: 1}, {Ring: "prod", Clusters: 2, Succeeded: 1}},
	}, counts); d != "" {
		t.Errorf("commits (-want +got):\n%s", d)
	}
	commits[2].Rings, commits[2].Invalid = nil, errors.New("rings.yaml:3: wrong")
	if fleet, err := promotion.Overview(promotion.NewHistory("c", commits), records, nil, now); err != nil || fleet.Invalid != "rings.yaml:3: wrong" || len(fleet.Rings) != 3 {
		t.Errorf("with an invalid file: %+v, %v", fleet, err)
	}
	if _, err := promotion.Overview(promotion.NewHistory("x", []promotion.Commit{{Hash: "x"}}), records, nil, now); err == nil {
		t.Error("a branch without rings")
	}
}
