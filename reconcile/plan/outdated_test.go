package plan_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestMatch: which nodes do not match what lives, before and after Karpenter has noted its hash.
func TestMatch(t *testing.T) {
	changed := class("default", "userData: hello")
	arm := strings.Replace(pool("general", "default"), "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}", "{key: kubernetes.io/arch, operator: In, values: [arm64]}", 1)
	for name, test := range map[string]struct {
		// lives is what the cluster has, noted what Karpenter has hashed, madeBy what the node was.
		class, pool             string
		notedClass, notedPool   string
		madeByClass, madeByPool string
		drifted                 string
		foreignBundle           bool
		// inLaunch says that the NodeClaim has no instance yet, and no hash of its class.
		inLaunch     bool
		exact, noted string
	}{
		"all matches": {},
		"another template, noted": {
			pool: tainted("general"), notedPool: tainted("general"), exact: "NodePoolDrifted", noted: "NodePoolDrifted",
		},
		"another template, not noted yet": {pool: tainted("general"), exact: "NodePoolDrifted"},
		"a revert, not noted yet":         {notedPool: tainted("general"), noted: "NodePoolDrifted"},
		"other requirements":              {pool: arm, exact: "RequirementsDrifted"},
		"another class, noted":            {class: changed, notedClass: changed, exact: "NodeClassDrift", noted: "NodeClassDrift"},
		"another class, not noted yet, of a cluster whose authorities are not proven": {class: changed, exact: "unsure"},
		"authorities that are not Karpenter's":                                        {foreignBundle: true, exact: "unsure"},
		"in launch: the hash of its class is noted with the instance":                 {inLaunch: true},
		"in launch, of another template":                                              {inLaunch: true, pool: tainted("general"), exact: "NodePoolDrifted"},
		// Karpenter has not looked again since a removal was taken back, or an edit: its condition is the
		// former one's.
		"found by Karpenter by another template":   {drifted: "NodePoolDrifted", noted: "NodePoolDrifted"},
		"found by Karpenter by other requirements": {drifted: "RequirementsDrifted", noted: "RequirementsDrifted"},
		"found by Karpenter":                       {drifted: "AMIDrift", exact: "AMIDrift", noted: "AMIDrift"},
	} {
		t.Run(name, func(t *testing.T) {
			or := func(text, other string) string {
				if text == "" {
					return other
				}
				return text
			}
			c := newCluster(t)
			lives := []string{or(test.class, class("default")), or(test.pool, pool("general", "default"))}
			noted := []string{or(test.notedClass, class("default")), or(test.notedPool, pool("general", "default"))}
			c.have(t, owner, lives...)
			made := map[string]string{}
			for i, text := range noted {
				notes := c.notes(t, text)
				c.Edit(t, c.Definition(t, lives[i]).Ref, "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(notes) })
			}
			for _, text := range []string{or(test.madeByClass, class("default")), or(test.madeByPool, pool("general", "default"))} {
				for key, value := range c.notes(t, text) {
					made[key] = value
				}
			}
			instance := "aws:///a/i-1"
			if test.inLaunch {
				instance = ""
				for key := range c.notes(t, class("default")) {
					delete(made, key)
				}
			}
			c.resolve(t, "default", "ami-1")
			live := plan.Live{Objects: map[render.Ref]*plan.Object{}}
			for _, text := range lives {
				ref := c.Definition(t, text).Ref
				live.Objects[ref] = plan.NewObject(c.Object(ref))
			}
			live.NodeClaims = []plan.NodeClaim{{
				Name: "1", UID: "1", Pool: "general", Class: "default", ProviderID: instance, Image: "ami-1", Hashes: plan.HashesOf(made),
				Labels:  plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64"}),
				Drifted: test.drifted != "", DriftReason: test.drifted,
			}, {Name: "2", UID: "2", Pool: "of-another", Drifted: true, DriftReason: "AMIDrift"}}
			authorities := bundle
			if test.foreignBundle {
				authorities = "others"
			}
			for exact, want := range map[bool]string{true: test.exact, false: test.noted} {
				m := plan.Match{Live: live, Exact: exact, CABundle: authorities, Memory: &plan.MatchMemory{}}
				found := m.Outdated([]*plan.Object{live.Objects[poolRef("general")]})
				if diff := cmp.Diff(want, strings.Join(matched(found), " ")); diff != "" {
					t.Errorf("exact %t (-want +got):\n%s", exact, diff)
				}
			}
		})
	}
}

// TestAuthoritiesThatWereProvenAreCountedWith: once Karpenter's hash of a class has come out, a
// change of it is seen before Karpenter has noted it.
func TestAuthoritiesThatWereProvenAreCountedWith(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("general", "default"))
	before := c.notes(t, class("default"))
	for _, text := range []string{class("default"), pool("general", "default")} {
		notes := c.notes(t, text)
		for key, value := range notes {
			before[key] = value
		}
		c.Edit(t, c.Definition(t, text).Ref, "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(notes) })
	}
	c.resolve(t, "default", "ami-1")
	memory := &plan.MatchMemory{}
	look := func() []string {
		ref := render.Ref{Kind: render.EC2NodeClass, Name: "default"}
		live := plan.Live{
			Objects: map[render.Ref]*plan.Object{ref: plan.NewObject(c.Object(ref)), poolRef("general"): plan.NewObject(c.Object(poolRef("general")))},
			NodeClaims: []plan.NodeClaim{{
				Name: "1", Pool: "general", Class: "default", Hashes: plan.HashesOf(before), Labels: plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": "spot"}),
			}},
		}
		return matched(plan.Match{Live: live, Exact: true, CABundle: bundle, Memory: memory}.Outdated([]*plan.Object{live.Objects[poolRef("general")]}))
	}
	if got := look(); got != nil {
		t.Errorf("before the change: %v", got)
	}
	c.have(t, owner, class("default", "userData: hello"))
	c.resolve(t, "default", "ami-1")
	if diff := cmp.Diff([]string{"NodeClassDrift"}, look()); diff != "" {
		t.Errorf("after it (-want +got):\n%s", diff)
	}
}

// TestWithoutAHashNothingIsKnown: a NodeClaim whose hash was taken off, or is of another version, does
// not match, whatever Karpenter says of it. One that is made after the change does.
func TestWithoutAHashNothingIsKnown(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("general", "default"))
	made := map[string]string{}
	for _, text := range []string{class("default"), pool("general", "default")} {
		notes := c.notes(t, text)
		for key, value := range notes {
			made[key] = value
		}
		c.Edit(t, c.Definition(t, text).Ref, "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(notes) })
	}
	c.resolve(t, "default", "ami-1")
	since := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		edit  func()
		after time.Duration
		// other is what the commit has changed, if not the pool and its class.
		other string
		want  []string
	}{
		"as they were":          {edit: func() {}},
		"of another version":    {edit: func() { made["karpenter.sh/nodepool-hash-version"] = "v0" }, want: []string{"1"}},
		"the pool's taken":      {edit: func() { delete(made, "karpenter.sh/nodepool-hash") }, want: []string{"1"}},
		"the class' taken":      {edit: func() { delete(made, "karpenter.k8s.aws/ec2nodeclass-hash") }, want: []string{"1"}},
		"a pool not changed":    {edit: func() { delete(made, "karpenter.sh/nodepool-hash") }, other: "EC2NodeClass/default"},
		"made after the change": {edit: func() { delete(made, "karpenter.sh/nodepool-hash") }, after: time.Minute},
	} {
		whole := maps.Clone(made)
		test.edit()
		live := plan.Live{Objects: map[render.Ref]*plan.Object{}, NodeClaims: []plan.NodeClaim{{
			Name: "1", UID: "1", Pool: "general", Class: "default", ProviderID: "aws:///a/i-1", Image: "ami-1", Hashes: plan.HashesOf(made),
			Labels: plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64"}), Created: since.Add(test.after - time.Second),
		}}}
		made = whole
		for _, ref := range []render.Ref{classRef("default"), poolRef("general")} {
			live.Objects[ref] = plan.NewObject(c.Object(ref))
		}
		m := plan.Match{Live: live, Exact: true, CABundle: bundle, Since: since, Memory: &plan.MatchMemory{}}
		if m.Unhashed = []string{"NodePool/general", "EC2NodeClass/default"}; test.other != "" {
			m.Unhashed = []string{test.other}
		}
		if diff := cmp.Diff(test.want, m.Outdated([]*plan.Object{live.Objects[poolRef("general")]}).Unknown); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// matched is what a Match has found, in words.
func matched(m plan.Matched) (words []string) {
	for _, o := range m.Outdated {
		words = append(words, o.Reason)
	}
	if m.Unsure {
		words = append(words, "unsure")
	}
	for _, class := range m.Unresolved {
		words = append(words, "unresolved:"+class)
	}
	return words
}

// resolve has Karpenter find AMIs for an EC2NodeClass as it is, each with what a node has to be
// after an equals sign.
func (c *cluster) resolve(t *testing.T, name string, amis ...string) {
	t.Helper()
	c.Edit(t, classRef(name), "karpenter", func(o *unstructured.Unstructured) {
		var found []any
		for _, text := range amis {
			id, arch, some := strings.Cut(text, "=")
			requirement := map[string]any{"key": "kubernetes.io/arch", "operator": "Exists"}
			if some {
				requirement = map[string]any{"key": "kubernetes.io/arch", "operator": "In", "values": []any{arch}}
			}
			found = append(found, map[string]any{"id": id, "requirements": []any{requirement}})
		}
		o.Object["status"] = map[string]any{"amis": found, "conditions": []any{
			map[string]any{"type": "AMIsReady", "status": "True", "observedGeneration": o.GetGeneration()},
		}}
	})
}

// TestMatchOfImages: a node is outdated by the first AMI that fits its labels, once Karpenter has
// looked for those of the spec that lives.
func TestMatchOfImages(t *testing.T) {
	since := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		image, arch string
		amis        []string
		created     time.Time
		// changed says that the class has another spec since Karpenter has looked.
		changed, deleting bool
		want              string
	}{
		"its AMI":                               {image: "ami-1", amis: []string{"ami-1"}},
		"another":                               {image: "ami-0", amis: []string{"ami-1"}, want: "AMIDrift"},
		"a newer one fits":                      {image: "ami-1", amis: []string{"ami-2", "ami-1"}, want: "AMIDrift"},
		"a newer one of another architecture":   {image: "ami-1", amis: []string{"ami-2=arm64", "ami-1=amd64"}},
		"its own is of another architecture":    {image: "ami-1", amis: []string{"ami-1=arm64"}, want: "AMIDrift"},
		"none at all, where Karpenter waits":    {image: "ami-1"},
		"Karpenter has yet to look":             {image: "ami-0", amis: []string{"ami-1"}, changed: true, want: "unresolved:default"},
		"it has yet to look, of one that goes":  {image: "ami-0", amis: []string{"ami-1"}, changed: true, deleting: true},
		"in launch since before the change":     {amis: []string{"ami-1"}, created: since.Add(-time.Second), want: "unresolved:default"},
		"in launch since after it":              {amis: []string{"ami-1"}, created: since.Add(time.Second)},
		"requirements that nobody has labelled": {image: "ami-1", arch: "-", amis: []string{"ami-1=amd64"}, want: "AMIDrift"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("general", "default"))
			c.resolve(t, "default", test.amis...)
			if test.changed {
				c.edit(t, classRef("default"), "kubectl", []any{map[string]any{"alias": "al2023@v20260101"}}, "spec", "amiSelectorTerms")
				c.Edit(t, classRef("default"), "kubectl", func(o *unstructured.Unstructured) { o.SetGeneration(o.GetGeneration() + 1) })
			}
			labels := map[string]string{"karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64"}
			if test.arch == "-" {
				delete(labels, "kubernetes.io/arch")
			}
			hashes := map[string]string{}
			for _, text := range []string{class("default"), pool("general", "default")} {
				notes := c.notes(t, text)
				c.Edit(t, c.Definition(t, text).Ref, "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(notes) })
				for key, value := range notes {
					hashes[key] = value
				}
			}
			live := plan.Live{Objects: plan.NewObjects(c.Objects()), NodeClaims: []plan.NodeClaim{{
				Name: "1", Pool: "general", Class: "default", Image: test.image, Labels: plan.PackLabels(labels), Hashes: plan.HashesOf(hashes), Created: test.created, Deleting: test.deleting,
			}}}
			m := plan.Match{Live: live, Exact: true, CABundle: bundle, Since: since, Memory: &plan.MatchMemory{}}
			if diff := cmp.Diff(test.want, strings.Join(matched(m.Outdated([]*plan.Object{live.Objects[poolRef("general")]})), " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAllowedDisruptions: how many nodes the budgets of a pool let go, and when the next window
// opens.
func TestAllowedDisruptions(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC) // a Tuesday
	for budgets, want := range map[string]plan.Allowed{
		`[]`:                {Now: 10},
		`[{nodes: "10%"}]`:  {Now: 1},
		`[{nodes: "0"}]`:    {},
		`[{nodes: "100%"}]`: {Now: 10},
		`[{nodes: "0", schedule: "0 9 * * mon-fri", duration: 8h}]`:                                                              {Next: 10, At: now.Add(5 * time.Hour)},
		`[{nodes: "3"}, {nodes: "0", schedule: "0 9 * * mon-fri", duration: 8h}]`:                                                {Next: 3, At: now.Add(5 * time.Hour)},
		`[{nodes: "0", schedule: "0 13 * * *", duration: 1h}]`:                                                                   {Now: 10},
		`[{nodes: "0", reasons: [Empty]}]`:                                                                                       {Now: 10},
		`[{nodes: "0", schedule: "0 0 * * *", duration: 24h}]`:                                                                   {},
		`[{nodes: "0", schedule: "0 0 * * *", duration: 20h}, {nodes: "0", schedule: "0 20 * * sun,mon,tue,wed", duration: 4h}]`: {Next: 10, At: time.Date(2026, 11, 26, 20, 0, 0, 0, time.UTC)},
	} {
		c := newCluster(t)
		c.have(t, owner, class("default"), pool("general", "default", "disruption: {consolidateAfter: 0s, budgets: "+budgets+"}"))
		if diff := cmp.Diff(want, plan.AllowedDisruptions(plan.NewObject(c.Object(poolRef("general"))), 10, now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", budgets, diff)
		}
	}
}
