package bootstrap

import (
	"encoding/json"
	"maps"
	"slices"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// documents are the properties that are policies.
var documents = []string{"AssumeRolePolicyDocument", "PolicyDocument"}

// Diff is the change of a policy, in the unified format.
type Diff struct {
	Resource string `json:"resource"`
	Text     string `json:"text"`
}

// Diffs returns the changes of the policies that both templates have.
func Diffs(before, after Template) ([]Diff, error) {
	var all []Diff
	for _, id := range slices.Sorted(maps.Keys(after.Resources)) {
		old, had := before.Resources[id]
		if !had {
			continue
		}
		for _, property := range documents {
			was, err := indented(old.Properties[property])
			if err != nil {
				return nil, err
			}
			is, err := indented(after.Resources[id].Properties[property])
			if err != nil {
				return nil, err
			}
			if text := udiff.Unified(id+" in the stack", id, was, is); text != "" {
				all = append(all, Diff{id, text})
			}
		}
	}
	return all, nil
}

// indented returns a document as JSON with its keys in order, whatever it was read from.
func indented(document any) (string, error) {
	if document == nil {
		return "", nil
	}
	text, err := json.Marshal(document)
	if err != nil {
		return "", err
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return "", err
	}
	text, err = json.MarshalIndent(plain, "", "  ")
	return string(text) + "\n", err
}

// Additions returns the changes of a stack that is created from a template, for a stack for which CloudFormation computes no
// change set yet. Those in without are left out.
func (t Template) Additions(without Template) []cloud.StackChange {
	var all []cloud.StackChange
	for _, id := range slices.Sorted(maps.Keys(t.Resources)) {
		if _, is := without.Resources[id]; !is {
			all = append(all, cloud.StackChange{Action: "Add", ID: id, Type: t.Resources[id].Type})
		}
	}
	return all
}
