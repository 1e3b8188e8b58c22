package v1alpha1_test

import (
	"strings"
	"testing"
)

// TestProposalsNeedABranchAndAHost that opens pull requests, if the spec shows which host it is.
func TestProposalsNeedABranchAndAHost(t *testing.T) {
	const host, branch = "needs a report on github, gitlab, gitea or forgejo", "needs a source.git.ref that is a branch"
	spec := func(ref, rollout, report string) string {
		return `{source: {git: {url: "https://git.example.com/a/b", ref: ` + ref + `}}, rollout: ` + rollout + `, report: ` + report + `}`
	}
	const asked, gitlab = `{onFailure: BrakeAndPropose}`, `[{provider: gitlab, secretRef: {name: a}}]`
	v := newValidator(t)
	for name, c := range map[string]struct{ spec, want string }{
		"one of two reports": {spec(`{}`, asked, `[{provider: generic, secretRef: {name: a}, url: "https://a"}, {provider: forgejo, secretRef: {name: a}}]`), ""},
		"a branch":           {spec(`{branch: fleet, tag: ""}`, asked, gitlab), ""},
		"not asked for":      {spec(`{tag: v1}`, `{onFailure: Brake}`, `[]`), ""},
		"no report":          {`{source: ` + git + `, rollout: ` + asked + `}`, host},
		"another host":       {spec(`{}`, asked, `[{provider: bitbucket, secretRef: {name: a}}]`), host},
		"a tag":              {spec(`{tag: v1}`, asked, gitlab), branch},
		"a range":            {spec(`{semver: 1.x}`, asked, gitlab), branch},
		"a name":             {spec(`{name: refs/heads/main}`, asked, gitlab), branch},
		"a commit":           {spec(`{branch: main, commit: "`+strings.Repeat("0", 40)+`"}`, asked, gitlab), branch},
		"for drift":          {spec(`{}`, `{unexpectedDrift: BrakeAndPropose}`, gitlab), "spec.rollout.unexpectedDrift"},
	} {
		problems := v.Validate(t.Context(), nodeSync(t, c.spec)).ToAggregate()
		if c.want == "" && problems != nil || c.want != "" && (problems == nil || !strings.Contains(problems.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, problems, c.want)
		}
	}
}
