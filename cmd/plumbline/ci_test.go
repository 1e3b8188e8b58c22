package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// pipeline is the tested part of a pipeline: a workflow of GitHub or Gitea, or a job of GitLab.
type pipeline struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Steps       []struct {
			Uses string
			Run  string
		}
	}
	Plan struct {
		Script []string
	} `json:"plumbline-plan"`
}

// scripts returns what its jobs run.
func (p pipeline) scripts() []string {
	all := p.Plan.Script
	for _, job := range p.Jobs {
		for _, step := range job.Steps {
			if step.Run != "" {
				all = append(all, step.Run)
			}
		}
	}
	return all
}

func pipelines(t *testing.T) map[string]pipeline {
	t.Helper()
	paths, err := filepath.Glob("../../examples/ci/*.yaml")
	if err != nil || len(paths) != 3 {
		t.Fatalf("%d pipelines: %v", len(paths), err)
	}
	all := map[string]pipeline{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var p pipeline
		if err := yaml.Unmarshal(text, &p); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[filepath.Base(path)] = p
	}
	return all
}

// TestPipelinesCallWhatThereIs: their commands and flags exist in this plumbline, and all make the plan in the same
// way.
func TestPipelinesCallWhatThereIs(t *testing.T) {
	var plan string
	for name, p := range pipelines(t) {
		looked := 0
		for _, script := range p.scripts() {
			found, err := calls(script)
			if err != nil {
				t.Errorf("%s: no shell reads it: %v", name, err)
			}
			for _, args := range found {
				looked++
				if err := parse(args); err != nil {
					t.Errorf("%s: plumbline %s: %v", name, strings.Join(args, " "), err)
				}
			}
			if len(found) == 0 {
				continue
			}
			if plan == "" {
				plan = script
			}
			if diff := cmp.Diff(plan, script); diff != "" {
				t.Errorf("%s plans by another script than the others:\n%s", name, diff)
			}
		}
		if looked != 2 {
			t.Errorf("%s: %d commands were looked at", name, looked)
		}
	}
}

// TestPipelinesHaveFewRights: no repository secret, no write permission together with a branch's files, no action that
// its owner can replace, and no text of a pull request in a script.
func TestPipelinesHaveFewRights(t *testing.T) {
	pinned := regexp.MustCompile(`@[0-9a-f]{40}$`)
	for name, p := range pipelines(t) {
		text, err := os.ReadFile(filepath.Join("../../examples/ci", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, no := range []string{"secrets", "pull_request_target", "id-token"} {
			if strings.Contains(string(text), no) {
				t.Errorf("%s has %s", name, no)
			}
		}
		for _, script := range p.scripts() {
			if strings.Contains(script, "${{") {
				t.Errorf("%s: a value of the event is part of a script: %s", name, script)
			}
		}
		for title, job := range p.Jobs {
			rights := job.Permissions
			if rights == nil {
				rights = p.Permissions
			}
			want := map[string]string{"contents": "read"}
			if title == "comment" {
				want = map[string]string{"pull-requests": "write"}
			}
			if diff := cmp.Diff(want, rights); diff != "" {
				t.Errorf("%s: the rights of %s (-want +got):\n%s", name, title, diff)
			}
			for _, step := range job.Steps {
				if step.Uses != "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s: %s is not pinned", name, step.Uses)
				}
			}
		}
	}
}

// TestTheAuditPipeline: its command exists, it has no right in the repository, and no event's text is part of a script.
func TestTheAuditPipeline(t *testing.T) {
	text, err := os.ReadFile("../../examples/ci/audit/github-actions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var p pipeline
	if err := yaml.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	var found [][]string
	for _, script := range p.scripts() {
		args, err := calls(script)
		if err != nil || strings.Contains(script, "${{") {
			t.Errorf("%s: %v", script, err)
		}
		found = append(found, args...)
	}
	if len(found) != 1 {
		t.Fatalf("commands: %q", found)
	}
	if err := parse(found[0]); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{"id-token": "write"}, p.Jobs["audit"].Permissions); diff != "" || len(p.Permissions) > 0 {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
	for _, event := range []string{"pull_request", "push"} {
		if strings.Contains(string(text), event+":") {
			t.Errorf("%s starts it", event)
		}
	}
}
