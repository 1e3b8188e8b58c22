package alerts

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/util/teststorage"
	"sigs.k8s.io/yaml"
)

// TestServed: a daemon in a sandbox, scraped throughout a story, shows something in each panel; each series that an
// alert queries exists, with the labels by which it is grouped; and only the alerts that the story is about fire
// meanwhile. The story `dashboard` runs it, with what was served in PLUMBLINE_SCRAPES.
func TestServed(t *testing.T) {
	folder, ok := os.LookupEnv("PLUMBLINE_SCRAPES")
	if !ok {
		t.Skip("the story `dashboard` runs it")
	}
	all, err := scrapes(folder)
	if err != nil || len(all) < 10 {
		t.Fatalf("%d scrapes: %v", len(all), err)
	}
	p := &prometheus{TestStorage: teststorage.New(t), engine: promqltest.NewTestEngine(t, false, 0, mostSamples), from: all[0].at, to: all[len(all)-1].at}
	if err := store(t.Context(), p, all, scraped(t)); err != nil {
		t.Fatal(err)
	}
	t.Run("panels", p.panels)
	t.Run("series", p.series)
	t.Run("alerts", p.alerts)
}

// mostSamples is Prometheus' own default limit for a query (cmd/prometheus/main.go there).
const mostSamples = 50_000_000

// prometheus has the scraped series of a period.
type prometheus struct {
	*teststorage.TestStorage

	engine   *promql.Engine
	from, to time.Time
}

// asked returns the result of a query, each second.
func (p *prometheus) asked(t *testing.T, query string) promql.Matrix {
	t.Helper()
	q, err := p.engine.NewRangeQuery(t.Context(), p, nil, query, p.from, p.to, time.Second)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	t.Cleanup(q.Close)
	found, err := q.Exec(t.Context()).Matrix()
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return found
}

func (p *prometheus) panels(t *testing.T) {
	for _, panel := range panels(t) {
		for _, target := range panel.Targets {
			if len(p.asked(t, variables.Replace(target.Expr))) == 0 {
				t.Errorf("%s shows nothing of a daemon: %s", panel.Title, target.Expr)
			}
		}
	}
}

// series checks that what each selector of an alert or a panel queries is served, with the labels by which it is
// grouped.
func (p *prometheus) series(t *testing.T) {
	queries := []string{}
	for _, rule := range read(t) {
		queries = append(queries, rule.Expr)
	}
	for _, panel := range panels(t) {
		for _, target := range panel.Targets {
			queries = append(queries, variables.Replace(target.Expr))
		}
	}
	for _, query := range queries {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			found := p.asked(t, selector.String())
			if len(found) == 0 {
				t.Errorf("%s: nothing serves %s", query, selector)
			}
			for _, one := range found {
				for _, label := range grouping(path) {
					if !one.Metric.Has(label) && label != model.BucketLabel {
						t.Errorf("%s: %s has no label %s", query, one.Metric, label)
					}
				}
			}
			return nil
		})
	}
}

// grouping returns the labels by which the selected series are grouped.
func grouping(path []parser.Node) (by []string) {
	for _, node := range path {
		if aggregate, ok := node.(*parser.AggregateExpr); ok && !aggregate.Without {
			by = append(by, aggregate.Grouping...)
		}
	}
	return by
}

// alerts checks what fires while an object is edited, two removals and a rollout are held, and that nothing does
// afterwards.
func (p *prometheus) alerts(t *testing.T) {
	var during, after []string
	for _, rule := range read(t) {
		found := p.asked(t, rule.Expr)
		if len(found) > 0 && rule.Alert != "PlumblineNotReconciling" { // it fires until two reconciles were scraped
			during = append(during, rule.Alert)
		}
		for _, one := range found {
			if one.Floats[len(one.Floats)-1].T == p.to.UnixMilli()-p.to.Sub(p.from).Milliseconds()%1000 {
				after = append(after, rule.Alert)
			}
			about := map[string]string{"namespace": "plumbline-system", "name": "dashboard"}
			if rule.Alert == "PlumblineRolloutBraked" {
				about["pool"] = "spare"
			}
			if got := one.Metric.Map(); rule.Alert != "PlumblineAbsent" && rule.Alert != "PlumblineWebhooksRefused" && !cmp.Equal(got, about) {
				t.Errorf("%s is about %v, and not about a NodeSync", rule.Alert, got)
			}
		}
	}
	slices.Sort(during)
	if diff := cmp.Diff([]string{"PlumblineDrift", "PlumblineNotReady", "PlumblineRemovalHeld", "PlumblineRemovalSlow", "PlumblineRolloutBraked", "PlumblineStalled", "PlumblineSuspended"}, during); diff != "" {
		t.Errorf("conditions that were true in between (-want +got):\n%s", diff)
	}
	if len(after) > 0 {
		t.Errorf("conditions that are true in the end: %v", after)
	}
}

// scraped returns how Prometheus labels the daemon according to the ServiceMonitor.
func scraped(t *testing.T) target {
	t.Helper()
	var monitor struct {
		Spec struct {
			Selector  struct{ MatchLabels map[string]string }
			Endpoints []struct {
				Port        string
				HonorLabels bool
			}
		}
	}
	var service struct {
		Metadata struct {
			Name, Namespace string
			Labels          map[string]string
		}
		Spec struct{ Ports []struct{ Name string } }
	}
	decode(t, "../monitoring/servicemonitor.yaml", &monitor)
	decode(t, "../core/service.yaml", &service) // the first document
	for name, value := range monitor.Spec.Selector.MatchLabels {
		if service.Metadata.Labels[name] != value {
			t.Errorf("the ServiceMonitor selects %s=%s, which Service %s has not", name, value, service.Metadata.Name)
		}
	}
	endpoint := monitor.Spec.Endpoints[0]
	if endpoint.Port != service.Spec.Ports[0].Name {
		t.Errorf("the ServiceMonitor names the port %s, and Service %s %s", endpoint.Port, service.Metadata.Name, service.Spec.Ports[0].Name)
	}
	return target{honorLabels: endpoint.HonorLabels, labels: map[string]string{
		"job": service.Metadata.Name, "service": service.Metadata.Name, "namespace": service.Metadata.Namespace,
		"pod": "plumbline-0", model.InstanceLabel: "10.0.0.1:8080", "endpoint": endpoint.Port,
	}}
}

// decode decodes the first document of a file.
func decode(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := bytes.Cut(text, []byte("\n---\n"))
	if err := yaml.Unmarshal(first, into); err != nil {
		t.Fatal(err)
	}
}

// TestLabelsOfAScrape: honorLabels keeps the daemon's own labels; otherwise they are renamed.
func TestLabelsOfAScrape(t *testing.T) {
	own := map[string]string{model.MetricNameLabel: "a", "namespace": "fleet"}
	for honor, want := range map[bool]string{true: `{__name__="a", job="plumbline", namespace="fleet"}`, false: `{__name__="a", exported_namespace="fleet", job="plumbline", namespace="monitoring"}`} {
		got := target{honorLabels: honor, labels: map[string]string{"job": "plumbline", "namespace": "monitoring"}}.of(own)
		if got.String() != want {
			t.Errorf("honorLabels %t: %s, want %s", honor, got, want)
		}
	}
}
