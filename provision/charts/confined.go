package charts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/chart"

	"github.com/plumbline-dev/plumbline/confine"
)

// JobName identifies Job.
const JobName = "chart"

// Job renders a chart, or parses an index, in a child process.
func Job(t *confine.Talk) error {
	message, err := t.Receive()
	if err != nil {
		return err
	}
	question, _ := message.(map[string]any)
	if text, ok := question["index"].(string); ok {
		return t.Send(answerIndex(text))
	}
	loaded, err := decodeChart(question["chart"])
	if err != nil {
		return err
	}
	documents, failed := renderChart(loaded, decodeRendering(question["with"]))
	return t.Send(encodeRendered(documents, failed))
}

// Render renders a chart in a child process, or in this process if runner is nil. It modifies the chart. Errors:
// *LookupError, *HookError, *RenderError, and those of the Runner.
func Render(ctx context.Context, runner *confine.Runner, loaded *chart.Chart, with Rendering) (Documents, error) {
	if runner == nil {
		documents, failed := renderChart(loaded, with)
		if failed != nil {
			return nil, failed.error(loaded.Metadata)
		}
		return documents, nil
	}
	encoded, err := encodeChart(loaded)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("rendering chart %s %s", loaded.Metadata.Name, loaded.Metadata.Version)
	answer, err := runner.Ask(ctx, what, JobName, map[string]any{"chart": encoded, "with": encodeRendering(with)})
	if err != nil {
		return nil, err
	}
	documents, failed, err := decodeRendered(answer)
	if err != nil {
		return nil, &confine.ChildError{What: what, Err: err}
	}
	if failed != nil {
		return nil, failed.error(loaded.Metadata)
	}
	return documents, nil
}

// errAnswer reports that a child sent an invalid reply.
var errAnswer = errors.New("the child process sent an invalid answer")

// encodeChart encodes everything that a render needs of a chart as plain data.
func encodeChart(c *chart.Chart) (map[string]any, error) {
	metadata, err := json.Marshal(c.Metadata)
	if err != nil {
		return nil, fmt.Errorf("encode the Chart.yaml of chart %s: %w", c.Name(), err)
	}
	encoded := map[string]any{
		"metadata": string(metadata), "values": map[string]any(c.Values), "schema": string(c.Schema),
		"templates": encodeFiles(c.Templates), "files": encodeFiles(c.Files),
	}
	inOrder, err := subcharts(c)
	if err != nil {
		return nil, err
	}
	var below []any
	for _, one := range inOrder {
		inner, err := encodeChart(one)
		if err != nil {
			return nil, err
		}
		below = append(below, inner)
	}
	encoded["dependencies"] = below
	return encoded, nil
}

// subcharts returns the charts within a chart in a fixed order: Helm's comes from a map, and equal charts must result
// in equal messages. Error: *MalformedError.
func subcharts(c *chart.Chart) ([]*chart.Chart, error) {
	compare := func(a, b *chart.Chart) int {
		return cmp.Or(cmp.Compare(a.Metadata.Name, b.Metadata.Name), cmp.Compare(a.Metadata.Version, b.Metadata.Version))
	}
	all := slices.SortedStableFunc(slices.Values(c.Dependencies()), compare)
	for i := 1; i < len(all); i++ {
		if compare(all[i-1], all[i]) == 0 {
			return nil, &MalformedError{
				Chart: c.Metadata.Name, Version: c.Metadata.Version,
				Err: fmt.Errorf("it has two charts %s %s in it: leave one out", all[i].Metadata.Name, all[i].Metadata.Version),
			}
		}
	}
	return all, nil
}

func encodeFiles(files []*chart.File) []any {
	encoded := make([]any, 0, 2*len(files))
	for _, one := range files {
		if one != nil {
			encoded = append(encoded, one.Name, string(one.Data))
		}
	}
	return encoded
}

func decodeChart(message any) (*chart.Chart, error) {
	encoded, _ := message.(map[string]any)
	c := &chart.Chart{Metadata: &chart.Metadata{}, Templates: decodeFiles(encoded["templates"]), Files: decodeFiles(encoded["files"])}
	metadata, _ := encoded["metadata"].(string)
	if err := json.Unmarshal([]byte(metadata), c.Metadata); err != nil {
		return nil, err
	}
	c.Values, _ = encoded["values"].(map[string]any)
	if schema, _ := encoded["schema"].(string); schema != "" {
		c.Schema = []byte(schema)
	}
	below, _ := encoded["dependencies"].([]any)
	for _, one := range below {
		inner, err := decodeChart(one)
		if err != nil {
			return nil, err
		}
		c.AddDependency(inner)
	}
	return c, nil
}

func decodeFiles(message any) []*chart.File {
	encoded, _ := message.([]any)
	files := make([]*chart.File, 0, len(encoded)/2)
	for i := 0; i+1 < len(encoded); i += 2 {
		name, _ := encoded[i].(string)
		data, _ := encoded[i+1].(string)
		files = append(files, &chart.File{Name: name, Data: []byte(data)})
	}
	return files
}

func encodeRendering(with Rendering) map[string]any {
	apis := make([]any, 0, len(with.Cluster.APIs))
	for _, one := range with.Cluster.APIs {
		apis = append(apis, one)
	}
	return map[string]any{
		"release": with.Release, "namespace": with.Namespace, "revision": with.Revision, "upgrade": with.Upgrade,
		"values": with.Values, "version": with.Cluster.Version, "major": with.Cluster.Major, "minor": with.Cluster.Minor, "apis": apis,
		"hooks": with.SkipHooks,
	}
}

func decodeRendering(message any) Rendering {
	encoded, _ := message.(map[string]any)
	text := func(name string) string {
		value, _ := encoded[name].(string)
		return value
	}
	with := Rendering{
		Release: text("release"), Namespace: text("namespace"),
		Cluster: Capabilities{Version: text("version"), Major: text("major"), Minor: text("minor")},
	}
	revision, _ := encoded["revision"].(int64)
	with.Revision = int(revision)
	with.Upgrade, _ = encoded["upgrade"].(bool)
	with.SkipHooks, _ = encoded["hooks"].(bool)
	with.Values, _ = encoded["values"].(map[string]any)
	apis, _ := encoded["apis"].([]any)
	for _, one := range apis {
		api, _ := one.(string)
		with.Cluster.APIs = append(with.Cluster.APIs, api)
	}
	return with
}

func encodeRendered(documents Documents, failed *failure) map[string]any {
	if failed != nil {
		return map[string]any{"failed": string(failed.Kind), "file": failed.File, "line": failed.Line, "words": failed.Words}
	}
	encoded := make([]any, 0, 2*len(documents))
	for _, one := range documents {
		encoded = append(encoded, one.Source, one.Text)
	}
	return map[string]any{"documents": encoded}
}

func decodeRendered(message any) (Documents, *failure, error) {
	encoded, _ := message.(map[string]any)
	if kind, ok := encoded["failed"].(string); ok {
		f := &failure{Kind: failureKind(kind)}
		f.File, _ = encoded["file"].(string)
		line, _ := encoded["line"].(int64)
		f.Line = int(line)
		f.Words, _ = encoded["words"].(string)
		return nil, f, nil
	}
	list, ok := encoded["documents"].([]any)
	if !ok {
		return nil, nil, errAnswer
	}
	documents := make(Documents, 0, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		source, _ := list[i].(string)
		text, _ := list[i+1].(string)
		documents = append(documents, Document{Source: source, Text: text})
	}
	return documents, nil, nil
}
