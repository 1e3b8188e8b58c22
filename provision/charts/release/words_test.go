package release

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
)

// withTemplate adds a template to the main chart.
func (b *bed) withTemplate(text string) {
	b.Helper()
	b.charts = stored(b.T, "1.14.1", chartstest.CRDs(b.T, "1.14.1"), chartstest.Archive(b.T, charts.ControllerChart, "1.14.1", map[string]string{
		"deployment.yaml": chartstest.DeploymentTemplate, "more.yaml": text,
	}))
}

// everyRender returns the operations that render a chart.
func everyRender() map[string]func(*bed) error {
	return map[string]func(*bed) error{
		"install": func(b *bed) error {
			_, err := b.controller()
			return err
		},
		"rehearse":  func(b *bed) error { return b.installer.Rehearse(b.Context(), b.charts, b.want) },
		"permitted": func(b *bed) error { return b.installer.Permitted(b.Context(), b.charts, b.want) },
		"offline": func(b *bed) error {
			_, err := b.charts.Controller(b.Context(), b.want.Installation)
			return err
		},
		"upgrade": func(b *bed) error {
			evil := b.charts
			b.charts = stored(b.T, "1.14.1", chartstest.CRDs(b.T, "1.14.1"), chartstest.Controller(b.T, "1.14.1"))
			b.both()
			b.charts = evil
			b.want.Values = map[string]any{"replicas": 7, "secret": "hunter2", "text": b.want.Values["text"]}
			_, err := b.controller()
			return err
		},
	}
}

// TestAChartThatLooksUp: a render has no cluster, and reports a chart that requires one.
func TestAChartThatLooksUp(t *testing.T) {
	const lookup = `{{ (lookup "v1" "Secret" "kube-system" "team").data.password | b64dec | fail }}`
	for name, tc := range map[string]struct {
		template string
		line     int
	}{
		"in a template": {"kind: A\n" + lookup + "\n", 2},
		"through tpl":   {"\n\n{{ tpl .Values.text . }}\n", 3},
		"of a list":     {`{{ range (lookup "v1" "Secret" "" "").items }}{{ .data | toYaml | fail }}{{ end }}`, 1},
		"in a helper":   {`{{ define "x" }}` + lookup + `{{ end }}{{ include "x" . }}`, 1},
	} {
		for way, render := range everyRender() {
			t.Run(name+", "+way, func(t *testing.T) {
				b := newBed(t)
				b.api.put(secretsPath+"team", map[string]any{
					"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "team", "namespace": "kube-system"},
					"data": map[string]any{"password": "aHVudGVyMg=="},
				})
				b.withTemplate(tc.template)
				b.want.Values = map[string]any{"text": lookup}
				err := render(b)
				var refused *charts.LookupError
				if !errors.As(err, &refused) || refused.File != "karpenter/templates/more.yaml" || refused.Line != tc.line {
					t.Fatalf("error %v, want a charts.LookupError of line %d", err, tc.line)
				}
				if strings.Contains(err.Error(), "hunter2") {
					t.Errorf("it tells the secret: %v", err)
				}
			})
		}
	}
}

// TestWordsOfATemplateAreNotRepeated: a template's message may contain anything.
func TestWordsOfATemplateAreNotRepeated(t *testing.T) {
	for name, tc := range map[string]struct{ template, want string }{
		"fail":                   {"\n{{ fail (printf \"LEAK %s\" .Values.secret) }}", "karpenter/templates/more.yaml, line 2 fails"},
		"required":               {"{{ required (printf \"LEAK %s\" .Values.secret) .Values.none }}", "karpenter/templates/more.yaml, line 1 fails"},
		"an error of tpl":        {"{{ tpl (printf \"LEAK %s {{ \" .Values.secret) . }}", "karpenter/templates/more.yaml, line 1 fails"},
		"a template by name":     {"{{ tpl (printf \"{{define %q}}{{fail \\\"x\\\"}}{{end}}{{include %q .}}\" .Values.secret .Values.secret) . }}", "karpenter/templates/more.yaml, line 1 fails"},
		"an error of a function": {"{{ index .Values.secret 99 }}", "karpenter/templates/more.yaml, line 1 fails"},
		"what is not YAML":       {"LEAK: {{ .Values.secret }}: [", "karpenter/templates/more.yaml renders to something that is not YAML"},
	} {
		for way, render := range everyRender() {
			t.Run(name+", "+way, func(t *testing.T) {
				b := newBed(t)
				b.withTemplate(tc.template)
				b.want.Values = map[string]any{"secret": "hunter2"}
				err := render(b)
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("error %v, want %q", err, tc.want)
				}
				if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "LEAK") {
					t.Errorf("it repeats the template: %v", err)
				}
			})
		}
	}
}

// TestWhatIsNoObjectIsNotRepeated: the API machinery's error would contain all of it.
func TestWhatIsNoObjectIsNotRepeated(t *testing.T) {
	b := newBed(t)
	b.withTemplate("{{ .Values.secret }}: 1\n")
	b.want.Values = map[string]any{"secret": "hunter2"}
	_, err := b.controller()
	var failed *charts.RenderError
	if !errors.As(err, &failed) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v, want a charts.RenderError without the value", err)
	}
}

// TestTemplatesSeeTheClustersVersion: they get it as plain data, without a client.
func TestTemplatesSeeTheClustersVersion(t *testing.T) {
	const asks = `apiVersion: v1
kind: ConfigMap
metadata:
  name: asked
  namespace: kube-system
data:
  version: {{ .Capabilities.KubeVersion.Version | quote }}
  apps: {{ .Capabilities.APIVersions.Has "apps/v1" | quote }}
  none: {{ .Capabilities.APIVersions.Has "none.example.com/v1" | quote }}
  revision: "{{ .Release.Revision }} {{ .Release.IsInstall }} {{ .Release.IsUpgrade }} {{ .Release.Name }} {{ .Release.Namespace }} {{ .Chart.Version }}"
`
	b := newBed(t)
	b.withTemplate(asks)
	if _, err := b.controller(); err != nil {
		t.Fatal(err)
	}
	asked := func() any { return b.api.get("/api/v1/namespaces/kube-system/configmaps/asked")["data"] }
	want := map[string]any{"version": "v1.36.0", "apps": "true", "none": "false", "revision": "1 true false karpenter kube-system 1.14.1"}
	if diff := cmp.Diff(any(want), asked()); diff != "" {
		t.Errorf("at the install (-want +got):\n%s", diff)
	}
	b.want.Values = map[string]any{"replicas": 9}
	if _, err := b.controller(); err != nil {
		t.Fatal(err)
	}
	want["revision"] = "2 false true karpenter kube-system 1.14.1"
	if diff := cmp.Diff(any(want), asked()); diff != "" {
		t.Errorf("at the upgrade (-want +got):\n%s", diff)
	}
}

// TestTheReleaseHasTheWholeChart: Helm gets a chart without templates, but stores the real one, which a rollback needs.
func TestTheReleaseHasTheWholeChart(t *testing.T) {
	b := newBed(t)
	b.both()
	helm, err := newHelm(b.api.config(), "kube-system", b.installer.options.Logger)
	if err != nil {
		t.Fatal(err)
	}
	last, err := helm.config.Releases.Last(charts.ControllerChart)
	if err != nil {
		t.Fatal(err)
	}
	if len(last.Chart.Templates) != 1 || last.Chart.Values["replicas"] == nil || !strings.Contains(last.Manifest, "# Source: karpenter/templates/deployment.yaml") {
		t.Errorf("the release has %d templates, values %v, manifest %s", len(last.Chart.Templates), last.Chart.Values, last.Manifest)
	}
}
