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

// TestMatch: which nodes do not match the live definitions, before and after Karpenter has annotated its hash.
func TestMatch(t *testing.T) {
	changed := class("default", "userData: hello")
	arm := strings.Replace(pool("general", "default"), "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}", "{key: kubernetes.io/arch, operator: In, values: [arm64]}", 1)
	for name, test := range map[string]struct {
		// lives are the live definitions, noted those that Karpenter has hashed, and madeBy those that the node was
		// created from.
		class, pool             string
		notedClass, notedPool   string
		madeByClass, madeByPool string
		drifted                 string
		foreignBundle           bool
		// inLaunch reports whether the NodeClaim has no instance yet, and no hash of its class.
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
		// Karpenter has not checked again since a removal was reverted, or an edit was: its condition is for the
		// previous definition.
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

// TestAuthoritiesThatWereProvenAreCountedWith: once Karpenter's hash of a class has been reproduced, a change of the
// class is detected before Karpenter has annotated it.
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

// TestWithoutAHashNothingIsKnown: a NodeClaim whose hash was removed, or has another version, does not match, whatever
// Karpenter reports. One that is created after the change does.
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
		// other is what the commit has changed instead of the pool and its class.
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

// matched formats the result of a Match.
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

// resolve makes Karpenter resolve AMIs for the current EC2NodeClass, each with the required node label after an equals
// sign.
func (c *drawnCluster) resolve(t *testing.T, name string, amis ...string) {
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

// TestMatchOfImages: a node drifts from the first AMI that fits its labels, once Karpenter has resolved the AMIs of the
// live spec.
func TestMatchOfImages(t *testing.T) {
	since := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		image, arch string
		amis        []string
		created     time.Time
		// changed reports whether the spec of the class has changed since Karpenter resolved it.
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

// TestAllowedDisruptions: how many nodes the budgets of a pool allow to be disrupted, and when the next window opens.
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

// TestInput: what a node has and what its definitions require, for each of Karpenter's reasons; what no object contains
// is reported as unknown.
func TestInput(t *testing.T) {
	running := plan.Running{Subnet: "subnet-1", SecurityGroups: []string{"sg-2", "sg-1"}}
	for name, test := range map[string]struct {
		reason  string
		change  func(*plan.NodeClaim)
		pool    string
		running plan.Running
		unknown string
		want    plan.Input
	}{
		"an alias that moved":   {reason: "AMIDrift", want: plan.Input{From: "ami-1", To: "ami-2 (al2023@latest)"}},
		"one that moved back":   {reason: "AMIDrift", change: func(c *plan.NodeClaim) { c.Image = "ami-2" }, want: plan.Input{From: "ami-2", To: "ami-2"}},
		"no AMI for its labels": {reason: "AMIDrift", change: func(c *plan.NodeClaim) { c.Labels = plan.PackLabels(map[string]string{"a": "b"}) }, want: plan.Input{From: "ami-1", To: "no AMI of its class (al2023@latest)"}},
		"an AMI that is not noted": {
			reason: "AMIDrift", change: func(c *plan.NodeClaim) { c.Image = "" }, want: plan.Input{To: "the NodeClaim has no AMI in its status"},
		},
		"groups":                 {reason: "SecurityGroupDrift", running: running, want: plan.Input{From: "sg-1, sg-2", To: "sg-1, sg-3"}},
		"groups that EC2 hides":  {reason: "SecurityGroupDrift", unknown: "AWS denies it", want: plan.Input{To: "AWS denies it"}},
		"a subnet, of many":      {reason: "SubnetDrift", running: running, want: plan.Input{From: "subnet-1", To: "subnet-2, subnet-3, subnet-4, subnet-5, subnet-6 and 1 more"}},
		"a reservation":          {reason: "CapacityReservationDrift", running: plan.Running{Reservation: "cr-1"}, want: plan.Input{From: "cr-1", To: "none"}},
		"a placement group":      {reason: "PlacementGroupDrift", want: plan.Input{From: "none", To: "another placement group"}},
		"the hash of its pool":   {reason: "NodePoolDrifted", pool: tainted("general"), want: plan.Input{From: "hash POOL", To: "hash NOTED (v3, hash of spec.template; the hash does not show which field changed)"}},
		"another hash's version": {reason: "NodePoolDrifted", change: func(c *plan.NodeClaim) { c.Hashes = "v0 1\nv0 2" }, want: plan.Input{To: "the hash of NodePool/general is missing or has another version"}},
		"the hash of its class":  {reason: "NodeClassDrift", change: func(c *plan.NodeClaim) { c.Hashes = "\nv6 2" }, want: plan.Input{From: "hash 2", To: "hash CLASS (v6, hash of the spec and the cluster's CA bundle; the hash does not show which field changed)"}},
		"a hash that was taken":  {reason: "NodeClassDrift", change: func(c *plan.NodeClaim) { c.Hashes = "" }, want: plan.Input{To: "the NodeClaim has no hash"}},
		"requirements": {reason: "RequirementsDrifted", change: func(c *plan.NodeClaim) {
			c.Labels = plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": "on-demand"})
		}, want: plan.Input{From: "karpenter.sh/capacity-type=on-demand", To: "karpenter.sh/capacity-type In [spot]"}},
		"requirements that fit": {reason: "RequirementsDrifted", want: plan.Input{To: "its labels match now"}},
		"a type that AWS dropped": {reason: "InstanceTypeNotFound", change: func(c *plan.NodeClaim) {
			c.Labels = plan.PackLabels(map[string]string{"node.kubernetes.io/instance-type": "m1.small", "karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": "a"})
		}, want: plan.Input{From: "m1.small spot a", To: "not offered by AWS"}},
		"a reason to come": {reason: "WeatherDrifted", want: plan.Input{To: "plumbline does not support this drift reason"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			lives := []string{class("default"), pool("general", "default")}
			made, noted := map[string]string{}, map[string]string{}
			for _, text := range lives {
				for key, value := range c.notes(t, text) {
					made[key], noted[key] = value, value
				}
			}
			if test.pool != "" {
				lives[1] = test.pool
				for key, value := range c.notes(t, test.pool) {
					noted[key] = value
				}
			}
			c.have(t, owner, lives...)
			live := plan.Live{Objects: map[render.Ref]*plan.Object{}}
			for _, ref := range []render.Ref{classRef("default"), poolRef("general")} {
				c.Edit(t, ref, "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(noted) })
			}
			c.resolve(t, "default", "ami-2=amd64")
			ids := func(all ...string) (list []any) {
				for _, id := range all {
					list = append(list, map[string]any{"id": id})
				}
				return list
			}
			c.Edit(t, classRef("default"), "karpenter", func(o *unstructured.Unstructured) {
				status := o.Object["status"].(map[string]any)
				status["securityGroups"], status["subnets"] = ids("sg-3", "sg-1"), ids("subnet-7", "subnet-6", "subnet-5", "subnet-4", "subnet-3", "subnet-2")
			})
			for _, ref := range []render.Ref{classRef("default"), poolRef("general")} {
				live.Objects[ref] = plan.NewObject(c.Object(ref))
			}
			claim := plan.NodeClaim{
				Name: "1", UID: "1", Pool: "general", Class: "default", ProviderID: "aws:///a/i-1", Image: "ami-1", Hashes: plan.HashesOf(made),
				Labels: plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64"}),
			}
			if test.change != nil {
				test.change(&claim)
			}
			live.NodeClaims = []plan.NodeClaim{claim}
			m := plan.Match{Live: live, Exact: true, CABundle: bundle, Memory: &plan.MatchMemory{}}
			m.Outdated([]*plan.Object{live.Objects[poolRef("general")]})
			got := m.Input(plan.Outdated{Claim: &live.NodeClaims[0], Reason: test.reason}, test.running, test.unknown)
			hashes := strings.NewReplacer("POOL", made["karpenter.sh/nodepool-hash"], "NOTED", noted["karpenter.sh/nodepool-hash"], "CLASS", noted["karpenter.k8s.aws/ec2nodeclass-hash"])
			test.want.From, test.want.To = hashes.Replace(test.want.From), hashes.Replace(test.want.To)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
