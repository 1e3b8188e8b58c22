package policy_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/policy"
)

// TestDecisions: this evaluator decides every row of plumbline's table as AWS's documentation does. plumbline's evaluator
// shares no code with this one, and has to pass the same table.
func TestDecisions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "provision", "iam", "testdata", "decisions.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Name     string
		Policies []json.RawMessage
		Request  struct {
			Action, Resource, Region        string
			RequestTags, ResourceTags, Keys map[string]string
		}
		Decision string
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) < 80 {
		t.Errorf("%d rows", len(rows))
	}
	for _, r := range rows {
		t.Run(r.Name, func(t *testing.T) {
			var documents []policy.Document
			for _, text := range r.Policies {
				d, err := policy.Parse(string(text))
				if err != nil {
					t.Fatal(err)
				}
				documents = append(documents, d)
			}
			c := policy.Context{}
			c.Set("aws:RequestedRegion", r.Request.Region)
			for key, value := range r.Request.Keys {
				c.Set(key, value)
			}
			service, _, _ := strings.Cut(r.Request.Action, ":")
			for key, value := range r.Request.ResourceTags {
				c.Set("aws:ResourceTag/"+key, value)
				c.Set(service+":ResourceTag/"+key, value)
			}
			for key, value := range r.Request.RequestTags {
				c.Set("aws:RequestTag/"+key, value)
			}
			if len(r.Request.RequestTags) > 0 {
				c.Set("aws:TagKeys", slices.Sorted(maps.Keys(r.Request.RequestTags))...)
			}
			got := policy.Identity(documents, policy.Request{Action: r.Request.Action, Resource: r.Request.Resource, Context: c})
			want := map[string]policy.Decision{"Allow": policy.Allow, "ImplicitDeny": policy.ImplicitDeny, "ExplicitDeny": policy.ExplicitDeny}
			if is, ok := want[r.Decision]; !ok || got != is {
				t.Errorf("decision %d, want %s", got, r.Decision)
			}
		})
	}
}
