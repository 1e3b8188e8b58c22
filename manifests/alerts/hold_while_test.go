package alerts

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// holdQueries returns the queries of spec.rollout.holdWhile in a page of the documentation, by name.
func holdQueries(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/follow-a-rollout.md")
	if err != nil {
		t.Fatal(err)
	}
	queries := map[string]string{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		var sync struct {
			Spec struct {
				Rollout struct {
					HoldWhile []struct{ Name, Query string }
				}
			}
		}
		if err := yaml.Unmarshal([]byte(block[1]), &sync); err != nil {
			t.Fatalf("%v in\n%s", err, block[1])
		}
		for _, hold := range sync.Spec.Rollout.HoldWhile {
			queries[hold.Name] = hold.Query
		}
	}
	return queries
}

// twoNodes are a node that is two and a half hours old and one that is half an hour old, with a pod each.
const twoNodes = `
kube_node_created{node="old"} 0x180
kube_node_created{node="new"} 7200x180
kube_pod_info{namespace="a", pod="o", node="old", uid="1"} 1x180
kube_pod_info{namespace="a", pod="n", node="new", uid="2"} 1x180
`

func requests(pod, code, perMinute string) string {
	return `http_requests_total{namespace="a", pod="` + pod + `", code="` + code + `"} 0+` + perMinute + "x180\n"
}

// latency is of 60 requests a minute that take up to a number of seconds.
func latency(pod, atMost string) string {
	series := ""
	for _, le := range []string{"0.1", "1", "10", "+Inf"} {
		counts := "0x180"
		if le >= atMost || le == "+Inf" {
			counts = "0+60x180"
		}
		series += `http_request_duration_seconds_bucket{namespace="a", pod="` + pod + `", le="` + le + `"} ` + counts + "\n"
	}
	return series + `http_request_duration_seconds_count{namespace="a", pod="` + pod + `"} 0+60x180` + "\n"
}

// TestHoldWhileQueries: the documented queries have a result if requests to pods on a new node do worse than on the old
// ones, and not otherwise.
func TestHoldWhileQueries(t *testing.T) {
	queries := holdQueries(t)
	for query, cases := range map[string]map[string]struct {
		series string
		holds  bool
	}{
		"errors-on-new-nodes": {
			"errors on the new node":  {requests("o", "200", "60") + requests("n", "200", "30") + requests("n", "500", "30"), true},
			"errors on both":          {requests("o", "200", "30") + requests("o", "500", "30") + requests("n", "200", "30") + requests("n", "500", "30"), false},
			"errors on the old node":  {requests("o", "200", "30") + requests("o", "500", "30") + requests("n", "200", "60"), false},
			"no errors":               {requests("o", "200", "60") + requests("n", "200", "60"), false},
			"few requests":            {requests("o", "200", "60") + requests("n", "500", "1"), false},
			"no requests":             {"", false},
			"a pod that just moved":   {`kube_pod_info{namespace="a", pod="n", node="old", uid="3"} 1x180` + "\n" + requests("n", "200", "60"), false},
			"only pods on new nodes":  {requests("n", "200", "30") + requests("n", "500", "30"), true},
			"a node that has no info": {`kube_node_created{node="other"} 7200x180` + "\n" + requests("o", "200", "60"), false},
		},
		"latency-on-new-nodes": {
			"slow on the new node": {latency("o", "0.1") + latency("n", "10"), true},
			"slow on both":         {latency("o", "10") + latency("n", "10"), false},
			"slow on the old node": {latency("o", "10") + latency("n", "0.1"), false},
			"no requests":          {"", false},
			"only on new nodes":    {latency("n", "10"), false},
		},
	} {
		for name, c := range cases {
			t.Run(query+"/"+name, func(t *testing.T) {
				storage := loaded(t, strings.TrimSpace(twoNodes+c.series))
				defer storage.Close()
				at := time.Unix(0, 0).Add(150 * time.Minute)
				q, err := engine(t).NewInstantQuery(t.Context(), storage, nil, queries[query], at)
				if err != nil {
					t.Fatal(err)
				}
				result := q.Exec(t.Context())
				vector, err := result.Vector()
				if err != nil {
					t.Fatal(err)
				}
				if holds := len(vector) > 0; holds != c.holds {
					t.Errorf("the query has a result: %t, want %t: %v", holds, c.holds, vector)
				}
			})
		}
	}
}
