//go:build ignore

// Record writes random EC2NodeClasses and NodePools with the hashes that Karpenter's own libraries compute of them, a
// JSON object a line. The fields and values come from the schemas of the CRDs in these libraries. The output is the same
// in each run.
//
// The product no longer links Karpenter 1.14: run it in the module of a controller that does.
//
//	cd tests/sandbox/bin/karpenter   # the one whose go.mod requires karpenter-provider-aws v1.14.3
//	go run ../../../../reconcile/plan/hashv5/testdata/record.go ../../../../reconcile/plan/hashv5/testdata
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// record is one line. Version and Hash are Karpenter's annotations.
type record struct {
	Spec    map[string]any `json:"spec"`
	Bundle  string         `json:"bundle,omitempty"`
	Version string         `json:"version"`
	Hash    string         `json:"hash"`
}

func main() {
	random := rand.New(rand.NewPCG(5, 6))
	write("ec2nodeclasses.jsonl", 320, func(i int) record {
		r := record{Spec: spec(random, "EC2NodeClass", i), Version: awsv1.EC2NodeClassHashVersion}
		if i%2 == 1 {
			r.Bundle = fmt.Sprintf("bundle-%d", random.IntN(5))
		}
		class := &awsv1.EC2NodeClass{}
		into(r.Spec, &class.Spec)
		r.Hash = class.Hash(&r.Bundle)
		return r
	})
	write("nodepools.jsonl", 100, func(i int) record {
		r := record{Spec: spec(random, "NodePool", i), Version: karpv1.NodePoolHashVersion}
		pool := &karpv1.NodePool{}
		into(r.Spec, &pool.Spec)
		r.Hash = pool.Hash()
		return r
	})
}

func write(file string, count int, one func(int) record) {
	out := &bytes.Buffer{}
	lines := json.NewEncoder(out)
	for i := range count {
		if err := lines.Encode(one(i)); err != nil {
			panic(err)
		}
	}
	if err := os.WriteFile(filepath.Join(os.Args[1], file), out.Bytes(), 0o600); err != nil {
		panic(err)
	}
}

func into(spec map[string]any, typed any) {
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	if err := json.Unmarshal(text, typed); err != nil {
		panic(fmt.Errorf("%s: %w", text, err))
	}
}

// spec returns a random spec of a kind. Some have few fields and some have most.
func spec(random *rand.Rand, kind string, i int) map[string]any {
	for _, crd := range awsapis.CRDs {
		if crd.Spec.Names.Kind == kind {
			w := writer{random: random, share: []float64{0.1, 0.25, 0.45, 0.7}[i%4]}
			schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			return w.value("spec", schema).(map[string]any)
		}
	}
	panic("no CRD of " + kind)
}

// writer writes values of schemas. share is the probability that an optional field is set.
type writer struct {
	random *rand.Rand
	share  float64
}

func (w writer) value(name string, schema apiextensionsv1.JSONSchemaProps) any {
	switch {
	case len(schema.Enum) > 0:
		var value any
		if err := json.Unmarshal(one(w.random, schema.Enum).Raw, &value); err != nil {
			panic(err)
		}
		return value
	case schema.XIntOrString:
		return w.text(name, schema)
	}
	switch schema.Type {
	case "boolean":
		return w.random.IntN(2) == 0
	case "integer", "number":
		return w.integer(schema)
	case "array":
		list := []any{}
		for range w.random.IntN(4) {
			list = append(list, w.value(name, *schema.Items.Schema))
		}
		return list
	case "object":
		object := map[string]any{}
		if schema.AdditionalProperties != nil {
			for _, key := range w.keys(name) {
				object[key] = w.value(name, *schema.AdditionalProperties.Schema)
			}
		}
		for _, field := range slices.Sorted(maps.Keys(schema.Properties)) {
			if slices.Contains(schema.Required, field) || w.random.Float64() < w.share {
				object[field] = w.value(field, schema.Properties[field])
			}
		}
		return object
	}
	return w.text(name, schema)
}

func (w writer) integer(schema apiextensionsv1.JSONSchemaProps) int64 {
	low, high := int64(0), int64(100)
	if schema.Minimum != nil {
		low = int64(*schema.Minimum)
	}
	if schema.Maximum != nil {
		high = int64(*schema.Maximum)
	}
	if w.random.IntN(4) == 0 {
		return low // often zero, which counts as not set
	}
	return low + w.random.Int64N(high-low+1)
}

// keys returns the keys of a map.
func (w writer) keys(field string) []string {
	keys := []string{"team", "example.com/app", "größe"}
	switch {
	case strings.HasPrefix(field, "eviction"):
		keys = []string{"memory.available", "nodefs.available", "pid.available"}
	case strings.HasSuffix(field, "Reserved"):
		keys = []string{"cpu", "memory", "ephemeral-storage"}
	case field == "limits":
		keys = []string{"cpu", "memory", "nodes"}
	}
	return keys[:w.random.IntN(len(keys)+1)]
}

// text returns a string that its schema allows, and that Karpenter's types can read.
func (w writer) text(field string, schema apiextensionsv1.JSONSchemaProps) string {
	durations := []string{"30s", "1m30s", "90s", "720h", "0s"}
	quantities := []string{"100m", "0.1", "1Gi", "1024Mi", "500M", "2"}
	switch {
	case field == "alias":
		return one(w.random, []string{"al2@latest", "al2023@v20250807", "bottlerocket@1.40.0", "windows2022@latest"})
	case field == "volumeSize":
		return one(w.random, []string{"100Gi", "20G", "1Ti", "2T", "1024Gi"})
	case field == "expireAfter" || field == "consolidateAfter":
		return one(w.random, append(durations, "Never"))
	case field == "evictionSoftGracePeriod" || field == "terminationGracePeriod" || field == "duration":
		return one(w.random, durations)
	case field == "limits" || strings.HasSuffix(field, "Reserved"):
		return one(w.random, quantities)
	case strings.HasPrefix(field, "eviction"):
		return one(w.random, append(quantities, "5%", "12.5%"))
	case schema.Format == "date-time":
		return "2026-01-02T03:04:05Z"
	case field == "userData":
		return one(w.random, []string{"", "#!/bin/bash\necho \"<&>\"\n", "[settings]\nmotd = 'hello'\n"})
	}
	return one(w.random, []string{"", "a", "b", "web-1", "arn:aws:iam::123456789012:role/nodes"})
}

func one[T any](random *rand.Rand, of []T) T { return of[random.IntN(len(of))] }
