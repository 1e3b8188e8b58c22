package conversion_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render/legacy/conversion"
)

// A NodePool of v1beta1, and what it becomes.
const (
	plainBefore = `apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: a
spec:
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: 1m
  template:
    spec:
      requirements: []
      nodeClassRef:
        name: a
`
	plainAfter = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: a
spec:
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: 1m
  template:
    spec:
      requirements: []
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: a
      expireAfter: 720h
`
)

// TestForms: the form of a text stays, whichever it is.
func TestForms(t *testing.T) {
	foreign := "a:   {b: c} # as it is\n"
	for name, c := range map[string]struct{ file, before, after string }{
		"plain":                  {"", plainBefore, plainAfter},
		"without a last newline": {"", strings.TrimSuffix(plainBefore, "\n"), plainAfter},
		"among other documents":  {"", foreign + "---\n" + plainBefore + "---\n" + foreign, foreign + "---\n" + plainAfter + "---\n" + foreign},
		"comments of the file":   {"", "# first\n\n# second\n---\n# third\n" + plainBefore + "# fourth\n", "# first\n\n# second\n---\n# third\n" + plainAfter + "# fourth\n"},
		"directives and ends":    {"", "%YAML 1.1\n---\n" + plainBefore + "...\n---\n" + foreign, "%YAML 1.1\n---\n" + plainAfter + "...\n---\n" + foreign},
		"a commented separator":  {"", "--- # here\n" + plainBefore, "--- # here\n" + plainAfter},
		"line breaks of Windows": {"", strings.ReplaceAll(plainBefore, "\n", "\r\n"), strings.ReplaceAll(plainAfter, "\n", "\r\n")},
		"wide indentation":       {"", widened(plainBefore), widened(plainAfter)},
		"quoted keys": {
			"", strings.NewReplacer("spec:\n  d", "\"spec\":\n  d", "template:", "'template':").Replace(plainBefore),
			strings.NewReplacer("spec:\n  d", "\"spec\":\n  d", "template:", "'template':").Replace(plainAfter),
		},
		"lists as far left as their keys": {
			"", strings.Replace(plainBefore, "requirements: []", "requirements:\n      # one\n      - key: a\n        operator: Exists\n      # and more", 1),
			strings.Replace(plainAfter, "requirements: []", "requirements:\n      # one\n      - key: a\n        operator: Exists\n      # and more", 1),
		},
		"on the line of the separator": {
			"", "--- {apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {name: a}, spec: {disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m}," +
				" template: {spec: {requirements: [], nodeClassRef: {name: a}}}}}\n",
			"---\n" + strings.Replace(plainAfter, "metadata:\n  name: a", "metadata: {name: a}", 1),
		},
		"explicit keys": {"", strings.Replace(plainBefore, "kind: NodePool", "? kind\n: NodePool", 1), plainAfter},
		"JSON": {
			"a.json", `{"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": {"name": "a"},
	"spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"name": "a"}}}}}`,
			`{
  "apiVersion": "karpenter.sh/v1",
  "kind": "NodePool",
  "metadata": {
    "name": "a"
  },
  "spec": {
    "disruption": {
      "consolidateAfter": "0s",
      "consolidationPolicy": "WhenEmptyOrUnderutilized"
    },
    "template": {
      "spec": {
        "expireAfter": "720h",
        "nodeClassRef": {
          "group": "karpenter.k8s.aws",
          "kind": "EC2NodeClass",
          "name": "a"
        },
        "requirements": []
      }
    }
  }
}
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.file == "" {
				c.file = "a.yaml"
			}
			made := conversion.Convert([]conversion.File{{Name: c.file, Data: []byte(c.before)}}, conversion.Options{})
			if len(made.Files) != 1 || made.Open() > 0 {
				t.Fatalf("it is %+v", made)
			}
			if diff := cmp.Diff(c.after, string(made.Files[0].After)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// widened indents a text by four spaces instead of two.
func widened(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		trimmed := strings.TrimLeft(line, " ")
		lines = append(lines, strings.Repeat(" ", 2*(len(line)-len(trimmed)))+trimmed)
	}
	return strings.Join(lines, "")
}

// TestUserData: user data stays byte for byte, also with lines that look like comments, and with spaces at their ends.
func TestUserData(t *testing.T) {
	script := "#!/bin/bash\n\n# a comment\n  # deeper\n\tx=1 \n   \n--- not a document\n# last\n"
	indented := ""
	for line := range strings.Lines(script) {
		indented += "      " + line
	}
	before := "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: a}\nspec:\n    userData: |\n" + indented +
		"    amiFamily: AL2023\n    role: nodes\n    subnetSelectorTerms: [{id: subnet-1}]\n    securityGroupSelectorTerms: [{id: sg-1}]\n"
	made := conversion.Convert([]conversion.File{{Name: "a.yaml", Data: []byte(before)}}, conversion.Options{})
	if len(made.Files) != 1 || made.Open() > 0 {
		t.Fatalf("it is %+v", made)
	}
	if after := string(made.Files[0].After); !strings.Contains(after, "    userData: |\n"+indented+"    amiSelectorTerms:\n") {
		t.Errorf("it became:\n%s", after)
	}
}

// TestNotWhole: what is not a whole definition needs a decision or is refused; nothing panics.
func TestNotWhole(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"no name":          {strings.Replace(plainBefore, "  name: a\nspec", "  labels: {}\nspec", 1), "not a whole definition"},
		"a number as name": {strings.Replace(plainBefore, "  name: a\nspec", "  name: 1\nspec", 1), "not a whole definition"},
		"no spec":          {"apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: a}\n", "not a whole definition"},
		"a spec that is no map": {
			"apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: a}\nspec: none\n", "the form of this document is not supported",
		},
		"a template that is none": {
			"apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: a}\nspec: {template: [1]}\n", "the form of this document is not supported",
		},
		"no reference":      {strings.Replace(plainBefore, "      nodeClassRef:\n        name: a\n", "", 1), "name the EC2NodeClass"},
		"another reference": {strings.Replace(plainBefore, "nodeClassRef:\n", "nodeClassRef:\n        kind: AKSNodeClass\n", 1), "AKSNodeClass is not an EC2NodeClass"},
		"another policy":    {strings.Replace(plainBefore, "WhenEmpty", "Sometimes", 1), "neither WhenUnderutilized nor WhenEmpty"},
		"an unknown field":  {strings.Replace(plainBefore, "  disruption", "  replicas: 1\n  disruption", 1), "no field of karpenter.sh/v1beta1"},
		"kubelet without a class": {
			strings.Replace(plainBefore, "      requirements", "      kubelet: {maxPods: 1}\n      requirements", 1), "EC2NodeClass a, which is not here",
		},
	} {
		t.Run(name, func(t *testing.T) {
			made := conversion.Convert([]conversion.File{{Name: "a.yaml", Data: []byte(c.text)}}, conversion.Options{})
			if text := report(made); made.Open() == 0 || !strings.Contains(text, c.says) {
				t.Errorf("%q is not in:\n%s", c.says, text)
			}
		})
	}
}
