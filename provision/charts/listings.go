package charts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// listing is one version of a chart in an index.
type listing struct {
	Version string   `json:"version"`
	URLs    []string `json:"urls"`
	Digest  string   `json:"digest"`
}

// readIndex reads what an index.yaml lists of Karpenter's charts, in a child process,
// or in this one where there is no Runner.
func readIndex(ctx context.Context, runner *confine.Runner, text []byte) (map[string][]listing, error) {
	if err := weigh.Dense(text); err != nil {
		return nil, fmt.Errorf("read the repository's index.yaml: %w", err)
	}
	if runner == nil {
		return listedIn(text)
	}
	answer, err := runner.Ask(ctx, "reading the repository's index.yaml", JobName, map[string]any{"index": string(text)})
	if err != nil {
		return nil, err
	}
	return decodeListed(answer)
}

// listedIn reads the text of an index.yaml.
func listedIn(text []byte) (map[string][]listing, error) {
	if err := weigh.YAML(text); err != nil {
		return nil, fmt.Errorf("read the repository's index.yaml: %w", err)
	}
	var whole struct {
		Entries map[string]json.RawMessage `json:"entries"`
	}
	if err := yaml.Unmarshal(text, &whole); err != nil {
		return nil, fmt.Errorf("read the repository's index.yaml: %w", err)
	}
	found := map[string][]listing{}
	for _, chart := range []string{CRDChart, ControllerChart} {
		raw, ok := whole.Entries[chart]
		if !ok {
			continue
		}
		var listings []listing
		if err := json.Unmarshal(raw, &listings); err != nil {
			return nil, fmt.Errorf("read the repository's index.yaml: %w", err)
		}
		found[chart] = listings
	}
	return found, nil
}

// answerIndex is a child's answer.
func answerIndex(text string) map[string]any {
	found, err := listedIn([]byte(text))
	if err != nil {
		return map[string]any{"unreadable": err.Error()}
	}
	answer := map[string]any{}
	for chart, listings := range found {
		var encoded []any
		for _, one := range listings {
			url := ""
			if len(one.URLs) > 0 {
				url = one.URLs[0]
			}
			encoded = append(encoded, one.Version, url, one.Digest)
		}
		answer[chart] = encoded
	}
	return map[string]any{"listed": answer}
}

func decodeListed(message any) (map[string][]listing, error) {
	answer, _ := message.(map[string]any)
	if why, ok := answer["unreadable"].(string); ok {
		return nil, errors.New(why)
	}
	charts, ok := answer["listed"].(map[string]any)
	if !ok {
		return nil, errAnswer
	}
	found := map[string][]listing{}
	for chart, message := range charts {
		encoded, _ := message.([]any)
		for i := 0; i+2 < len(encoded); i += 3 {
			var one listing
			one.Version, _ = encoded[i].(string)
			if url, _ := encoded[i+1].(string); url != "" {
				one.URLs = []string{url}
			}
			one.Digest, _ = encoded[i+2].(string)
			found[chart] = append(found[chart], one)
		}
	}
	return found, nil
}
