package alerts

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// panel is a panel of the dashboard.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
}

// variables are those of the dashboard, and of Grafana itself.
var variables = strings.NewReplacer("$namespace", "plumbline-.*", "$name", ".*", "$__rate_interval", "5m")

func panels(t *testing.T) []panel {
	t.Helper()
	text, err := os.ReadFile("../monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	return dashboard.Panels
}

// documented returns the metrics in manifests/SPEC.md, which a test of the daemon compares with those that it
// registers.
func documented(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:gotk|plumbline)_[a-z_]+)` \\| (histogram|gauge|counter)").FindAllStringSubmatch(string(text), -1) {
		if names = append(names, row[1]); row[2] == "histogram" {
			names = append(names, row[1]+"_bucket", row[1]+"_count", row[1]+"_sum")
		}
	}
	return names
}

// metrics returns the metrics of a query.
func metrics(t *testing.T, query string) (names []string) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(variables.Replace(query))
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	for _, selectors := range parser.ExtractSelectors(expr) {
		for _, matcher := range selectors {
			if matcher.Name == model.MetricNameLabel {
				names = append(names, matcher.Value)
			}
		}
	}
	return names
}

// TestQueriesNameMetricsOfTheDaemon: alerts and dashboard use only metrics of the daemon.
func TestQueriesNameMetricsOfTheDaemon(t *testing.T) {
	known, queries := append(documented(t), "up"), map[string]string{}
	for _, rule := range read(t) {
		queries[rule.Expr] = rule.Alert
	}
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			queries[target.Expr] = p.Title
		}
	}
	if len(known) < 15 || len(queries) < 30 {
		t.Fatalf("%d metrics, %d queries", len(known), len(queries))
	}
	for query, of := range queries {
		for _, name := range metrics(t, query) {
			if !slices.Contains(known, name) {
				t.Errorf("%s asks for %s, which the daemon does not have", of, name)
			}
		}
	}
}

// day is what a daemon with one NodeSync serves.
const day = `gotk_reconcile_condition{kind="NodeSync", namespace="plumbline-system", name="prod", type="Ready", status="True"} 1x60
gotk_reconcile_condition{kind="NodeSync", namespace="plumbline-system", name="prod", type="Ready", status="False"} 0x60
gotk_suspend_status{kind="NodeSync", namespace="plumbline-system", name="prod"} 0x60
gotk_reconcile_duration_seconds_count{kind="NodeSync", namespace="plumbline-system", name="prod"} 0+1x60
gotk_reconcile_duration_seconds_bucket{kind="NodeSync", namespace="plumbline-system", name="prod", le="1"} 0+1x60
gotk_reconcile_duration_seconds_bucket{kind="NodeSync", namespace="plumbline-system", name="prod", le="+Inf"} 0+1x60
plumbline_step_duration_seconds_bucket{step="fetch", le="1"} 0+1x60
plumbline_step_duration_seconds_bucket{step="fetch", le="+Inf"} 0+1x60
plumbline_writes_total{kind="NodePool", action="update"} 0+1x60
plumbline_fetches_total 0+1x60
plumbline_fetched_bytes_total 0+100x60
plumbline_removals{namespace="plumbline-system", name="prod", phase="Held"} 0x60
plumbline_removals{namespace="plumbline-system", name="prod", phase="Draining"} 1x60
plumbline_removals_in_progress{namespace="plumbline-system", name="prod"} 1x60
plumbline_removal_nodes{namespace="plumbline-system", name="prod", phase="Draining"} 4x60
plumbline_orphaned_instances{namespace="plumbline-system", name="prod"} 1x60
plumbline_terminations_stalled{namespace="plumbline-system", name="prod"} 1x60
plumbline_orphaned_nodes{namespace="plumbline-system", name="prod"} 2x60
plumbline_volume_attachments_left{namespace="plumbline-system", name="prod"} 0x60
plumbline_resources_left{namespace="plumbline-system", name="prod"} 0x60
plumbline_identity_conflict{namespace="plumbline-system", name="prod"} 0x60
plumbline_deletion_unguarded{namespace="plumbline-system", name="prod"} 0x60
plumbline_rollout_braked{namespace="plumbline-system", name="prod", pool="general", reason="FailedLaunches"} 1x60
plumbline_rollout_late{namespace="plumbline-system", name="prod"} 0x60
plumbline_held_changes{namespace="plumbline-system", name="prod"} 1x60
plumbline_stall_age_seconds{namespace="plumbline-system", name="prod"} 0x60
plumbline_outdated_nodes{namespace="plumbline-system", name="prod"} 2x60
plumbline_drift{namespace="plumbline-system", name="prod", kind="NodePool", object="general"} 1x60
plumbline_commit_statuses_queued{namespace="plumbline-system", name="prod"} 1x60
plumbline_commit_status_age_seconds{namespace="plumbline-system", name="prod"} 3x60
plumbline_commit_statuses_stuck{namespace="plumbline-system", name="prod"} 0x60
plumbline_status_writes_failed_total{namespace="plumbline-system", name="prod"} 0x60
plumbline_webhook_requests_total{host="github", code="202"} 0+1x60
`

// TestEachPanelShowsSomething: each panel shows something for a running daemon.
func TestEachPanelShowsSomething(t *testing.T) {
	storage, engine := loaded(t, day), engine(t)
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			query, err := engine.NewInstantQuery(t.Context(), storage, nil, variables.Replace(target.Expr), time.Unix(0, 0).Add(30*time.Minute))
			if err != nil {
				t.Errorf("%s: %v", p.Title, err)
				continue
			}
			found, err := query.Exec(t.Context()).Vector()
			if err != nil || len(found) == 0 {
				t.Errorf("%s: %s finds %d series: %v", p.Title, target.Expr, len(found), err)
			}
			query.Close()
		}
	}
}

// TestEachMetricHasAPanel: the dashboard shows all documented metrics.
func TestEachMetricHasAPanel(t *testing.T) {
	var shown []string
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			shown = append(shown, metrics(t, target.Expr)...)
		}
	}
	text, err := os.ReadFile("../SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:gotk|plumbline)_[a-z_]+)` \\| (?:histogram|gauge|counter)").FindAllStringSubmatch(string(text), -1) {
		if !slices.ContainsFunc(shown, func(name string) bool { return name == row[1] || name == row[1]+"_bucket" }) {
			t.Errorf("no panel shows %s", row[1])
		}
	}
}

// TestPanelsDoNotOverlap: panels do not overlap, and have unique ids.
func TestPanelsDoNotOverlap(t *testing.T) {
	type place struct{ X, Y, W, H int }
	text, err := os.ReadFile("../monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos place
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for i, a := range dashboard.Panels {
		for _, b := range dashboard.Panels[:i] {
			p, q := a.GridPos, b.GridPos
			if a.ID == b.ID || p.X < q.X+q.W && q.X < p.X+p.W && p.Y < q.Y+q.H && q.Y < p.Y+p.H {
				t.Errorf("%s is in the place of %s, or has its id", a.Title, b.Title)
			}
		}
	}
}
