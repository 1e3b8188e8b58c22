package iam

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// row is one row of testdata/decisions.json, which the evaluator of the sandbox's AWS has to pass as well.
type row struct {
	Name string
	// Source is the page of AWS's documentation with the rule.
	Source   string
	Policies []json.RawMessage
	Request  struct {
		Action, Resource, Region        string
		RequestTags, ResourceTags, Keys map[string]string
	}
	// Decision is AWS's: Allow, ImplicitDeny or ExplicitDeny.
	Decision string
	// Unknown is in the reason if plumbline does not evaluate the policies; empty if it does.
	Unknown string
}

func TestDecisions(t *testing.T) {
	text, err := os.ReadFile("testdata/decisions.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		t.Run(r.Name, func(t *testing.T) {
			if !strings.HasPrefix(r.Source, "https://docs.aws.amazon.com/") {
				t.Errorf("source %q is not AWS's documentation", r.Source)
			}
			var policies []Document
			for _, text := range r.Policies {
				policies = append(policies, parsed(t, string(text)))
			}
			got := Evaluate(policies, Request(r.Request))
			want := map[string]Decision{"Allow": Allowed, "ImplicitDeny": Denied, "ExplicitDeny": Denied}[r.Decision]
			if r.Unknown != "" {
				want = Unknown
			}
			if got.Decision != want || !strings.Contains(got.Reason, r.Unknown) || (got.Reason != "") != (want == Unknown) {
				t.Errorf("%+v, want %s %s", got, want, r.Unknown)
			}
		})
	}
}

func parsed(t *testing.T, text string) Document {
	t.Helper()
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return d
}

func TestParseRejects(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"no JSON":           {`{`, "unexpected EOF"},
		"more than one":     {`{"Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]} {}`, "text follows"},
		"no statement":      {`{"Version":"2012-10-17","Statement":[]}`, "it has no statement"},
		"another version":   {`{"Version":"2020-01-01","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`, `Version is "2020-01-01"`},
		"another effect":    {`{"Statement":[{"Effect":"Maybe","Action":"*","Resource":"*"}]}`, `statement 1: its Effect is "Maybe"`},
		"both actions":      {`{"Statement":[{"Effect":"Allow","Action":"*","NotAction":"*","Resource":"*"}]}`, "either Action or NotAction"},
		"no resource":       {`{"Statement":[{"Effect":"Allow","Action":"*"}]}`, "either Resource or NotResource"},
		"a trust policy":    {`{"Statement":[{"Effect":"Allow","Principal":"*","Action":"*"}]}`, `unknown field "Principal"`},
		"a resource's":      {`{"Statement":{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}}`, `unknown field "Principal"`},
		"an unknown word":   {`{"Statement":[{"Effect":"Allow","Action":"*","Resource":"*","Colour":"red"}]}`, `unknown field "Colour"`},
		"a value of a kind": {`{"Statement":[{"Effect":"Allow","Action":{"a":1},"Resource":"*"}]}`, "is no text"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %s", err, c.says)
			}
		})
	}
}

func TestParseAcceptsSingleValues(t *testing.T) {
	d := parsed(t, `{"Id": "x", "Statement": {"Effect": "Allow", "Action": "a:b", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": true}}}}`)
	if got := d.Statement[0].Condition["Bool"]["aws:SecureTransport"]; len(got) != 1 || got[0] != "true" {
		t.Errorf("condition %v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"Statement":[{"Effect":"Allow","Action":"ec2:*","Resource":"arn:aws:ec2:*","Condition":{"ForAllValues:StringLike":{"aws:TagKeys":["*"]}}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse([]byte(text))
		if err != nil {
			return
		}
		Evaluate([]Document{d}, Request{Action: "ec2:CreateTags", Resource: "arn:aws:ec2:eu-west-1:1:instance/i-1", RequestTags: map[string]string{"a": "b"}})
	})
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		like, within  bool
	}{
		{"a", "a", true, true},
		{"a", "b", false, false},
		{"", "", true, true},
		{"*", "", true, true},
		{"?", "", false, false},
		{"a*", "a:b", true, true},
		{"*:b", "a:a:b", true, true},
		{"a*b", "a:b", true, false},
		{"a*b", "axb", true, true},
		{"a?b", "a:b", true, false},
		{"**", "a:b", true, true},
		{"a*c*e", "abcde", true, true},
		{"a*c", "abcd", false, false},
		{"?", "é", true, true},
		{strings.Repeat("a*", 50) + "b", strings.Repeat("a", 200), false, false},
	} {
		if like, within := like(c.pattern, c.text), matches(c.pattern, c.text, true); like != c.like || within != c.within {
			t.Errorf("%q, %q: %v, within parts %v", c.pattern, c.text, like, within)
		}
	}
}
