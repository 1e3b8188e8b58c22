// Command generate writes the CRDs of a version of Karpenter without their descriptions, one in a line.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/internal/modcache"
	"github.com/plumbline-dev/plumbline/render/schema"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate FILE")
		os.Exit(1)
	}
	text, err := generate(context.Background(), schema.LTSVersion)
	if err == nil {
		err = os.WriteFile(os.Args[1], text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(ctx context.Context, version string) ([]byte, error) {
	folder, err := modcache.Folder(ctx, "github.com/aws/karpenter-provider-aws@v"+version)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(folder, "pkg", "apis", "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("find the CRDs of Karpenter %s: %d files, %w", version, len(files), err)
	}
	out := &bytes.Buffer{}
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd map[string]any
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if err := lines.Encode(withoutDescriptions(crd)); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// withoutDescriptions drops the descriptions of fields. A field of that name is a map.
func withoutDescriptions(value any) any {
	switch value := value.(type) {
	case map[string]any:
		if _, is := value["description"].(string); is {
			delete(value, "description")
		}
		for key := range value {
			value[key] = withoutDescriptions(value[key])
		}
	case []any:
		for i := range value {
			value[i] = withoutDescriptions(value[i])
		}
	}
	return value
}
