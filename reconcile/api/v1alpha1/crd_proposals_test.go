package v1alpha1_test

import (
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
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

// TestImageTrain: what the daemon cannot propose is refused, and so are ages and schedules of another form.
func TestImageTrain(t *testing.T) {
	const gitlab = `[{provider: gitlab, secretRef: {name: a}}]`
	spec := func(ref, images, report string) string {
		return `{source: {git: {url: "https://git.example.com/a/b", ref: ` + ref + `}}, images: ` + images + `, report: ` + report + `}`
	}
	v := newValidator(t)
	for name, c := range map[string]struct{ spec, want string }{
		"all fields":     {spec(`{}`, `{propose: true, minAge: 3d12h, maxAge: 30d, schedule: "0 9 * * mon", group: prod, secretRef: {name: b}}`, gitlab), ""},
		"not asked for":  {spec(`{tag: v1}`, `{propose: false, maxAge: 30d}`, `[]`), ""},
		"no host":        {spec(`{}`, `{propose: true}`, `[]`), "images.propose needs a report on github"},
		"a tag":          {spec(`{tag: v1}`, `{propose: true}`, gitlab), "images.propose needs a source.git.ref that is a branch"},
		"a wrong age":    {spec(`{}`, `{propose: true, minAge: soon}`, gitlab), "spec.images.minAge"},
		"a wrong time":   {spec(`{}`, `{propose: true, schedule: monday}`, gitlab), "five fields of cron"},
		"a wrong group":  {spec(`{}`, `{propose: true, group: A_b}`, gitlab), "spec.images.group"},
		"another source": {`{source: {sourceRef: {kind: GitRepository, name: a}}, images: {propose: true}, report: [{provider: gitlab, url: "https://a/b/c", secretRef: {name: a}}]}`, "source.git.ref that is a branch"},
	} {
		problems := v.Validate(t.Context(), nodeSync(t, c.spec)).ToAggregate()
		if c.want == "" && problems != nil || c.want != "" && (problems == nil || !strings.Contains(problems.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, problems, c.want)
		}
	}
}

// TestAges: days are 24 hours.
func TestAges(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 72 * time.Hour, "72h": 72 * time.Hour, "3d": 72 * time.Hour, "1d12h": 36 * time.Hour, "0s": 0, "12h1d": -1} {
		got, err := (&v1alpha1.ImageTrain{MinAge: text}).GetMinAge()
		if want < 0 != (err != nil) || err == nil && got != want {
			t.Errorf("%q: got %s, %v", text, got, err)
		}
	}
	if got, err := (&v1alpha1.ImageTrain{}).GetMaxAge(); got != 0 || err != nil {
		t.Errorf("got %s, %v: there is no limit by default", got, err)
	}
}
