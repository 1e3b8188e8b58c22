package template_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/template"
)

// parse parses a template with one queue, whose properties are these.
func parse(t *testing.T, rest string) *template.Template {
	t.Helper()
	parsed, err := template.Parse(rest)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// scope refers to every resource as <logical ID>-id and <logical ID>-<attribute>.
func scope(parsed *template.Template, parameters map[string]any) template.Scope {
	values := map[string]any{"AWS::Region": "eu-west-1", "AWS::Partition": "aws"}
	maps.Copy(values, parameters)
	return template.Scope{
		Template: parsed, Parameters: values,
		Resource:  func(id string) (string, error) { return id + "-id", nil },
		Attribute: func(id, attribute string) (string, error) { return id + "-" + attribute, nil },
	}
}

func TestFunctions(t *testing.T) {
	const start = `{"Mappings":{"M":{"a":{"b":"mapped"}}},"Conditions":{"Yes":{"Fn::Equals":[{"Ref":"P"},"x"]},"No":{"Fn::Not":[{"Condition":"Yes"}]},
		"Both":{"Fn::And":[{"Condition":"Yes"},{"Condition":"No"}]},"Either":{"Fn::Or":[{"Condition":"Yes"},{"Condition":"No"}]}},
		"Parameters":{"P":{"Type":"String"},"L":{"Type":"CommaDelimitedList"}},"Resources":{"A":{"Type":"T"},"B":{"Type":"T","Properties":{"V":`
	for name, tc := range map[string]struct {
		value string
		want  any
	}{
		"a parameter":               {`{"Ref":"P"}`, "x"},
		"a list parameter":          {`{"Ref":"L"}`, []any{"1", "2"}},
		"a resource":                {`{"Ref":"A"}`, "A-id"},
		"an attribute":              {`{"Fn::GetAtt":["A","Arn"]}`, "A-Arn"},
		"an attribute, with a dot":  {`{"Fn::GetAtt":"A.Arn"}`, "A-Arn"},
		"text":                      {`{"Fn::Sub":"arn:${AWS::Partition}:${A}/${A.Arn}/${!literal}"}`, "arn:aws:A-id/A-Arn/${literal}"},
		"text with variables":       {`{"Fn::Sub":["${x}-${P}",{"x":{"Ref":"A"}}]}`, "A-id-x"},
		"a joined list":             {`{"Fn::Join":["/",["a",{"Ref":"A"},1]]}`, "a/A-id/1"},
		"one of a split text":       {`{"Fn::Select":["1",{"Fn::Split":[",","a,b"]}]}`, "b"},
		"a mapping":                 {`{"Fn::FindInMap":["M","a","b"]}`, "mapped"},
		"a condition that holds":    {`{"Fn::If":["Yes","a","b"]}`, "a"},
		"a condition that does not": {`{"Fn::If":["Both","a",{"Fn::If":["Either","c","d"]}]}`, "c"},
		"no value":                  {`[{"Fn::If":["No","a",{"Ref":"AWS::NoValue"}]},"b"]`, []any{"b"}},
		"a policy's own condition": {
			`{"Condition":{"StringEquals":{"a":"b"}}}`,
			map[string]any{"Condition": map[string]any{"StringEquals": map[string]any{"a": "b"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			parsed := parse(t, start+tc.value+`}}}}`)
			parameters, err := parsed.Values(map[string]string{"P": "x", "L": "1, 2"})
			if err != nil {
				t.Fatal(err)
			}
			got, err := scope(parsed, parameters).Resolve(parsed.Resources["B"].Properties["V"])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("value (-want +got):\n%s", diff)
			}
		})
	}
}

// TestYAML: the short forms of functions are the long ones, and a date is text.
func TestYAML(t *testing.T) {
	parsed := parse(t, `
Resources:
  A: {Type: T}
  B:
    Type: T
    Properties:
      Name: !Sub "${A}-x"
      Arn: !GetAtt A.Arn
      Joined: !Join ["-", [!Ref A, 1, true]]
      Document: {Version: 2012-10-17}
`)
	got, err := scope(parsed, nil).Resolve(parsed.Resources["B"].Properties)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"Name": "A-id-x", "Arn": "A-Arn", "Joined": "A-id-1-true", "Document": map[string]any{"Version": "2012-10-17"}}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}

// TestOrder: a resource comes after what it refers to by any function, or depends on.
func TestOrder(t *testing.T) {
	parsed := parse(t, `{"Resources":{
		"A":{"Type":"T","DependsOn":["E"]},"B":{"Type":"T","Properties":{"x":{"Fn::Sub":"${C.Arn}"}}},
		"C":{"Type":"T","Properties":{"x":[{"Fn::Join":["",[{"Ref":"D"}]]}]}},"D":{"Type":"T","Properties":{"x":{"Fn::GetAtt":["A","Arn"]}}},"E":{"Type":"T"}}}`)
	order, err := parsed.Order()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"E", "A", "D", "C", "B"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestTemplatesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                      "Template format error: JSON not well-formed.",
		`{"Resources":{}}`:       "At least one Resources member must be defined.",
		`{"Resources":{"A":{}}}`: "[/Resources/A] Every Resources object must contain a Type member.",
		`{"Other":1}`:            `unknown field "Other"`,
		`- a`:                    "unsupported structure",
		"Resources: [":           "YAML not well-formed",
		`{"Resources":{"A":{"Type":"T","Properties":{"x":{"Ref":"B"}}}}}`:                                  "Unresolved resource dependencies [B] in the Resources block of the template",
		`{"Resources":{"A":{"Type":"T","DependsOn":"B"},"B":{"Type":"T","Properties":{"x":{"Ref":"A"}}}}}`: "Circular dependency between resources: [A, B]",
		`{"Resources":{"A":{"Type":"T","Condition":"C"}}}`:                                                 "unresolved condition C",
		`{"Resources":{"A":{"Type":"T"}},"Outputs":{"O":{"Value":{"Fn::GetAtt":["B","Arn"]}}}}`:            "Unresolved resource dependencies [B]",
		`{"Resources":{"A":{"Type":"T","DeletionPolicy":"Keep"}}}`:                                         "Unrecognized DeletionPolicy Keep",
	} {
		if _, err := template.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", text, err, want)
		}
	}
}

func TestParametersAreChecked(t *testing.T) {
	parsed := parse(t, `{"Parameters":{"A":{"Type":"String","AllowedPattern":"[a-z]+"},"N":{"Type":"Number","Default":1},"E":{"Type":"String","Default":"x","AllowedValues":["x","y"]}},
		"Resources":{"R":{"Type":"T"}}}`)
	for name, tc := range map[string]struct {
		given map[string]string
		want  string
	}{
		"missing":           {nil, "Parameters: [A] must have values"},
		"unknown":           {map[string]string{"A": "a", "Z": ""}, "Parameters: [Z] do not exist in the template"},
		"another pattern":   {map[string]string{"A": "1"}, "Parameter 'A' must match pattern [a-z]+"},
		"no number":         {map[string]string{"A": "a", "N": "x"}, "Parameter 'N' must be a number."},
		"another value":     {map[string]string{"A": "a", "E": "z"}, "Parameter 'E' must be one of AllowedValues"},
		"all of them valid": {map[string]string{"A": "a", "E": "y", "N": "2"}, ""},
	} {
		got := ""
		if _, err := parsed.Values(tc.given); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: error %q, want %q", name, got, tc.want)
		}
	}
}
