package render_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// shell is a script with everything that shell may contain, and its result.
const (
	shell = `#!/bin/bash
set -euo pipefail
name=$(hostname -s); pid=$$; first=$1; all="$@"
echo "${X:-y}" "${X%%.*}" "${UNKNOWN}" \${Y} "${#name}" ${!name} ${name[@]} $((1 + 2)) ${}
	tab ` + "`date`" + ` 'it''s' "\"" \n %s {{ .Values.x }}
cluster=${CLUSTER_NAME} region="${REGION}" team=${TEAM}
kept=$${CLUSTER_NAME} both=$$$${CLUSTER_NAME} default=${CLUSTER_NAME:-none} cut=${CLUSTER_NAME%-*}
unknown=$${UNKNOWN} money=$$5 escaped=\${CLUSTER_NAME}
`
	shellRendered = `#!/bin/bash
set -euo pipefail
name=$(hostname -s); pid=$$; first=$1; all="$@"
echo "${X:-y}" "${X%%.*}" "${UNKNOWN}" \${Y} "${#name}" ${!name} ${name[@]} $((1 + 2)) ${}
	tab ` + "`date`" + ` 'it''s' "\"" \n %s {{ .Values.x }}
cluster=demo region="eu-west-1" team=data
kept=${CLUSTER_NAME} both=$$${CLUSTER_NAME} default=${CLUSTER_NAME:-none} cut=${CLUSTER_NAME%-*}
unknown=$${UNKNOWN} money=$$5 escaped=\demo
`
)

const withTeam = plumblineYAML + "substitute: {TEAM: data, EVIL: \"x\\nkind: Secret # ${TEAM}\"}\n"

// classWith returns an EC2NodeClass with user data.
func classWith(userData string) string {
	return "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: default\nspec:\n  userData: |\n    " +
		strings.TrimSuffix(strings.ReplaceAll(userData, "\n", "\n    "), "    ")
}

func TestUserDataSurvives(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"plain":     {"plumbline.yaml": withTeam, "class.yaml": classWith(shell)},
		"kustomize": {"plumbline.yaml": withTeam + "nodes: [./nodes]\n", "nodes/kustomization.yaml": "resources: [class.yaml]\n", "nodes/class.yaml": classWith(shell)},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := renderAll(t, folder(files), ".", nil)
			if err != nil {
				t.Fatal(err)
			}
			got, _, _ := unstructured.NestedString(set.Objects[0].Desired.Object, "spec", "userData")
			if diff := cmp.Diff(shellRendered, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSubstitute(t *testing.T) {
	pool := func(annotations string) string {
		return "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: general\n  annotations:\n" + annotations
	}
	for name, tc := range map[string]struct {
		annotations string
		want        map[string]string
	}{
		"built in":             {"    a: ${CLUSTER_NAME}/${REGION}\n", map[string]string{"a": "demo/eu-west-1"}},
		"own":                  {"    a: x${TEAM}${TEAM}y\n", map[string]string{"a": "xdatadatay"}},
		"in a key":             {"    ${TEAM}/a: x\n", map[string]string{"data/a": "x"}},
		"escaped":              {"    a: $${TEAM} $${X:-y} $$${TEAM}\n", map[string]string{"a": "${TEAM} ${X:-y} $${TEAM}"}},
		"left alone":           {"    a: $TEAM $$ $5 $(TEAM) 100$\n", map[string]string{"a": "$TEAM $$ $5 $(TEAM) 100$"}},
		"not replaced again":   {"    a: ${EVIL}\n", map[string]string{"a": "x\nkind: Secret # ${TEAM}"}},
		"turned off":           {"    plumbline.dev/substitute: disabled\n    a: ${UNKNOWN} ${TEAM} $${X}\n", map[string]string{"plumbline.dev/substitute": "disabled", "a": "${UNKNOWN} ${TEAM} $${X}"}},
		"turned on in so many": {"    plumbline.dev/substitute: enabled\n    a: ${TEAM}\n", map[string]string{"plumbline.dev/substitute": "enabled", "a": "data"}},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := renderAll(t, folder(map[string]string{"plumbline.yaml": withTeam, "pool.yaml": pool(tc.annotations)}), ".", nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, set.Objects[0].Desired.GetAnnotations()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// typedPool has variables in string fields and in others.
const typedPool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: general
  labels: {cost-centre: "${W}"}
spec:
  weight: ${W}
  limits: {cpu: "${W}"}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: topology.kubernetes.io/zone, operator: In, values: "${ZONES}"}
`

// TestSubstituteTyped: the value of a variable gets the type that the schema requires.
func TestSubstituteTyped(t *testing.T) {
	validator, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		substitute string
		want       []any // weight, values, label, limit
		errs       []string
	}{
		"JSON":      {`{W: "10", ZONES: '["eu-west-1a", "eu-west-1b"]'}`, []any{int64(10), []any{"eu-west-1a", "eu-west-1b"}, "10", "10"}, nil},
		"YAML":      {`{W: "10", ZONES: "[eu-west-1a]"}`, []any{int64(10), []any{"eu-west-1a"}, "10", "10"}, nil},
		"no number": {`{W: ten, ZONES: "[eu-west-1a]"}`, nil, []string{`nodes.yaml:7: spec.weight must be of type integer, and ${W} is "ten" under substitute in plumbline.yaml: correct it there`, `nodes.yaml:8: NodePool/general: spec.limits.cpu: Invalid value: "ten"`}},
		"no list":   {`{W: "10", ZONES: eu-west-1a}`, nil, []string{`nodes.yaml:13: spec.template.spec.requirements[0].values must be of type array, and ${ZONES} is "eu-west-1a"`}},
		"two documents": {`{W: "10\n---\n11\n", ZONES: "[eu-west-1a]"}`, nil, []string{
			`nodes.yaml:5: NodePool/general: metadata.labels: Invalid value: "10\n---\n11\n"`, `nodes.yaml:7: spec.weight must be of type integer`, `nodes.yaml:8: NodePool/general: spec.limits.cpu: Invalid value: "10\n---\n11\n"`,
		}},
		"unknown":        {`{W: "10"}`, nil, []string{`nodes.yaml:13: ${ZONES} is not known`}},
		"more than fits": {`{W: "10", ZONES: "[` + strings.Repeat("a,", 10_001) + `]"}`, nil, []string{"nodes.yaml:1: it has more than 10000 values"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"plumbline.yaml": plumblineYAML + "substitute: " + tc.substitute + "\n", "nodes.yaml": typedPool}
			set, err := renderAll(t, folder(files), ".", validator)
			if tc.errs != nil {
				expectErrors(t, err, tc.errs)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			object := set.Objects[0].Desired
			spec := object.Object["spec"].(map[string]any)
			requirements, _, _ := unstructured.NestedSlice(spec, "template", "spec", "requirements")
			got := []any{spec["weight"], requirements[0].(map[string]any)["values"], object.GetLabels()["cost-centre"], spec["limits"].(map[string]any)["cpu"]}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestVariablesWithoutQuotes: within [] and {} YAML parses the braces of ${NAME} as a map.
func TestVariablesWithoutQuotes(t *testing.T) {
	text := "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: a}\nspec:\n  role: x\n  tags: {a: b,\n    c: ${TEAM}}\n"
	_, err := renderAll(t, folder(map[string]string{"plumbline.yaml": withTeam, "class.yaml": text}), ".", nil)
	expectErrors(t, err, []string{`class.yaml:7: ${TEAM} needs quotes within [] and {}: write "${TEAM}" (not YAML: did not find expected ',' or '}')`})
}

func TestSubstituteRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations string
		want        []string
	}{
		"unknown":      {"    a: ${TEAMS}\n", []string{"pool.yaml:6: ${TEAMS} is not known: add it to substitute in plumbline.yaml, or write $${TEAMS} if it is to stay"}},
		"many":         {"    a: ${A}${B}${A}\n    b: ${C}\n", []string{"pool.yaml:6: ${A} is not known", "pool.yaml:6: ${B} is not known", "pool.yaml:7: ${C} is not known"}},
		"a default":    {"    a: ${TEAM:-x}\n", []string{"pool.yaml:6: ${TEAM:-x} is not understood: only ${NAME} is replaced; write $${ for a ${ that stays"}},
		"open":         {"    a: ${TEAM\n", []string{"pool.yaml:6: ${TEAM is not understood"}},
		"no name":      {"    a: ${}\n", []string{"pool.yaml:6: ${} is not understood"}},
		"in a key":     {"    x: y\n    ${A}: x\n", []string{"pool.yaml:7: ${A} is not known"}},
		"a key twice":  {"    data: x\n    ${TEAM}: y\n", []string{`pool.yaml:6: two keys become "data" once they are substituted`}},
		"another word": {"    plumbline.dev/substitute: \"off\"\n", []string{"pool.yaml:6: plumbline.dev/substitute is off, but must be disabled or enabled"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: general\n  annotations:\n" + tc.annotations
			_, err := renderAll(t, folder(map[string]string{"plumbline.yaml": withTeam, "pool.yaml": text}), ".", nil)
			expectErrors(t, err, tc.want)
		})
	}
}

// TestAnUnknownVariableHidesNoOtherMistake: other mistakes of the object are reported, but not those of the variable's
// own field.
func TestAnUnknownVariableHidesNoOtherMistake(t *testing.T) {
	text := strings.Replace(pool("general"), "requirements: []", "requirements: []\n      expireAfter: ${AGE}\n  weight: ${WEIGHT}\n  oops: 1", 1)
	_, err := renderAll(t, folder(map[string]string{"plumbline.yaml": withTeam, "pool.yaml": text}), ".", embedded(t))
	expectErrors(t, err, []string{"pool.yaml:10: ${AGE} is not known", "pool.yaml:11: ${WEIGHT} is not known", "pool.yaml:12: NodePool/general: spec.oops: Forbidden: unknown field"})
}

// TestSubstituteIsWeighed: a value of a megabyte in a thousand places is refused, in one object or in all of them
// together.
func TestSubstituteIsWeighed(t *testing.T) {
	value := strings.Repeat("x", 100_000)
	object := func(name string, times int) string {
		return "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: " + name + "\nspec:\n  context: \"" + strings.Repeat("${A}", times) + "\"\n  role: \"" + strings.Repeat("${A}", times) + "\"\n"
	}
	for name, c := range map[string]struct {
		objects, times int
		want           string
	}{
		"a heavy one":         {1, 5, ""},
		"one that is a bomb":  {1, 100_000, "nodes/x0.yaml:1: substitution makes it larger than 1048576 bytes, which no definition is"},
		"many heavy ones":     {16, 5, ""},
		"too many heavy ones": {20, 5, "too much to render: "},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"plumbline.yaml": plumblineYAML + "substitute: {A: " + value + "}\nnodes: [nodes]\n"}
			for i := range c.objects {
				files[fmt.Sprintf("nodes/x%d.yaml", i)] = object(fmt.Sprintf("x%d", i), c.times)
			}
			_, err := renderAll(t, folder(files), ".", nil)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %.300v, want %q", err, c.want)
			}
		})
	}
}

// TestObjectsAreWeighed: validating very many objects, or one with a very large map, would take minutes.
func TestObjectsAreWeighed(t *testing.T) {
	class := func(name string, tags int) string {
		text := "---\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: " + name + "}\nspec:\n  role: x\n  tags:\n    a: b\n"
		for i := range tags {
			text += fmt.Sprintf("    t%d: v\n", i)
		}
		return text
	}
	many := map[string]string{}
	for i := range 15_001 {
		many[fmt.Sprintf("nodes/y%d.yaml", i/1000)] += fmt.Sprintf("---\n{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: x%d}}\n", i)
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a class":              {map[string]string{"nodes/x.yaml": class("x", 10)}, ""},
		"one with a large map": {map[string]string{"nodes/x.yaml": class("x", 10_000)}, "nodes/x.yaml:2: it has more than 10000 values, which no definition has"},
		"very many":            {many, "too much to render: more than 15000 objects"},
	} {
		t.Run(name, func(t *testing.T) {
			c.files["plumbline.yaml"] = plumblineYAML + "nodes: [nodes]\n"
			_, err := renderAll(t, folder(c.files), ".", nil)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %.300v, want %q", err, c.want)
			}
		})
	}
}

// TestManyMistakesInOneObject: they are counted, and not looked up one by one.
func TestManyMistakesInOneObject(t *testing.T) {
	validator, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	text := "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: x\nspec:\n"
	for i := range 5000 {
		text += fmt.Sprintf("  unknown%d: 1\n", i)
	}
	_, err = renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML + "nodes: [nodes]\n", "nodes/x.yaml": text}), ".", validator)
	var found render.Errors
	if !errors.As(err, &found) || len(found) != 101 || !strings.Contains(found[100].Message, "more mistakes in this object") {
		t.Errorf("%d errors: %.200v", len(found), err)
	}
}

// TestErrorsCommandNoTerminal: control characters in names of files and keys are escaped.
func TestErrorsCommandNoTerminal(t *testing.T) {
	files := map[string]string{"plumbline.yaml": plumblineYAML, "\x1b[2J\n::error::pwn.yaml": "a: ["}
	_, err := renderAll(t, folder(files), ".", nil)
	if err == nil || strings.ContainsAny(err.Error(), "\x1b") || strings.Contains(err.Error(), "\n::error") || !strings.Contains(err.Error(), `\x1b[2J\n::error::pwn.yaml`) {
		t.Errorf("%q", err)
	}
}

// FuzzSubstitute: text without a ${ does not change, user data is never refused, and anything but known names stays.
func FuzzSubstitute(f *testing.F) {
	for _, text := range []string{shell, "$${CLUSTER_NAME}", "${CLUSTER_NAME}${", "$$$$${REGION}", "${X:-${CLUSTER_NAME}}"} {
		f.Add(text)
	}
	karpenter := &render.Karpenter{Cluster: render.Cluster{Name: "demo", Region: "eu-west-1"}, Nodes: []string{"class.json"}}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			t.Skip("JSON has no such text")
		}
		object := map[string]any{
			"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": map[string]any{"name": "x"},
			"spec": map[string]any{"userData": text},
		}
		set, err := render.Render(t.Context(), folder(map[string]string{"plumbline.yaml": plumblineYAML, "class.json": toJSON(t, object)}), ".", karpenter, nil)
		if err != nil {
			if strings.Contains(err.Error(), "not YAML") {
				t.Skip("JSON that YAML cannot read")
			}
			t.Fatalf("user data is refused: %v", err)
		}
		got, _, _ := unstructured.NestedString(set.Objects[0].Desired.Object, "spec", "userData")
		known := strings.NewReplacer("$${CLUSTER_NAME}", "${CLUSTER_NAME}", "$${REGION}", "${REGION}", "${CLUSTER_NAME}", "demo", "${REGION}", "eu-west-1")
		if want := known.Replace(text); want != got {
			t.Fatalf("user data %q became %q, want %q", text, got, want)
		}
	})
}
