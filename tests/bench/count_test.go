package bench

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
)

func TestCount(t *testing.T) {
	began := time.Unix(100, 0)
	object := func(second int64, code int) kube.Request {
		return kube.Request{Time: time.Unix(second, 0), Verb: "patch", Group: "karpenter.sh", Resource: "nodepools", Code: code}
	}
	other := func(verb, resource string) kube.Request {
		return kube.Request{Time: time.Unix(120, 0), Verb: verb, Resource: resource, Code: 200}
	}
	status := kube.Request{Time: time.Unix(109, 0), Verb: "patch", Group: "plumbline.dev", Resource: "nodesyncs", Subresource: "status", Code: 200}
	for name, c := range map[string]struct {
		requests []kube.Request
		want     Row
	}{
		"the last object's answer stops the clock": {
			requests: []kube.Request{object(101, 200), object(104, 201), status, other("create", "events")},
			want:     Row{Wall: 4 * time.Second, Told: 9 * time.Second, Writes: 2, Patches: 1, Busiest: 1, Events: 1},
		},
		"without objects the status does": {
			requests: []kube.Request{status, other("update", "configmaps")},
			want:     Row{Wall: 9 * time.Second, Told: 9 * time.Second, Patches: 1, Busiest: 1, ConfigMaps: 1},
		},
		"a refused write is counted apart": {
			requests: []kube.Request{object(101, 409), object(102, 200)},
			want:     Row{Wall: 2 * time.Second, Writes: 1, Refused: 1},
		},
		"a write that is only tried is counted apart": {
			requests: []kube.Request{object(101, 200), {
				Time: time.Unix(105, 0), Verb: "patch", Group: "karpenter.sh", Resource: "nodepools", Code: 200,
				URI: "/apis/karpenter.sh/v1/nodepools/general?dryRun=All&fieldManager=kustomize-controller&force=true",
			}},
			want: Row{Wall: time.Second, Writes: 1, DryRuns: 1},
		},
		"reads are counted by their kind": {
			requests: []kube.Request{other("get", "configmaps"), {Verb: "list", Resource: "nodepools", URI: "/nodepools?limit=500"}, other("get", "")},
			want:     Row{Gets: 1, Lists: 1, Listed: []string{"/nodepools?limit=500"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, count(c.requests, began)); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExact(t *testing.T) {
	for name, c := range map[string]struct {
		row  Row
		want Counts
		ok   bool
	}{
		"as many as wanted":      {Row{Writes: 1, Patches: 3}, oneObject, true},
		"one write too many":     {Row{Writes: 2}, oneObject, false},
		"none for one":           {Row{}, oneObject, false},
		"one for none":           {Row{Writes: 1}, nothing, false},
		"a refused one":          {Row{Writes: 1, Refused: 1}, oneObject, false},
		"one that is only tried": {Row{Writes: 1, DryRuns: 1}, oneObject, false},
		"one patch too many":     {Row{Writes: 1, Patches: 4}, oneObject, false},
		"one event too many":     {Row{Writes: 1, Events: 2}, oneObject, false},
		"a LIST":                 {Row{Writes: 1, Lists: 1}, oneObject, false},
		"a GET that is free":     {Row{Writes: 1, Reads: 3}, oneObject, true},
		"a GET where none is":    {Row{Reads: 1}, nothing, false},
		"a child for none":       {Row{Children: 1}, nothing, false},
		"a status for a commit":  {Row{Patches: 1}, nothing, true},
		"and that it was posted": {Row{Patches: 2}, nothing, true},
		"three for one commit":   {Row{Patches: 3}, nothing, false},
		"an event about nothing": {Row{Events: 1}, nothing, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := exact(c.row, c.want); (err == nil) != c.ok {
				t.Errorf("exact: %v", err)
			}
		})
	}
}

func TestBusiest(t *testing.T) {
	at := func(milliseconds ...int64) []time.Time {
		var times []time.Time
		for _, ms := range milliseconds {
			times = append(times, time.UnixMilli(ms))
		}
		return times
	}
	for name, c := range map[string]struct {
		times []time.Time
		want  int
	}{
		"none":                     {nil, 0},
		"a second apart":           {at(0, 1000, 2000), 1},
		"across a full second":     {at(900, 1000, 1899), 3},
		"in any order":             {at(5000, 900, 1899, 1000), 3},
		"the busiest is not first": {at(0, 5000, 5100), 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := busiest(c.times); got != c.want {
				t.Errorf("%d in a second, want %d", got, c.want)
			}
		})
	}
}
